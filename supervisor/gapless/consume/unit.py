"""Unit, the argument of handlers; and the cut of a claimed range into units (pure).

A unit is the events of one publishing transaction (or one explicit transaction_id) that share a
partition: neighbours, handled together, committed or dead-lettered together (I5).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count, islice, pairwise, repeat
from typing import ClassVar, Generic, overload
from uuid import UUID

from gapless.keys import Partition
from gapless.log.cause import Cause
from gapless.log.event import Event, MatchedSubscription, P_co, Row

Fetch = Callable[[Sequence[int]], list[Row]]
Timelines = tuple[tuple[int, int], ...]
FIRST_TIMELINE: Timelines = ((0, 1),)
MADE_AT_ONCE = 50  # units; the garbage collector visits all that wait for their turn


def timeline_at(timelines: Timelines, offset: int) -> int:
    """Return the timeline on which an offset was given."""
    if timelines is FIRST_TIMELINE:
        return 1
    return next(line for first, line in reversed(timelines) if first <= offset)


@dataclass(frozen=True, slots=True)
class Span:
    """A unit's place in the log, before its events are read.

    ids: its events in offset order, never empty; the first is at `first_offset`.
    timeline: of the server that gave the first offset (sql/log/functions/sequence/timeline.sql).
    is_passed: no handler is called with it.
    """

    is_passed: ClassVar[bool] = False

    first_offset: int
    ids: Sequence[int]
    timeline: int = 1

    @property
    def last_offset(self) -> int:
        return self.first_offset + len(self.ids) - 1

    def alone(self) -> UnitRanges:
        """Return it as UnitRanges of one unit."""
        return UnitRanges(self.first_offset, self.ids, [len(self.ids)], ((0, self.timeline),))

    def seen(self, _only: Collection[int] | None) -> Mapping[str, object]:
        """Return its handler's view of it as set_aside() of SQL takes it; None: all events.

        _only: its subscriptions for which it failed.
        """
        return {"kept": None, "matched": None}


class UnitRanges(Sequence[Span]):
    """The places of neighbouring units. A Span is made on demand: most are never needed.

    ids: the events of all units, in offset order. ends: the number of these events up to the end
    of each unit; ascending, the last is all. timelines: (the first offset, the timeline that gave
    it and later ones), ascending; nearly always one.
    wanted, cuts: ids and ends that a handler gets; the same, unless a reader passes some.
    """

    __slots__ = ("cuts", "ends", "first_offset", "ids", "timelines", "wanted")

    def __init__(
        self,
        first_offset: int,
        ids: Sequence[int],
        ends: Sequence[int],
        timelines: Timelines = FIRST_TIMELINE,
    ) -> None:
        self.first_offset = first_offset
        self.ids = self.wanted = ids
        self.ends = self.cuts = ends
        self.timelines = timelines

    def __len__(self) -> int:
        return len(self.ends)

    @overload
    def __getitem__(self, at: int) -> Span: ...
    @overload
    def __getitem__(self, at: slice) -> UnitRanges: ...
    def __getitem__(self, at: int | slice) -> Span | UnitRanges:
        if isinstance(at, int):
            at = range(len(self))[at]
            start = self.ends[at - 1] if at else 0
            first = self.first_offset + start
            return Span(first, self.ids[start : self.ends[at]], timeline_at(self.timelines, first))
        first, stop, step = at.indices(len(self.ends))
        assert step == 1
        start = self.ends[first - 1] if first else 0
        ends = self.ends[first:stop]
        if isinstance(ends, range):  # units of one event
            ends = range(ends.start - start, ends.stop - start)
        else:
            ends = [end - start for end in ends]
        ids = self.ids[start : start + ends[-1]] if ends else ()
        return UnitRanges(self.first_offset + start, ids, ends, self.timelines)

    def is_like(self, other: UnitRanges) -> bool:
        """Tell whether a handler gets the same of both, which are of one range."""
        return list(self.wanted) == list(other.wanted)

    def beyond(self, offset: int) -> Sequence[Span]:
        """Return the units from an offset on, with the passed ones between them."""
        return self[bisect_right(self.ends, max(0, offset - self.first_offset)) :]

    def units(self, source: Source, rows: list[Row]) -> Iterable[Unit]:
        """Return the units of events that are read: `rows`, in offset order."""
        first, ends, lines = self.first_offset, self.ends, self.timelines
        source = source if lines is FIRST_TIMELINE else replace(source, timelines=lines)
        units: Iterator[Unit]
        if isinstance(ends, range):  # units of one event
            units = map(Unit, repeat(source), count(first), zip(rows, strict=True))
        else:
            units = (Unit(source, first + at, rows[at:end]) for at, end in pairwise((0, *ends)))
        return chain([*islice(units, MADE_AT_ONCE)], units)

    def unit(self, at: int, source: Source, rows: list[Row] | None) -> Unit:
        """Return one of the units; without rows it reads its events during an iteration."""
        span = self[at]
        return Unit(replace(source, timelines=self.timelines), span.first_offset, rows, span.ids)


NOTHING = UnitRanges(0, (), ())


@dataclass(frozen=True, slots=True)
class Source:
    """The source of units: their partition, a reader of events, and its events at a time.

    attempt: the number of the call of the handler with them, from 1.
    timelines: see UnitRanges.
    """

    partition: Partition
    fetch: Fetch
    slice_events: int
    attempt: int = 1
    timelines: Timelines = FIRST_TIMELINE

    def key(self, offsets: str, first_offset: int) -> str:
        """Return a permanent name of these offsets; the first one decides the timeline."""
        timeline = timeline_at(self.timelines, first_offset)
        return f"{self.partition.name}@{offsets}{f'~{timeline}' if timeline > 1 else ''}"


class Unit(Generic[P_co]):
    """The events of one unit, in offset order. Iterate as often as you like.

    A unit with more events than memory should hold (streamAboveEvents) reads them in slices while
    you iterate, in the handler's own transaction, so do not keep it after the handler returned:
    then iterating raises HoleError when an event has gone.
    first_offset: of its first event, inclusive. len(unit): how many events it has, 1 or more.
    """

    __slots__ = ("_head", "_ids", "_rows", "first_offset", "source")

    def __init__(
        self,
        source: Source,
        first_offset: int,
        rows: Sequence[Row] | None,
        ids: Sequence[int] = (),
    ) -> None:
        self.source = source
        self.first_offset = first_offset  # inclusive
        self._rows = self._head = rows
        self._ids = ids

    def __len__(self) -> int:
        return len(self._ids if self._rows is None else self._rows)

    def __iter__(self) -> Iterator[Event[P_co]]:
        source, offset, rows = self.source, self.first_offset, self._rows
        topic, partition = source.partition.topic, source.partition.partition_id
        timeline = timeline_at(source.timelines, offset)
        if rows is not None and len(rows) == 1:  # most units; a generator costs more than the event
            return iter((Event(topic, partition, offset, rows[0], timeline),))
        each = chain.from_iterable(self._slices())
        return map(Event, repeat(topic), repeat(partition), count(offset), each, repeat(timeline))

    @property
    def topic(self) -> str:
        """The name of its topic."""
        return self.source.partition.topic

    @property
    def partition(self) -> int:
        """The number of its partition, from 0."""
        return self.source.partition.partition_id

    @property
    def last_offset(self) -> int:
        """The offset of the last event, inclusive."""
        return self.first_offset + len(self) - 1

    @property
    def is_streamed(self) -> bool:
        """Whether its events are read in slices during an iteration."""
        return self._rows is None

    @property
    def group(self) -> str:
        """The consumer group that handles it; of a replay, its scratch group."""
        return self.source.partition.group_id

    @property
    def is_replay(self) -> bool:
        """Whether `gapless replay` handles it, beside the groups."""
        return self.source.partition.is_replay

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1: one more than the recorded failures.

        At least once, it is one more than the calls that began, until the unit is set aside.
        """
        return self.source.attempt

    @property
    def idempotency_key(self) -> str:
        """The unit's name for effects outside the database: the same whenever it is handled again.

        `group/topic/partition@offset`, and `~timeline` if that is not 1: offsets that a server gave
        and lost in a failover are given again, to other events, and must not look the same. Under
        groupBy user it is that of the first event; the number of events depends on the claim.
        """
        return self.source.key(str(self.first_offset), self.first_offset)

    @property
    def cause(self) -> Cause | None:
        """The unit that caused it (its first event, under groupBy user)."""
        return self._first.cause

    @property
    def correlation(self) -> UUID:
        """The transaction_id of the first event of its chain."""
        return self._first.correlation

    @property
    def span(self) -> Span:
        """Its place in the log."""
        ids = self._ids if self._rows is None else [row[0] for row in self._rows]
        return Span(self.first_offset, ids, timeline_at(self.source.timelines, self.first_offset))

    @property
    def transaction_id(self) -> UUID:
        """The transaction of its events (of the first one, under groupBy user)."""
        return self._first.transaction_id

    @property
    def subscriptions(self) -> tuple[MatchedSubscription, ...]:
        """The subscriptions of its group that its events matched, each once; none without them."""
        return ()

    def raw_headers(self) -> Iterator[bytes]:
        """Yield the headers of its events that have any, as JSON text.

        Nothing is read for this: of a unit that is read in slices, at most the first event's.
        """
        return (row[4] for row in self._rows or self._head or () if row[4] is not None)

    def __repr__(self) -> str:
        return f"Unit({self.topic}/{self.partition}@{self.first_offset}..{self.last_offset})"

    @property
    def _first(self) -> Event:
        """Its first event. MUST NOT read a slice each time: each publish() for the unit asks."""
        if self._head is None:
            self._head = self.source.fetch(self._ids[:1])
        timeline = timeline_at(self.source.timelines, self.first_offset)
        return Event(self.topic, self.partition, self.first_offset, self._head[0], timeline)

    def singles(self) -> Iterator[Unit]:
        """Return each of its events as a unit of its own, for a queue's handler."""
        rows = enumerate(chain.from_iterable(self._slices()), self.first_offset)
        return (Unit(self.source, offset, [row]) for offset, row in rows)

    def _slices(self) -> Iterator[Sequence[Row]]:
        if self._rows is not None:
            yield self._rows
            return
        source, ids = self.source, self._ids
        for start in range(0, len(ids), source.slice_events):
            yield source.fetch(ids[start : start + source.slice_events])
