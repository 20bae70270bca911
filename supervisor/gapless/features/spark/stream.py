"""A streaming read, the driver's side: micro-batches that end at consistent cuts of the log.

All events of a publishing transaction, in all partitions, are in the same micro-batch or in none.
Spark keeps the position in its checkpoint; a group shows it to people, and holds back retention.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from time import monotonic
from typing import Any

from psycopg import Connection

from gapless.errors import UsageError
from gapless.features.spark.checkpoint import start_of
from gapless.features.spark.latest import LatestRead, find_latest, latest_tasks
from gapless.features.spark.offsets import (
    LATEST,
    LATEST_PER_KEY,
    Json,
    Offsets,
    beginning_in,
    count,
    from_json,
    latest_in,
    mark,
    timeline_in,
    to_json,
    with_beginning,
)
from gapless.features.spark.options import ReadOptions
from gapless.features.spark.place import (
    End,
    cut,
    earliest,
    find_ends,
    latest,
    newest_timeline,
    record_position,
)
from gapless.features.spark.reach import Reached, reached
from gapless.features.spark.resolve import find_now, resolve
from gapless.features.spark.source import Task, tasks_between
from gapless.features.spark.standby import Servers, open_servers, steadily

log = logging.getLogger("gapless.spark")


class StreamReader:
    """The driver's side of one streaming query: its beginning, its limits, its tasks.

    It lives as long as the query, in a process of its own, and keeps one session.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._servers: Servers | None = None
        self._reached: Reached | None = None  # by these sessions
        self._first: Json | None = None
        self._planned: Json | None = None  # the end of the newest batch
        self._last_stop: Json | None = None  # Trigger.AvailableNow stops here
        self._recorded: Json | None = None
        self._waiting_since_s: float | None = None

    @steadily
    def first(self) -> Json:
        """Return the start of a query without checkpoint: latest unless an option sets it.

        Spark asks twice; the answer stays.
        """
        if self._first is None:
            self._first = self._begin()
        return self._first

    def _begin(self) -> Json:
        conn, ends = self._look()
        if self._options.starting is None:
            _tell_begin(ends)
            return _json(latest(ends), ends)
        if self._options.starting.kind == LATEST_PER_KEY:
            begin, latest_us = find_latest(conn, ends)
            if self._last_stop is not None:
                begin = self._bounded(begin, from_json(self._last_stop))
            return _json(begin, ends, latest_us=latest_us)
        place, now = self._options.starting, find_now(conn)
        return _json(resolve(conn, place, ends, now=now, otherwise=LATEST), ends)

    @steadily
    def stop_here(self) -> None:
        """Let the query end at the present end of the log (Trigger.AvailableNow)."""
        _, ends = self._look()
        self._last_stop = _json(latest(ends), ends)

    @steadily
    def newest(self) -> Json:
        """Return the end of the log, without the limits: lag is measured against it."""
        _, ends = self._look()
        return self._last_stop or _json(latest(ends), ends)

    @steadily
    def all(self) -> Json:
        """Return the end of the log, where Spark tells no beginning (before 4.2).

        Until a batch is planned, it may be the end of the first one.
        """
        begin = None
        if self._options.starting is not None and self._planned is None:
            with suppress(UsageError):  # without a checkpoint Spark asks for it next
                begin = self.first()
        conn, ends = self._look()
        place, since = latest(ends), self._planned or begin
        if self._planned is not None and place == from_json(self._planned):
            return self._planned
        start = place if since is None else from_json(since)
        end = _json(place, ends, newest_timeline(conn, start, place, ends))
        return end if begin is None else with_beginning(end, begin)

    @steadily
    def next(self, done: Json, *, limited: bool) -> Json:
        """Return the end of the next micro-batch; `done`, the end of the last one, if none is due.

        Not limited: all present events (Trigger.Once).
        """
        conn, ends = self._look()
        start = self._start(done, ends)
        self._show(done)
        # The newest event of each key is a batch of its own: it ends where it began, in the log.
        is_latest = bool(latest_in(done))
        place = start if is_latest else self._next(conn, start, ends, limited=limited)
        timeline = newest_timeline(conn, start, place, ends)
        if place == from_json(done):
            timeline = max(timeline, timeline_in(done) or 0)
        end = _json(place, ends, timeline)
        # The text of a place that stays has to stay: Spark takes another one for a batch to run.
        begin = done if is_latest or done == self._first else None
        if begin is None and place == from_json(done):
            begin = beginning_in(done)
        return end if begin is None else with_beginning(end, begin)

    def _next(
        self, conn: Connection[Any], start: Offsets, ends: list[End], *, limited: bool
    ) -> Offsets:
        end = latest(ends)
        if self._last_stop is not None:
            self._start(self._last_stop, ends)  # another standby may not have it yet
            end = from_json(self._last_stop)
        behind = count(start, end)
        options = self._options
        if behind == 0 or (limited and self._is_too_little(behind)):
            return start
        self._waiting_since_s = None
        if limited and options.max_offsets is not None and behind > options.max_offsets:
            return self._bounded(cut(conn, start, ends, options.max_offsets), end)
        return self._bounded(latest(ends), end)

    @steadily
    def tasks(self, start: Json, end: Json) -> list[Task]:
        """Return the ranges of each task of a micro-batch."""
        self._planned = end
        conn, ends = self._look(fresh=False)
        begun = self.begun(start, end)
        begin = self._start(begun, ends)
        self._start(end, ends)  # not seen yet, if a run before this one planned the batch
        read = LatestRead(began_us=latest_in(begun), start=from_json(begun))
        newest = latest_tasks(conn, self._options, read, ends)
        tasks = tasks_between(self._options, begin, from_json(end), ends, timeline_in(end))
        return [*newest, *tasks]

    def begun(self, start: Json, end: Json) -> Json:
        """Return the beginning of a micro-batch.

        A first one that is repeated begins where it began: not where first() would begin now.
        """
        return (beginning_in(end) if start == self._first else None) or start

    @steadily
    def where(self) -> Reached:
        """Return the database that was reached, for tasks."""
        conn, _ = self._look(fresh=False)
        if self._reached is None:
            self._reached = reached(conn)
        return self._reached

    @steadily
    def show(self, done: Json) -> None:
        """Record the position, where Spark does not tell it by asking for more (before 4.2)."""
        _, ends = self._look(fresh=False)
        self._start(done, ends)
        self._show(done)

    def close(self) -> None:
        """End the sessions."""
        if self._servers is not None:
            self._servers.close()
            self._servers = None

    def _look(self, *, fresh: bool = True) -> tuple[Connection[Any], list[End]]:
        """Return a session and the ends of one snapshot; a session that broke is opened anew."""
        if self._servers is None or self._servers.closed:
            self.close()
            self._servers = open_servers(self._options)
            self._reached = None
        if self._options.group_id is not None:
            self._servers.writable()
        if fresh:
            self._servers.settle()
        return self._servers.log, find_ends(self._servers.log, self._options)

    def _start(self, done: Json, ends: list[End]) -> Offsets:
        """Return a place from Spark's checkpoint. Raises UsageError as start_of() does."""
        assert self._servers is not None
        return start_of(done, ends, self._servers, self._options)

    def _is_too_little(self, behind: int) -> bool:
        """Tell whether to wait for more: below minOffsetsPerTrigger, and not for too long yet."""
        least = self._options.min_offsets
        if least is None or behind >= least or self._last_stop is not None:
            return False
        if self._waiting_since_s is None:
            self._waiting_since_s = monotonic()
        return (monotonic() - self._waiting_since_s) * 1000 < self._options.max_trigger_delay_ms

    def _show(self, done: Json) -> None:
        """Record the position.

        Spark asks for the next batch only when the last one is committed. That is safer than its
        commit(), which comes when the next batch is planned, and never for the last one.
        """
        if self._options.group_id is not None and done != self._recorded:
            assert self._servers is not None
            conn = self._servers.writable()
            record_position(conn, self._options.group_id, from_json(done))
            self._recorded = done

    @staticmethod
    def _bounded(place: Offsets, end: Offsets) -> Offsets:
        """Return the nearer of two places: both are consistent, so is the result.

        Partitions that `end` lacks are newer than it, and left out.
        """
        return {
            topic: {p: min(offset, place[topic][p]) for p, offset in partitions.items()}
            for topic, partitions in end.items()
        }


def _tell_begin(ends: list[End]) -> None:
    """Log that a new stream leaves out the events that are there: it may wait for nothing."""
    if before := count({}, latest(ends)) - count({}, earliest(ends)):
        log.warning(
            "the stream begins at the end of the log, behind %s events: startingOffsets is latest "
            "by default, and earliest reads them, in a stream with a new checkpointLocation",
            before,
        )


def _json(
    place: Offsets,
    ends: list[End],
    timeline: int | None = None,
    latest_us: Mapping[str, int] | None = None,
) -> Json:
    """Return a place as Spark keeps it, with the mark of the log that was read."""
    timeline = timeline or max(end.timeline for end in ends)
    created = {end.topic: end.created_us for end in ends if end.topic in place}
    return to_json(place, mark(timeline, created, latest_us))
