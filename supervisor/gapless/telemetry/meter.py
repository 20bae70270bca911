"""Counters in memory that the processes of a supervisor share: no pipe, no file, no wait.

It is made before the first fork. A row has one writer at a time: a child, or the supervisor. It
belongs to one group and topic forever and is never cleared, so a reader's sums only grow. Its words
are aligned and have 64 bits, so a reader never sees half a value.
"""

from __future__ import annotations

import mmap
import threading
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from time import perf_counter
from typing import Literal

Operation = Literal["process", "claim", "commit", "publish", "sequence"]
Event = Literal["takeover", "fenced", "restart"]
OPERATIONS: tuple[Operation, ...] = ("process", "claim", "commit", "publish", "sequence")
EVENTS: tuple[Event, ...] = ("takeover", "fenced", "restart")
BOUNDS_S = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
    10.0, 60.0,
)  # fmt: skip
OTHER = "_OTHER"
"""The label of counts without room for a name of their own, as OpenTelemetry calls it."""

_WORD_BYTES = 8
_LABEL_BYTES = 1024  # of group and topic
_COUNTERS = 32  # with a name, in each row
_NAME_BYTES = 512
_TIMES = len(BOUNDS_S) + 2  # a histogram: its buckets, the last without bound, and the sum in ns
_WORDS = len(EVENTS) + len(OPERATIONS) * _TIMES + _COUNTERS
_NAMES_AT = _LABEL_BYTES + _WORDS * _WORD_BYTES
_ROW_BYTES = -(-(_NAMES_AT + _COUNTERS * _NAME_BYTES) // _WORD_BYTES) * _WORD_BYTES
_MARK = "\x1f"  # between the parts of a name
_UNWRITABLE = {0: "_", ord(_MARK): "_"}  # in a topic's name, which may be any text


@dataclass(slots=True)
class Times:
    """A histogram: the number of times up to each of BOUNDS_S and above the one before.

    The last of `counts` has no bound.
    """

    counts: list[int]
    sum_s: float


@dataclass(frozen=True, slots=True)
class Reading:
    """The contents of one row; consumed by error_type, sent by (topic, error_type)."""

    group: str
    topic: str
    events: dict[Event, int]
    times: dict[Operation, Times]
    consumed: dict[str, int]
    sent: dict[tuple[str, str], int]


class Meters:
    """All rows, made by a supervisor before it forks; at most `rows_max` of them.

    Pages that are never touched take no memory.
    """

    def __init__(self, rows_max: int) -> None:
        self._rows_max = rows_max
        self._memory = memoryview(mmap.mmap(-1, _WORD_BYTES + rows_max * _ROW_BYTES))
        self._used = self._memory[:_WORD_BYTES].cast("q")
        self._free: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
        self._taken: dict[int, tuple[tuple[str, str], int]] = {}  # by writer
        self._own: dict[tuple[str, str], int] = {}  # the maker's writer numbers

    def take(self, who: int, group: str = "", topic: str = "") -> None:
        """Give a row to a writer, before it is forked; if none is left, it counts nothing."""
        label = group, topic
        if self._free[label]:
            self._taken[who] = label, self._free[label].pop()
        elif self._used[0] < self._rows_max:
            row = self._used[0]
            text = _MARK.join(label).encode()[:_LABEL_BYTES]
            begin = _WORD_BYTES + row * _ROW_BYTES
            self._memory[begin : begin + len(text)] = text
            self._used[0] = row + 1  # last: from now on it is read
            self._taken[who] = label, row

    def give_back(self, who: int) -> None:
        """Take back the row of a writer that has ended; its counts stay."""
        if who in self._taken:
            label, row = self._taken.pop(who)
            self._free[label].append(row)

    def own(self, group: str, topic: str, event: Event) -> None:
        """Count an event of a group that the maker of the rows saw, not a child."""
        who = self._own.setdefault((group, topic), -1 - len(self._own))
        if who not in self._taken:
            self.take(who, group, topic)
        meter = self.meter(who)
        if meter is not None:
            meter.happened(event)

    def meter(self, who: int) -> Meter | None:
        """Return the meter of a writer; None if it has no row."""
        return Meter(self._row(self._taken[who][1])) if who in self._taken else None

    def longer(self, operation: Operation, bound_s: float) -> dict[tuple[str, str], dict[int, int]]:
        """Return the number of operations longer than one of BOUNDS_S: by group and topic, by row.

        Only writers that have not ended are counted; only the maker of the rows may ask.
        """
        end = len(EVENTS) + (OPERATIONS.index(operation) + 1) * _TIMES - 1
        begin = end + bisect_left(BOUNDS_S, bound_s) - len(BOUNDS_S)
        found: defaultdict[tuple[str, str], dict[int, int]] = defaultdict(dict)
        for label, row in self._taken.values():
            words = self._row(row)[_LABEL_BYTES:_NAMES_AT].cast("q")
            found[label][row] = sum(words[begin:end])
        return found

    def read(self) -> Iterator[Reading]:
        """Yield the present contents of each row, in any process."""
        for row in range(self._used[0]):
            yield Meter(self._row(row)).read()

    def _row(self, row: int) -> memoryview:
        begin = _WORD_BYTES + row * _ROW_BYTES
        return self._memory[begin : begin + _ROW_BYTES]


class Meter:
    """One row, for its only writer; any of its threads may write."""

    def __init__(self, row: memoryview) -> None:
        self._row = row
        words = row[_LABEL_BYTES:_NAMES_AT].cast("q")
        self._events = words[: len(EVENTS)]
        times = words[len(EVENTS) : -_COUNTERS]
        self._times: dict[Operation, memoryview] = {
            name: times[n * _TIMES : (n + 1) * _TIMES] for n, name in enumerate(OPERATIONS)
        }
        self._counts = words[-_COUNTERS:]
        self._places = {name: n for n, name in self._names()}
        self._lock = threading.Lock()

    def consumed(self, events: int, error_type: str = "") -> None:
        """Count the events of a call of a handler."""
        self._count("consumed", "", error_type, events)

    def sent(self, topic: str, events: int, error_type: str = "") -> None:
        """Count the events of a call of publish()."""
        self._count("sent", topic, error_type, events)

    def happened(self, event: Event) -> None:
        """Count a rare event."""
        with self._lock:
            self._events[EVENTS.index(event)] += 1

    def took(self, operation: Operation, took_s: float) -> None:
        """Note the duration of one operation."""
        with self._lock:
            times = self._times[operation]
            times[bisect_left(BOUNDS_S, took_s)] += 1
            times[-1] += int(took_s * 1e9)

    def took_all(self, operation: Operation, counts: list[int], sum_s: float) -> None:
        """Note the durations of several operations, in the form of Times."""
        with self._lock:
            times = self._times[operation]
            for n, count in enumerate(counts):
                if count:
                    times[n] += count
            times[-1] += int(sum_s * 1e9)

    def spent_s(self, operation: Operation) -> float:
        """Return the total duration of these operations so far."""
        return self._times[operation][-1] / 1e9

    def read(self) -> Reading:
        """Return the counts so far."""
        label = bytes(self._row[:_LABEL_BYTES]).rstrip(b"\0").decode(errors="replace")
        group, _, topic = label.partition(_MARK)
        consumed: dict[str, int] = {}
        sent: dict[tuple[str, str], int] = {}
        for n, name in self._names():
            what, to_topic, error_type = name.split(_MARK)
            if what == "consumed":
                consumed[error_type] = self._counts[n]
            else:
                sent[to_topic, error_type] = self._counts[n]
        return Reading(
            group=group,
            topic=topic,
            events={name: self._events[n] for n, name in enumerate(EVENTS)},
            times={
                name: Times(counts=times[:-1].tolist(), sum_s=times[-1] / 1e9)
                for name, times in self._times.items()
            },
            consumed=consumed,
            sent=sent,
        )

    def _count(self, what: str, topic: str, error_type: str, events: int) -> None:
        name = _MARK.join((what, topic.translate(_UNWRITABLE), error_type))
        with self._lock:
            place = self._places.get(name)
            if place is None:
                place = self._place(name, _MARK.join((what, OTHER if topic else "", OTHER)))
            self._counts[place] += events

    def _place(self, name: str, other: str) -> int:
        """Find room for a new name; the last two places take all names without room."""
        free = len(self._places)
        if free >= _COUNTERS - 2 or len(name.encode(errors="replace")) > _NAME_BYTES:
            name = other
            if name in self._places:
                return self._places[name]
        begin = _NAMES_AT + free * _NAME_BYTES
        text = name.encode(errors="replace")
        self._row[begin : begin + len(text)] = text
        self._places[name] = free
        return free

    def _names(self) -> Iterator[tuple[int, str]]:
        """Yield the named counters of this row: place and name."""
        for n in range(_COUNTERS):
            begin = _NAMES_AT + n * _NAME_BYTES
            name = bytes(self._row[begin : begin + _NAME_BYTES]).rstrip(b"\0")
            if name.count(_MARK.encode()) == 2:
                yield n, name.decode(errors="replace")


in_use: list[Meter] = []
"""The meter of this process, at most one; empty in nearly all. A look here costs no call."""

UNTIMED: AbstractContextManager[None] = nullcontext()


def use(meter: Meter | None) -> None:
    """Let this process count with this meter from now on; None: it counts nothing."""
    in_use[:] = [] if meter is None else [meter]


def current() -> Meter | None:
    """Return the meter of this process; None in nearly all."""
    return in_use[0] if in_use else None


class _Timed:
    """Notes the duration of a block, unless it raised."""

    __slots__ = ("_began_s", "_meter", "_operation")

    def __init__(self, meter: Meter, operation: Operation) -> None:
        self._meter = meter
        self._operation = operation
        self._began_s = 0.0

    def __enter__(self) -> None:
        self._began_s = perf_counter()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._meter.took(self._operation, perf_counter() - self._began_s)


def timed(operation: Operation) -> AbstractContextManager[None]:
    """Note the duration of the block, if this process counts. In hot code check `in_use`."""
    return _Timed(in_use[0], operation) if in_use else UNTIMED
