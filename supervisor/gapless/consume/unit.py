"""Unit and Batch: what a handler is given; and how a claimed range is cut into units (pure).

A unit is the events of one publishing transaction (or one explicit transaction_id) that share a
partition: neighbours, handled together, committed or dead-lettered together (I5).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
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


class Unit:
    """The events of one unit, in offset order. Iterate as often as you like.

    A unit with more events than memory should hold reads them in slices while you iterate; it is
    read by the handler's own transaction, so it must not be kept after the handler returned.
    """

    __slots__ = ("_fetch", "_rows", "_slice", "partition", "span", "topic")

    def __init__(
        self, partition: Partition, span: Span, rows: list[Row] | None, fetch: Fetch, slice_: int
    ) -> None:
        self.topic = partition.topic
        self.partition = partition.partition_id
        self.span = span
        self._rows = rows
        self._fetch = fetch
        self._slice = slice_

    def __len__(self) -> int:
        return len(self.span.ids)

    def __iter__(self) -> Iterator[Event]:
        offset = self.span.first_offset
        for rows in self._slices():
            for row in rows:
                yield Event(self.topic, self.partition, offset, row)
                offset += 1

    @property
    def first_offset(self) -> int:
        """Offset of the first event, inclusive."""
        return self.span.first_offset

    @property
    def last_offset(self) -> int:
        """Offset of the last event, inclusive."""
        return self.span.last_offset

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
        ids = self.span.ids
        for start in range(0, len(ids), self._slice):
            yield self._fetch(ids[start : start + self._slice])


class Batch(tuple[Unit, ...]):
    """The units of one claim, in offset order: what a handler declared with batch=True is given."""

    __slots__ = ()

    @property
    def events(self) -> Iterator[Event]:
        """All events of all units, in offset order."""
        for unit in self:
            yield from unit


def split(first_offset: int, ids: Sequence[int], unit_ends: str) -> list[Span]:
    """Cut a range into its units: `unit_ends` has a "1" for every event that ends one.

    The last event always ends one, since a claim is extended to the end of its last unit.
    """
    assert len(ids) == len(unit_ends)
    assert unit_ends.endswith("1")
    spans: list[Span] = []
    start = 0
    while start < len(ids):
        end = unit_ends.index("1", start) + 1
        spans.append(Span(first_offset + start, ids[start:end]))
        start = end
    return spans


def merge_by_user(spans: Sequence[Span], rows: Sequence[Row]) -> list[Span]:
    """Merge neighbouring units of the same (host_id, user_id); a unit is never cut (I5).

    rows: all events of all spans, in offset order. A unit with events of several users, or without
    a user_id, belongs to nobody and stays as it is.
    """
    users: list[tuple[Span, object]] = []
    at = 0
    for span in spans:
        owners = {(row[5], row[6]) for row in rows[at : at + len(span.ids)]}
        host_id, user_id = owners.pop()
        nobody = owners or user_id is None
        users.append((span, span.first_offset if nobody else (host_id, user_id)))
        at += len(span.ids)
    merged: list[Span] = []
    for _, run in groupby(users, key=itemgetter(1)):
        group = [span for span, _ in run]
        ids = [message_id for span in group for message_id in span.ids]
        merged.append(Span(group[0].first_offset, ids))
    return merged
