"""Turn a claimed range into units, reading a bounded number of events at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from psycopg import Connection

from gapless.consume.claim import Claim
from gapless.consume.session import run
from gapless.consume.unit import Span, Unit, merge_by_user
from gapless.errors import HoleError
from gapless.keys import Partition
from gapless.log.event import Row
from gapless.log.read import fetch

FETCH_EVENTS = 1000


class ReadLimits(Protocol):
    """What reading needs to know of the limits of a step."""

    @property
    def group_by(self) -> str: ...
    @property
    def stream_above_events(self) -> int: ...


def load_units(
    conn: Connection[Any], partition: Partition, claimed: Claim, limits: ReadLimits
) -> tuple[Sequence[Span], Iterator[Unit]]:
    """Return the units of a claim: their places, and an iterator that reads them as it goes.

    Under groupBy user, neighbours are merged unless the range is too large to be held in memory.
    Raises HoleError, here or while iterating, when an event is missing (I3).
    """
    reader = _Reader(conn, partition, limits.stream_above_events)
    events = claimed.last_offset - claimed.first_offset + 1
    if limits.group_by == "user" and events <= limits.stream_above_events:
        rows = fetch(conn, [message_id for span in claimed.spans for message_id in span.ids])
        spans: Sequence[Span] = merge_by_user(claimed.spans, rows)
        return spans, reader.from_rows(spans, rows)
    return claimed.spans, reader.units(claimed.spans)


def read_units(
    conn: Connection[Any], partition: Partition, spans: Sequence[Span], limits: ReadLimits
) -> Iterator[Unit]:
    """Read units whose places are known. Raises HoleError while iterating, as load_units does."""
    return _Reader(conn, partition, limits.stream_above_events).units(spans)


class _Reader:
    def __init__(self, conn: Connection[Any], partition: Partition, stream_above: int) -> None:
        self._conn = conn
        self._partition = partition
        self._stream_above = stream_above

    def units(self, spans: Sequence[Span]) -> Iterator[Unit]:
        for group in self._groups(spans):
            if len(group[0].ids) > self._stream_above:
                self._require(group[0].ids)
                yield self._unit(group[0], None)
            else:
                yield from self.from_rows(group, self._fetch([i for s in group for i in s.ids]))

    def from_rows(self, spans: Sequence[Span], rows: list[Row]) -> Iterator[Unit]:
        partition, fetch_rows = self._partition, self._fetch
        first = 0
        for span in spans:
            next_first = first + len(span.ids)
            yield Unit(partition, span, rows[first:next_first], fetch_rows, FETCH_EVENTS)
            first = next_first

    def _groups(self, spans: Sequence[Span]) -> Iterator[list[Span]]:
        """Gather neighbours up to FETCH_EVENTS events; a unit to be streamed is alone."""
        group: list[Span] = []
        events = 0
        for span in spans:
            size = len(span.ids)
            if group and (events + size > FETCH_EVENTS or size > self._stream_above):
                yield group
                group, events = [], 0
            group.append(span)
            events += size
            if size > self._stream_above:
                yield group
                group, events = [], 0
        if group:
            yield group

    def _require(self, ids: Sequence[int]) -> None:
        """Make sure now that no event is missing: the handler may not read to the end."""
        ((found,),) = run(
            self._conn, "count_events", {"low": min(ids), "high": max(ids), "ids": ids}
        )
        if found != len(ids):
            raise HoleError(
                f"{len(ids) - found} of {len(ids)} events are missing from outbox_message_t, "
                f"their ids are from {min(ids)} to {max(ids)}: restore them, "
                "then the partition goes on"
            )

    def _unit(self, span: Span, rows: list[Row] | None) -> Unit:
        return Unit(self._partition, span, rows, self._fetch, FETCH_EVENTS)

    def _fetch(self, ids: Sequence[int]) -> list[Row]:
        return fetch(self._conn, ids)
