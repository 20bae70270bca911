"""Unit and Batch: what a handler is given; and how a claimed range is cut into units (pure).

A unit is the events of one publishing transaction (or one explicit transaction_id) that share a
partition: neighbours, handled together, committed or dead-lettered together (I5).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import overload
from uuid import UUID

from gapless.keys import Partition
from gapless.log.event import Event, Row

Fetch = Callable[[Sequence[int]], list[Row]]


@dataclass(frozen=True, slots=True)
class Span:
    """A unit's place in the log, before its events are read.

    ids: its events in offset order, never empty; the first is at `first_offset`.
    """

    first_offset: int
    ids: Sequence[int]

    @property
    def last_offset(self) -> int:
        return self.first_offset + len(self.ids) - 1


class Spans(Sequence[Span]):
    """The places of neighbouring units. A Span is made when asked for: most never are.

    ids: the events of all of them, in offset order. ends: how many of these events there are up to
    the end of each unit; ascending, the last is all.
    """

    __slots__ = ("ends", "first_offset", "ids")

    def __init__(self, first_offset: int, ids: Sequence[int], ends: Sequence[int]) -> None:
        self.first_offset = first_offset
        self.ids = ids
        self.ends = ends

    def __len__(self) -> int:
        return len(self.ends)

    @overload
    def __getitem__(self, at: int) -> Span: ...
    @overload
    def __getitem__(self, at: slice) -> Spans: ...
    def __getitem__(self, at: int | slice) -> Span | Spans:
        if isinstance(at, int):
            at = range(len(self))[at]
            start = self.ends[at - 1] if at else 0
            return Span(self.first_offset + start, self.ids[start : self.ends[at]])
        first, stop, step = at.indices(len(self))
        assert step == 1
        start = self.ends[first - 1] if first else 0
        ends = _moved(self.ends[first:stop], start)
        ids = self.ids[start : start + ends[-1]] if ends else ()
        return Spans(self.first_offset + start, ids, ends)


def _moved(ends: Sequence[int], start: int) -> Sequence[int]:
    if isinstance(ends, range):  # units of one event
        return range(ends.start - start, ends.stop - start)
    return [end - start for end in ends]


@dataclass(frozen=True, slots=True)
class Source:
    """Where units come from: their partition; how to read events, and how many at a time.

    attempt: which call of the handler this is for them, from 1.
    """

    partition: Partition
    fetch: Fetch
    slice_events: int
    attempt: int = 1


class Unit:
    """The events of one unit, in offset order. Iterate as often as you like.

    A unit with more events than memory should hold reads them in slices while you iterate; it is
    read by the handler's own transaction, so it must not be kept after the handler returned.
    """

    __slots__ = ("_ids", "_rows", "_source", "first_offset")

    def __init__(
        self,
        source: Source,
        first_offset: int,
        rows: list[Row] | None,
        ids: Sequence[int] = (),
    ) -> None:
        self._source = source
        self.first_offset = first_offset  # inclusive
        self._rows = rows
        self._ids = ids

    def __len__(self) -> int:
        return len(self._ids if self._rows is None else self._rows)

    def __iter__(self) -> Iterator[Event]:
        topic, partition = self.topic, self.partition
        offset = self.first_offset
        for rows in self._slices():
            for row in rows:
                yield Event(topic, partition, offset, row)
                offset += 1

    @property
    def topic(self) -> str:
        return self._source.partition.topic

    @property
    def partition(self) -> int:
        return self._source.partition.partition_id

    @property
    def last_offset(self) -> int:
        """Offset of the last event, inclusive."""
        return self.first_offset + len(self) - 1

    @property
    def attempt(self) -> int:
        """Which attempt at it this is, from 1: one more than have failed and were recorded.

        At-least-once handlers are told one more than have begun, until the unit is set aside.
        """
        return self._source.attempt

    @property
    def idempotency_key(self) -> str:
        """What names it, for effects outside the database: the same whenever it is handled again.

        Except under groupBy user, where which units are merged depends on the claim.
        """
        return f"{self._source.partition}@{self.first_offset}"

    @property
    def span(self) -> Span:
        """Its place in the log."""
        rows = self._rows
        return Span(self.first_offset, self._ids if rows is None else [row[0] for row in rows])

    @property
    def transaction_id(self) -> UUID:
        """The transaction of its events (of the first one, under groupBy user)."""
        return next(iter(self)).transaction_id

    def __repr__(self) -> str:
        return f"Unit({self.topic}/{self.partition}@{self.first_offset}..{self.last_offset})"

    def _slices(self) -> Iterator[list[Row]]:
        if self._rows is not None:
            yield self._rows
            return
        source, ids = self._source, self._ids
        for start in range(0, len(ids), source.slice_events):
            yield source.fetch(ids[start : start + source.slice_events])


class Batch(tuple[Unit, ...]):
    """The units of one claim, in offset order: what a handler declared with batch=True is given."""

    __slots__ = ()

    @property
    def events(self) -> Iterator[Event]:
        """All events of all units, in offset order."""
        for unit in self:
            yield from unit


def split(first_offset: int, ids: Sequence[int], unit_ends: str) -> Spans:
    """Cut a range into its units: `unit_ends` has a "1" for every event that ends one.

    The last event always ends one, since a claim is extended to the end of its last unit.
    """
    assert len(ids) == len(unit_ends)
    assert unit_ends.endswith("1")
    if "0" not in unit_ends:
        return Spans(first_offset, ids, range(1, len(ids) + 1))
    return Spans(first_offset, ids, [end.end() for end in re.finditer("1", unit_ends)])


def merge_by_user(spans: Spans, rows: Sequence[Row]) -> Spans:
    """Merge neighbouring units of the same (host_id, user_id); a unit is never cut (I5).

    rows: all events of all spans, in offset order. A unit with events of several users, or without
    a user_id, belongs to nobody and stays as it is.
    """
    users: list[object] = []
    start = 0
    for end in spans.ends:
        owners = {(row[5], row[6]) for row in rows[start:end]}
        host_id, user_id = owners.pop()
        nobody = owners or user_id is None
        users.append(end if nobody else (host_id, user_id))
        start = end
    runs = groupby(zip(spans.ends, users, strict=True), key=lambda of: of[1])
    return Spans(spans.first_offset, spans.ids, [max(run)[0] for _, run in runs])
