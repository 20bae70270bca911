"""Units of a group with a filter: the events that it keeps, and the events that it passes (pure).

A claim is a whole range of the log (I5): its offset moves over all of it. Handlers are called with
the units of which an event is kept, and see only the kept events.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, overload

from gapless.consume.unit import (
    FIRST_TIMELINE,
    Source,
    Span,
    Timelines,
    Unit,
    UnitRanges,
    timeline_at,
)
from gapless.log.event import Event, MatchedEvent, MatchedSubscription, P_co, Row, Unasked


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """The events of a range that a filter keeps: ids and offsets, in offset order.

    errors: by offset, the reason why the filter could not check it. matches: by offset, the
    subscriptions that match; None: the group has none.
    """

    ids: Sequence[int]
    offsets: Sequence[int]
    errors: Mapping[int, str] = field(default_factory=dict)
    matches: Mapping[int, tuple[MatchedSubscription, ...]] | None = None

    @property
    def numbers(self) -> list[str] | None:
        """The numbers of the subscriptions of each event, as SQL takes them; None: as matches."""
        if self.matches is None:
            return None
        found = [self.matches.get(offset, ()) for offset in self.offsets]
        return [",".join(str(each.subscription_id) for each in some) for some in found]

    def only(self, numbers: Collection[int]) -> Kept:
        """Return the events that are kept for these subscriptions, and for no other."""
        matches = {
            offset: tuple(each for each in some if each.subscription_id in numbers)
            for offset, some in (self.matches or {}).items()
        }
        ids = [n for n, offset in zip(self.ids, self.offsets, strict=True) if matches.get(offset)]
        offsets = [offset for offset in self.offsets if matches.get(offset)]
        return Kept(ids=ids, offsets=offsets, matches=matches)

    def between(self, low: int, high: int) -> Kept:
        """Return the kept events from index `low` to before `high`, from 0."""
        return replace(self, ids=self.ids[low:high], offsets=self.offsets[low:high])


@dataclass(frozen=True, slots=True)
class FilteredSpan(Span):
    """The place of a whole unit, and its kept events."""

    kept: Kept = field(kw_only=True)

    def alone(self) -> UnitRanges:
        """Return it as the places of several units."""
        ends, lines = [len(self.ids)], ((0, self.timeline),)
        return FilteredRanges(self.first_offset, self.ids, ends, lines, starts=[0], kept=self.kept)

    def seen(self, only: Collection[int] | None) -> Mapping[str, object]:
        """Return the part for its handler; `only`: the subscriptions for which the unit failed."""
        kept = self.kept if only is None else self.kept.only(only)
        return {"kept": list(kept.offsets), "matched": kept.numbers}


@dataclass(frozen=True, slots=True)
class PassedSpan(Span):
    """The place of neighbouring events of which none is kept."""

    is_passed: ClassVar[bool] = True


class FilteredRanges(UnitRanges):
    """The places of the units of a range with a kept event; `ids` are all events of the range.

    ends: the number of events of the range up to the end of each of these units. starts: the number
    before its first one. wanted: the kept events, by id.
    """

    __slots__ = ("kept", "starts")

    def __init__(
        self,
        first_offset: int,
        ids: Sequence[int],
        ends: Sequence[int],
        timelines: Timelines,
        *,
        starts: Sequence[int],
        kept: Kept,
    ) -> None:
        super().__init__(first_offset, ids, ends, timelines)
        self.starts = starts
        self.kept = kept
        self.wanted = kept.ids
        self.cuts = [bisect_left(kept.offsets, first_offset + end) for end in ends]

    @overload
    def __getitem__(self, at: int) -> Span: ...
    @overload
    def __getitem__(self, at: slice) -> UnitRanges: ...
    def __getitem__(self, at: int | slice) -> Span | UnitRanges:
        """Return one unit; or a range of several, with the passed events before and after them."""
        if isinstance(at, int):
            at = range(len(self))[at]
            start, first = self.starts[at], self.first_offset + self.starts[at]
            return FilteredSpan(
                first,
                self.ids[start : self.ends[at]],
                timeline_at(self.timelines, first),
                kept=self._kept(at, at + 1),
            )
        low, high, step = at.indices(len(self))
        assert step == 1
        start = self.ends[low - 1] if low else 0
        stop = len(self.ids) if high == len(self) else self.ends[high - 1] if high else 0
        return FilteredRanges(
            self.first_offset + start,
            self.ids[start:stop],
            [end - start for end in self.ends[low:high]],
            self.timelines,
            starts=[each - start for each in self.starts[low:high]],
            kept=self._kept(low, high),
        )

    def is_like(self, other: UnitRanges) -> bool:
        """Tell whether a handler gets the same from both, including subscriptions."""
        if list(self.wanted) != list(other.wanted):
            return False
        return not isinstance(other, FilteredRanges) or self.kept.numbers == other.kept.numbers

    def beyond(self, offset: int) -> list[Span]:
        """Return the range from an offset on, without a gap: a PassedSpan between two units."""
        tiles: list[Span] = []
        done = max(0, offset - self.first_offset)
        for at in range(bisect_right(self.ends, done), len(self)):
            tiles += self._passed(done, self.starts[at])
            tiles.append(self[at])
            done = self.ends[at]
        return tiles + self._passed(done, len(self.ids))

    def units(self, source: Source, rows: list[Row]) -> list[Unit]:
        """Return the units of events that have been read: `rows` are all kept ones."""
        units: list[Unit] = []
        before = 0
        for at, cut in enumerate(self.cuts):
            units.append(self.unit(at, source, rows[before:cut]))
            before = cut
        return units

    def unit(self, at: int, source: Source, rows: list[Row] | None) -> Unit:
        """Return one of the units; without rows, iteration over it reads them."""
        span = self[at]
        assert isinstance(span, FilteredSpan)
        return FilteredUnit(replace(source, timelines=self.timelines), span, rows)

    def _kept(self, low: int, high: int) -> Kept:
        first = self.cuts[low - 1] if low else 0
        return self.kept.between(first, self.cuts[high - 1] if high else 0)

    def _passed(self, start: int, stop: int) -> list[Span]:
        if start >= stop:
            return []
        first = self.first_offset + start
        return [PassedSpan(first, self.ids[start:stop], timeline_at(self.timelines, first))]


class FilteredUnit(Unit[P_co]):
    """The kept events of a unit. first_offset, last_offset and span are those of the whole unit."""

    __slots__ = ("_span",)

    def __init__(self, source: Source, span: FilteredSpan, rows: list[Row] | None) -> None:
        super().__init__(source, span.first_offset, rows, span.kept.ids)
        self._span = span

    def __iter__(self) -> Iterator[Event[P_co]]:
        """Yield the kept events, each at its own offset."""
        kept = self._span.kept
        offsets = iter(kept.offsets)
        timeline = timeline_at(self.source.timelines, self.first_offset)
        for rows in self._slices():
            for row in rows:
                yield self._event(kept, next(offsets), row, timeline)

    @property
    def subscriptions(self) -> tuple[MatchedSubscription, ...]:
        """The subscriptions that match its events, each once, in the order of the events."""
        matches = self._span.kept.matches or {}
        found = (each for offset in self._span.kept.offsets for each in matches.get(offset, ()))
        return tuple({each.subscription_id: each for each in found}.values())

    def _event(self, kept: Kept, offset: int, row: Row, timeline: int) -> Event[Any]:
        place = self.topic, self.partition, offset
        if kept.errors and offset in kept.errors:
            return Unasked(*place, row, timeline, kept.errors[offset])
        if kept.matches is not None:
            return MatchedEvent(*place, row, timeline, kept.matches.get(offset, ()))
        return Event(*place, row, timeline)

    @property
    def last_offset(self) -> int:
        """Offset of the unit's last event in the log, kept or not."""
        return self._span.last_offset

    @property
    def span(self) -> Span:
        """The place of the whole unit in the log."""
        return self._span


def kept_spans(spans: UnitRanges, kept: Kept) -> FilteredRanges:
    """Return the units of a claim with a kept event, and these events."""
    starts: list[int] = []
    ends: list[int] = []
    for offset in kept.offsets:
        place = offset - spans.first_offset
        if ends and place < ends[-1]:
            continue
        at = bisect_left(spans.ends, place + 1)
        starts.append(spans.ends[at - 1] if at else 0)
        ends.append(spans.ends[at])
    timelines = spans.timelines or FIRST_TIMELINE
    return FilteredRanges(spans.first_offset, spans.ids, ends, timelines, starts=starts, kept=kept)
