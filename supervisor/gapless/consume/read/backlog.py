"""The events that a group has yet to handle of a partition: claimed in batches, and read ahead.

Reading 100 events costs as much as all else about a batch of 100. So a worker that is behind reads
the next batches at once, and claims them one by one. The events read ahead are only a hint: each
claim compares fence and offset in the database (I6, I7), events and their offsets never change
(I3), and events that no longer fit are dropped.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from psycopg import Connection, Rollback

from gapless import feature
from gapless.consume.read.claim import Claim, LogReader, Reader, Wanted, before_hole
from gapless.consume.read.units import FETCH_EVENTS, read_units
from gapless.consume.session import run
from gapless.consume.terms import Terms
from gapless.consume.unit import NOTHING, Source, Unit, UnitRanges
from gapless.errors import HoleError
from gapless.failpoints import hit
from gapless.keys import Assignment
from gapless.log.event import Row
from gapless.log.read import fetch
from gapless.telemetry.meter import UNTIMED, in_use, timed

EVENTS_MAX = 2000
BYTES_MAX = 4 << 20  # of payloads; estimated from the batch before
LOG: Reader = LogReader()

Claimed = tuple[Claim, Iterable[Unit]]
"""A claim, and its units in offset order; no units unless the outcome is "claimed"."""


class Backlog:
    """Claims the next events, and keeps those that it has read ahead for later claims.

    events: the number of events worth reading with the next claim, 0 while the worker keeps up.
    reader: the reader of the claim before. Only the reader of all events reads ahead.
    place: where the claim before left the group's row; a hint that keeps claims flat while an old
    snapshot is held (sql/consume/functions/claim/claim_ahead.sql).
    """

    __slots__ = ("_rows", "_spans", "_taken", "events", "place", "reader")

    def __init__(self) -> None:
        self.events = 0
        self.reader = LOG
        self.place: str | None = None
        self.keep(NOTHING, [])

    def claim(
        self, conn: Connection[Any], assignment: Assignment, terms: Terms, batch_size: int
    ) -> Claimed:
        """Claim the next `batch_size` events, to the end of a unit; see Reader.claim().

        Reads the events beyond them as well when the worker is behind.
        Raises HoleError, here or while iterating over units that are large, when an event is
        missing (I3), and the errors of Reader.claim().
        """
        found = self.claim_read(conn, assignment, batch_size)
        if found is not None:
            return found
        at_once = min(FETCH_EVENTS, terms.stream_above_events)
        most = 0 if self.events else at_once
        wanted = Wanted(batch_size, most, terms.group_by, self.events, self.place)
        with timed("claim") if in_use else UNTIMED:
            claimed = self.ask(conn, assignment, wanted)
        if claimed.outcome != "claimed":
            return claimed, ()
        hit("step.claimed")
        self.place = claimed.place
        rows = claimed.rows
        if self.reader is not LOG:
            self.events = 0
        elif rows is not None:
            self._gauge(rows, batch_size, most)
        elif len(claimed.spans.ids) <= at_once:
            rows = self._read_ahead(conn, claimed)
            claimed = replace(claimed, rows=rows)
            self._gauge(rows, terms.batch_size, terms.stream_above_events)
        if rows is None:
            return claimed, read_units(conn, assignment.partition, claimed.spans, terms)
        source = Source(assignment.partition, partial(fetch, conn), FETCH_EVENTS)
        return claimed, claimed.spans.units(source, rows)

    def claim_again(
        self, conn: Connection[Any], assignment: Assignment, spans: UnitRanges
    ) -> Claim:
        """Claim exactly these units, without their events: claimed, or fenced.

        Leaves the transaction by psycopg.Rollback when the group's offset was moved in the
        meantime, or its filter has changed.
        """
        first, last = spans.first_offset, spans.first_offset + len(spans.ids) - 1
        claimed = self.ask(conn, assignment, Wanted(len(spans.ids), exactly=True))
        if claimed.outcome != "fenced":
            if (claimed.first_offset, claimed.last_offset) != (first, last):
                raise Rollback
            if not claimed.spans.is_like(spans):
                raise Rollback
        return claimed

    def ask(self, conn: Connection[Any], assignment: Assignment, wanted: Wanted) -> Claim:
        """Claim without the events read ahead, by the last reader, or by the one of the fence."""
        while (found := self.reader.claim(conn, assignment, wanted)) is None:
            self.reader = feature.reader() if self.reader is LOG else LOG
        return found

    def claim_read(
        self, conn: Connection[Any], assignment: Assignment, batch_size: int
    ) -> Claimed | None:
        """Claim units that were read ahead; None without any, or if they are not the next ones.

        Before and after: as for claim(). Without such units the database is not asked.
        """
        if self._taken == len(self._spans.ends):
            return None
        spans, rows = self.take(batch_size)
        source = Source(assignment.partition, partial(fetch, conn), FETCH_EVENTS)
        last = spans.first_offset + len(spans.ids) - 1
        params = {
            **assignment.params,
            "first_offset": spans.first_offset,
            "last_offset": last,
            "place": self.place,
        }
        answer = run(conn, "claim_ahead", params)
        if not answer:
            self.forget()
            return None
        hit("step.claimed")
        xid, self.place = answer[0]
        claimed = Claim(
            outcome="claimed",
            first_offset=spans.first_offset,
            last_offset=last,
            claim_xid=xid,
            spans=spans,
            rows=rows,
        )
        return claimed, spans.units(source, rows)

    @property
    def units(self) -> int:
        """The number of units that are read ahead."""
        return len(self._spans.ends) - self._taken

    def forget(self) -> None:
        """Drop the events that were read ahead."""
        self.keep(NOTHING, [])

    def keep(self, spans: UnitRanges, rows: list[Row]) -> None:
        """Remember neighbouring units with their events, in offset order."""
        self._spans = spans
        self._rows = rows
        self._taken = 0  # units

    def take(self, batch_size: int) -> tuple[UnitRanges, list[Row]]:
        """Take the next units, `batch_size` events to the end of a unit, or all that are left.

        They are not given twice: a caller that fails to commit them claims them anew.
        """
        ends, taken = self._spans.ends, self._taken
        start = ends[taken - 1] if taken else 0
        self._taken = min(bisect_left(ends, start + batch_size, lo=taken) + 1, len(ends))
        if taken == self._taken:
            return NOTHING, []
        spans = self._spans[taken : self._taken]
        return spans, self._rows[start : start + len(spans.ids)]

    def _read_ahead(self, conn: Connection[Any], claimed: Claim) -> list[Row]:
        """Return the events of a claim; keep those beyond it."""
        ids, beyond = claimed.spans.ids, claimed.beyond
        with before_hole(claimed.spans):
            try:
                rows = fetch(conn, [*ids, *beyond.ids])
            except HoleError:
                if not beyond:
                    raise
                beyond = NOTHING  # the missing event may not be in our way yet
                rows = fetch(conn, ids)
        self.keep(beyond, rows[len(ids) :])
        del rows[len(ids) :]
        return rows

    def _gauge(self, rows: Sequence[Row], batch_size: int, most: int) -> None:
        """Set from a batch just read the number of events to read ahead: `most`, fewer, or none."""
        if len(rows) < batch_size:
            self.events = 0
            return
        payload_bytes = sum(len(row[3] or b"") for row in rows)
        self.events = min(EVENTS_MAX, most, BYTES_MAX * len(rows) // (payload_bytes + 1))
