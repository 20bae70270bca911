"""The units of the log that may be called next, and the limit of the offset (pure).

The window slides: units enter at its end as they are read from the log, and leave at its beginning
once the offset has passed them. A unit is open, in hand, or finished.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from heapq import heappop, heappush
from itertools import islice

from gapless.consume.unit import Span


class Window:
    """Neighbouring units of the log from the group's offset on."""

    def __init__(self) -> None:
        self._units: dict[int, Span] = {}  # by first offset, ascending: those not passed
        self._keys: dict[int, Set[bytes]] = {}
        self._queues: defaultdict[bytes, deque[int]] = defaultdict(deque)  # unfinished, by key
        self._behind: dict[int, int] = {}  # open units: the number of queues with others in front
        self._ready: list[int] = []  # heap of the open units with none in front
        self._finished: set[int] = set()

    @property
    def events(self) -> int:
        """The number of events in it."""
        return self.end - self.begin

    @property
    def begin(self) -> int:
        """The offset of its first unit; 0 when it is empty."""
        return next(iter(self._units), 0)

    @property
    def end(self) -> int:
        """The offset after its last unit; 0 when it is empty."""
        return self._units[next(reversed(self._units))].last_offset + 1 if self._units else 0

    @property
    def open(self) -> int:
        """The number of units that were not taken in hand yet."""
        return len(self._behind)

    @property
    def first_ready(self) -> int | None:
        """The first offset of the unit that take() would take."""
        return self._ready[0] if self._ready else None

    def unfinished(self) -> Sequence[Span]:
        """Return the units that are open or in hand, in offset order."""
        return [span for first, span in self._units.items() if first not in self._finished]

    def span(self, first_offset: int) -> Span:
        """Return the place of a unit."""
        return self._units[first_offset]

    def extend(
        self,
        spans: Iterable[Span],
        keys: Mapping[int, Set[bytes]],
        finished: Collection[int] = (),
    ) -> None:
        """Append units that follow its end; `finished`: those finished before, by first offset."""
        for span in spans:
            first = span.first_offset
            self._units[first] = span
            if first in finished:
                self._finished.add(first)
                continue
            self._keys[first] = keys[first]
            behind = 0
            for key in keys[first]:
                queue = self._queues[key]
                behind += bool(queue)
                queue.append(first)
            self._behind[first] = behind
            if not behind:
                heappush(self._ready, first)

    def take(self) -> Span | None:
        """Take the first open unit in hand that shares no key with an earlier unfinished one."""
        if not self._ready:
            return None
        first = heappop(self._ready)
        del self._behind[first]
        return self._units[first]

    def untake(self, first_offset: int) -> None:
        """Make a unit in hand open again."""
        self._behind[first_offset] = 0
        heappush(self._ready, first_offset)

    def finish(self, firsts: Iterable[int]) -> None:
        """Mark these units in hand as finished: they need no other call."""
        for first in firsts:
            self._finished.add(first)
            for key in self._keys.pop(first):
                queue = self._queues[key]
                assert queue[0] == first
                queue.popleft()
                if not queue:
                    del self._queues[key]
                    continue
                self._behind[queue[0]] -= 1
                if not self._behind[queue[0]]:
                    heappush(self._ready, queue[0])

    def prefix(self, also: Collection[int] = ()) -> tuple[int, int]:
        """Return the number of finished units at the beginning, and the offset after them.

        also: units that count as finished. The offset is 0 when the window is empty.
        """
        count = after = 0
        for first, span in self._units.items():
            if first not in self._finished and first not in also:
                return count, after or first
            count, after = count + 1, span.last_offset + 1
        return count, after

    def pass_(self, count: int) -> None:
        """Remove the first `count` units."""
        for first in list(islice(self._units, count)):
            del self._units[first]
            self._finished.discard(first)
