"""Turn a claimed range into units, reading a bounded number of events at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import psycopg
from psycopg import Connection

from gapless.consume.read.claim import Claim, before_hole
from gapless.consume.session import ChangedError, is_of_settings, run
from gapless.consume.terms import Terms
from gapless.consume.unit import Fetch, Source, Span, Unit, UnitRanges
from gapless.consume.user.handler import Handler
from gapless.errors import HoleError
from gapless.keys import Partition
from gapless.log.event import Row
from gapless.log.read import fetch

FETCH_EVENTS = 1000

T = TypeVar("T")


def at_once(terms: Terms) -> int:
    """Return the maximum number of events that are read at once."""
    return min(FETCH_EVENTS, terms.stream_above_events)


def load_units(
    conn: Connection[Any], partition: Partition, claimed: Claim, terms: Terms
) -> Iterator[Unit]:
    """Return the units of a claim; units that were not read with it are read while iterating.

    Raises HoleError while iterating when an event is missing (I3).
    """
    reader = _UnitReader(conn, partition, terms)
    if claimed.rows is not None:
        return iter(claimed.spans.units(reader.source, claimed.rows))
    return reader.units(claimed.spans)


def read_units(
    conn: Connection[Any],
    partition: Partition,
    spans: UnitRanges,
    terms: Terms,
    *,
    attempt: int = 1,
    through: Callable[[Fetch], Fetch] = lambda fetch: fetch,
) -> Iterator[Unit]:
    """Read units whose places are known. Raises HoleError while iterating, as load_units does.

    through: wraps the function that reads a unit too large for memory during its handler's call.
    """
    reader = _UnitReader(conn, partition, terms)
    reader.source = Source(partition, through(reader.fetch), FETCH_EVENTS, attempt)
    return reader.units(spans)


def read_apart(
    conn: Connection[Any],
    partition: Partition,
    spans: Sequence[Span],
    terms: Terms,
    *,
    attempts: Mapping[int, int],
    through: Callable[[Fetch], Fetch],
) -> Iterator[Unit]:
    """Read units that need not be neighbours, in their order, several with each statement.

    attempts: of each unit, by its first offset. Otherwise as read_units(), which also reads units
    before a hole.
    """
    reader = _UnitReader(conn, partition, terms)
    reader.source = Source(partition, through(reader.fetch), FETCH_EVENTS)
    for some in reader.gathered([span.alone() for span in spans]):
        yield from reader.apart(some, attempts)


def with_settings_checked(handler: Handler, items: Iterable[T]) -> Iterator[T]:
    """Yield items that are read, or parked, between the calls of a handler, under its settings."""
    with under_settings(handler):
        yield from items


@contextmanager
def under_settings(handler: Handler) -> Iterator[None]:
    """Raise ChangedError for errors that a handler's settings may cause, unless put back."""
    try:
        yield
    except psycopg.Error as error:
        if handler.habits.sets or not is_of_settings(error):
            raise
        raise ChangedError(str(error)) from error


class _UnitReader:
    def __init__(self, conn: Connection[Any], partition: Partition, terms: Terms) -> None:
        self._conn = conn
        self.fetch = partial(fetch, conn)
        self.source = Source(partition, self.fetch, FETCH_EVENTS)
        self._stream_above = terms.stream_above_events
        self.most = at_once(terms)

    def units(self, spans: UnitRanges) -> Iterator[Unit]:
        for group in self._groups(spans):
            if len(group.wanted) > self._stream_above:
                with before_hole(spans):
                    self._require(group.wanted)
                yield group.unit(0, self.source, None)
            else:
                with before_hole(spans):
                    rows = self.fetch(group.wanted)
                yield from group.units(self.source, rows)

    def gathered(self, each: Sequence[UnitRanges]) -> Iterator[Sequence[UnitRanges]]:
        """Yield units in groups; each has at most as many events as are read at once."""
        first = events = 0
        for at, one in enumerate(each):
            if events and events + len(one.wanted) > self.most:
                yield each[first:at]
                first, events = at, 0
            events += len(one.wanted)
        yield each[first:]

    def apart(self, some: Sequence[UnitRanges], attempts: Mapping[int, int]) -> Iterator[Unit]:
        """Yield units that are read together; if there is a hole, they are read one by one."""
        rows: list[Row] = []
        if len(some) > 1:
            with suppress(HoleError):
                rows = self.fetch([id_ for one in some for id_ in one.wanted])
        source, start = self.source, 0
        for one in some:
            self.source = replace(source, attempt=attempts[one.first_offset])
            if rows:
                stop = start + len(one.wanted)
                yield from one.units(self.source, rows[start:stop])
                start = stop
            else:
                yield from self.units(one)
        self.source = source

    def _groups(self, spans: UnitRanges) -> Iterator[UnitRanges]:
        """Gather neighbours up to FETCH_EVENTS events; a unit with more is alone."""
        most = self.most
        if len(spans.wanted) <= most:
            if spans.cuts:  # none: all of them are passed
                yield spans
            return
        first = start = before = 0
        for at, end in enumerate(spans.cuts):
            if end - start > most and at > first:
                yield spans[first:at]
                first, start = at, before
            before = end
        yield spans[first:]

    def _require(self, ids: Sequence[int]) -> None:
        """Make sure now that no event is missing: the handler may not read to the end."""
        ((found,),) = run(self._conn, "count_events", {"ids": ids})
        if found != len(ids):
            raise HoleError(
                f"{len(ids) - found} of {len(ids)} events are missing from outbox_message_t, "
                f"their ids are from {min(ids)} to {max(ids)}: restore them, "
                "then the partition continues",
                missing_id=ids[0],  # of a unit that is handled as a whole, or not at all
            )
