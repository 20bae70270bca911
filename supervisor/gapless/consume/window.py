"""Which unit of a claimed range may be called next, and how far the offset may move (pure)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set

from gapless.consume.unit import Span


class Window:
    """Neighbouring units of the log; each is open, in hand, or finished.

    keys: of each unit, by its first offset. finished: first offsets of those finished before.
    """

    def __init__(
        self,
        spans: Sequence[Span],
        keys: Mapping[int, Set[bytes]],
        finished: Collection[int] = (),
    ) -> None:
        self._spans = [span for span in spans if span.first_offset not in finished]
        self._all = [(span.first_offset, span.last_offset) for span in spans]
        self._keys = keys
        self._in_hand: set[int] = set()
        self._finished = {first for first, _ in self._all if first in finished}

    @property
    def first_offset(self) -> int:
        return self._all[0][0]

    def take(self) -> Span | None:
        """Take the first open unit in hand that shares no key with an earlier unfinished one."""
        busy: set[bytes] = set()
        for span in self._spans:
            first = span.first_offset
            if first not in self._in_hand and self._keys[first].isdisjoint(busy):
                self._in_hand.add(first)
                return span
            busy |= self._keys[first]
        return None

    def finish(self, firsts: Collection[int]) -> None:
        """Say that these units need no other call."""
        self._finished.update(firsts)
        self._in_hand.difference_update(firsts)
        self._spans = [span for span in self._spans if span.first_offset not in self._finished]

    def prefix(self, also: Collection[int] = ()) -> tuple[int, int]:
        """Return how many units at the begin are finished, with `also`, and the offset after."""
        finished = self._finished.union(also)
        count, after = 0, self.first_offset
        for first, last in self._all:
            if first not in finished:
                break
            count, after = count + 1, last + 1
        return count, after
