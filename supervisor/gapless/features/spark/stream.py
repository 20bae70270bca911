"""A streaming read, the driver's side: micro-batches that end at consistent cuts of the log.

All events of a publishing transaction, in all partitions, are in the same micro-batch or in none.
Spark keeps the position in its checkpoint; a group shows it to people, and holds back retention.
"""

from __future__ import annotations

import logging
from time import monotonic
from typing import Any

from psycopg import Connection

from gapless.db.queries import query
from gapless.errors import UsageError
from gapless.features.spark.offsets import (
    LATEST,
    Json,
    Offsets,
    count,
    created_in,
    from_json,
    mark,
    timeline_in,
    to_json,
)
from gapless.features.spark.options import ReadOptions
from gapless.features.spark.place import (
    End,
    cut,
    earliest,
    find_ends,
    latest,
    record_position,
)
from gapless.features.spark.reach import Reached, reached
from gapless.features.spark.resolve import find_now, resolve
from gapless.features.spark.source import Task, tasks_between
from gapless.features.spark.standby import (
    BehindError,
    Servers,
    open_servers,
    server_of,
    steadily,
)

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
        self._last_stop: Offsets | None = None  # Trigger.AvailableNow stops here
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
        place, now = self._options.starting, find_now(conn)
        return _json(resolve(conn, place, ends, now=now, otherwise=LATEST), ends)

    @steadily
    def stop_here(self) -> None:
        """Let the query end at the present end of the log (Trigger.AvailableNow)."""
        _, ends = self._look()
        self._last_stop = latest(ends)

    @steadily
    def newest(self) -> Json:
        """Return the end of the log, without the limits: lag is measured against it."""
        _, ends = self._look()
        return _json(self._last_stop or latest(ends), ends)

    @steadily
    def next(self, done: Json, *, limited: bool) -> Json:
        """Return the end of the next micro-batch; `done`, the end of the last one, if none is due.

        Not limited: all present events (Trigger.Once).
        """
        conn, ends = self._look()
        start = self._start(done, ends)
        self._show(done)
        end = self._last_stop or latest(ends)
        behind = count(start, end)
        options = self._options
        if behind == 0 or (limited and self._is_too_little(behind)):
            return _json(start, ends)
        self._waiting_since_s = None
        if limited and options.max_offsets is not None and behind > options.max_offsets:
            return _json(self._bounded(cut(conn, start, ends, options.max_offsets), end), ends)
        return _json(self._bounded(latest(ends), end), ends)

    @steadily
    def tasks(self, start: Json, end: Json) -> list[Task]:
        """Return the ranges of each task of a micro-batch."""
        _, ends = self._look(fresh=False)
        begin = self._start(start, ends)
        return tasks_between(self._options, begin, from_json(end), ends, timeline_in(end))

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
        """Return a place from Spark's checkpoint, with the partitions that are new since.

        Raises UsageError when it is of other topics, or of another log.
        """
        start = from_json(done)
        topics = {end.topic for end in ends}
        if strangers := sorted(set(start) - topics):
            raise UsageError(
                f"the checkpoint belongs to topic {', '.join(strangers)}, and this query reads "
                f"{', '.join(sorted(topics))}: give it a checkpointLocation of its own"
            )
        found = earliest(ends)
        for end in ends:
            offset = start.get(end.topic, {}).get(end.partition_id)
            if offset is None:
                continue
            if created_in(done, end.topic) not in (None, end.created_us):
                raise UsageError(
                    f"the checkpoint belongs to topic {end.topic} of another database, or to one "
                    "that was created anew since: give the query a checkpointLocation of its own"
                )
            if offset > end.next_offset:
                self._refuse_behind(end, offset)
                raise UsageError(
                    f"the checkpoint is at offset {offset} of {end.topic}/{end.partition_id}, but "
                    f"the log goes to {end.next_offset - 1} only: it is another database, or an "
                    "older copy of it"
                )
            self._refuse_replaced(end, offset, timeline_in(done))
            found[end.topic][end.partition_id] = offset
        return found

    def _refuse_behind(self, end: End, offset: int) -> None:
        """Raise BehindError for a place that a standby may not have replayed yet."""
        assert self._servers is not None
        if self._servers.is_standby:
            raise BehindError(
                f"the checkpoint is at offset {offset} of {end.topic}/{end.partition_id}, and the "
                f"standby, {server_of(self._servers.log)}, has replayed up to "
                f"{end.next_offset - 1} only: it lags, or it is of another database"
            )

    def _refuse_replaced(self, end: End, offset: int, timeline: int | None) -> None:
        """Raise UsageError for a place behind events that a failover has lost."""
        if timeline is None or end.timeline <= timeline:
            return
        assert self._servers is not None
        where = {"topic_id": end.topic_id, "partition": end.partition_id}
        params = {**where, "next_offset": offset, "timeline": timeline}
        ((first_offset,),) = self._servers.log.execute(
            query("tail", "replaced_from"), params
        ).fetchall()
        if first_offset is not None:
            raise UsageError(
                f"the checkpoint is at offset {offset} of {end.topic}/{end.partition_id}, and a "
                f"failover has lost events before it: from {first_offset} on the log has others, "
                "which were not read; begin there, with startingOffsets and a checkpointLocation "
                "of its own"
            )

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


def _json(place: Offsets, ends: list[End]) -> Json:
    """Return a place as Spark keeps it, with the mark of the log that was read."""
    created = {end.topic: end.created_us for end in ends if end.topic in place}
    return to_json(place, mark(max(end.timeline for end in ends), created))
