"""Bad events, which a pipeline cannot take, and dead letters that it handles again.

An event is bad if the pipeline's `check` does not hold for it, or if it fails alone (isolate.py).
So a dead letter is an event with its offset, whatever the transform makes of it. Bad events are
counted and set aside in the transaction that decides the batch: that of its position, or for files
that of their record (files.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import Connection
from psycopg.rows import class_row

from gapless.db.queries import query
from gapless.errors import GaplessError, UsageError
from gapless.features.spark.columns import schema_ddl
from gapless.features.spark.pipeline.document import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Place = tuple[str, int, int]  # topic, partition, offset
PLACE = ("topic", "partition", "offset")
_HOLDS = "gapless_holds"
REDRIVEN_MAX = 1000  # dead letters of one batch: they pass through the driver


@dataclass(frozen=True, slots=True, kw_only=True)
class Redriven:
    """An event of a dead letter that a person has asked for again, since due_ts."""

    topic: str
    topic_id: int
    partition: int
    offset: int
    due_ts: datetime
    key: str | None
    value: str | None
    timestamp: datetime
    headers: str | None
    transaction_id: str
    event_type: str | None
    host_id: str | None
    user_id: str | None

    @property
    def place(self) -> Place:
        return self.topic, self.partition, self.offset


@dataclass(slots=True, kw_only=True)
class Aside:
    """The dead letters that a batch handles again, and its bad events with their reasons.

    isolated: those of them that the check let through. is_settled: they are recorded, for good.
    """

    redriven: Sequence[Redriven] = ()
    bad: dict[Place, str] = field(default_factory=dict)
    isolated: set[Place] = field(default_factory=set)
    is_dropped: bool = False
    is_settled: bool = False
    topic_ids: dict[str, int] = field(default_factory=dict)

    def settle(self, conn: Connection[Any], name: str) -> None:
        """Record all of it, in the transaction that decides the batch; nothing if it is settled.

        Raises GaplessError if a person has changed a dead letter meanwhile.
        """
        if self.is_settled:
            return
        if self.redriven:
            self._end_redriven(conn, name)
        elif self.bad:
            params = {
                "name": name,
                "topic_ids": [self.topic_ids[topic] for topic, _, _ in self.bad],
                "partition_ids": [partition for _, partition, _ in self.bad],
                "offsets": [offset for _, _, offset in self.bad],
                "reasons": list(self.bad.values()),
                "is_dropped": self.is_dropped,
            }
            conn.execute(query("spark", "set_bad_aside"), params)

    def _end_redriven(self, conn: Connection[Any], name: str) -> None:
        params = {
            "name": name,
            "topic_ids": [each.topic_id for each in self.redriven],
            "partition_ids": [each.partition for each in self.redriven],
            "offsets": [each.offset for each in self.redriven],
            "due": [each.due_ts for each in self.redriven],
            "reasons": [self.bad.get(each.place) for each in self.redriven],
        }
        try:
            conn.execute(query("spark", "end_redriven"), params)
        except psycopg.Error as error:
            if error.sqlstate == "GL409":
                raise GaplessError(str(error.diag.message_primary)) from error
            raise


def redriven_events(conn: Connection[Any], pipeline: Pipeline) -> list[Redriven]:
    """Return the events of dead letters that are to be handled again, at most REDRIVEN_MAX."""
    with conn.cursor(row_factory=class_row(Redriven)) as cursor:
        return cursor.execute(
            query("spark", "redriven_events"),
            {
                "name": pipeline.name,
                "topics": list(pipeline.topics),
                "events_max": REDRIVEN_MAX,
            },
        ).fetchall()


def require_taken(conn: Connection[Any], pipeline: Pipeline) -> None:
    """Raise UsageError for dead letters that were redriven, if the target takes none."""
    if pipeline.target.commits_apart and redriven_events(conn, pipeline):
        raise UsageError(
            f"pipeline {pipeline.name} has dead letters that were redriven, and {pipeline.target} "
            "takes none: run it with --once as it was, or give them up: gapless dlq discard "
            f"--group pipeline.{pipeline.name}"
        )


def columns_to_read(pipeline: Pipeline) -> tuple[str, ...]:
    """Return the columns to read: also those that say where an event is, if it may be bad."""
    if not pipeline.looks_for_bad:
        return pipeline.columns
    return tuple(dict.fromkeys((*pipeline.columns, *PLACE)))


def frame_of(spark: SparkSession, pipeline: Pipeline, redriven: Sequence[Redriven]) -> DataFrame:
    """Return the events of dead letters as the source returns those of the log."""
    names = columns_to_read(pipeline)
    rows = [tuple(getattr(each, name) for name in names) for each in redriven]
    return spark.createDataFrame(rows, schema_ddl(names, {}))


def judged(events: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Return the events with the verdict of the check, in a column of its own.

    It is asked once: by rand() or current_timestamp() it may differ from query to query, and an
    event would be neither written nor bad, or both. After: to be persisted.
    """
    holds = "true" if pipeline.check is None else f"coalesce(({pipeline.check}), false)"
    return events.selectExpr("*", f"{holds} as {_HOLDS}")


def sift(events: DataFrame, pipeline: Pipeline, aside: Aside) -> DataFrame:
    """Return the events for which the check holds; note the others in `aside`.

    Before: `events` is judged, and persisted. Raises GaplessError for a bad event if the pipeline
    says fail.
    """
    aside.is_dropped = pipeline.on_bad_row == "drop"
    if pipeline.check is None:
        return events
    reason = f"check does not hold: {' '.join(pipeline.check.split())[:300]}"
    bad = [
        (row.topic, row.partition, row.offset)
        for row in events.where(f"not {_HOLDS}").select(*PLACE).sort(*PLACE).collect()
    ]
    if bad and pipeline.on_bad_row == "fail":
        topic, partition, offset = bad[0]
        raise GaplessError(
            f"pipeline {pipeline.name}: {reason}, for {len(bad)} of the batch's events, the first "
            f"is {topic}/{partition}@{offset}: onBadRow: dead-letter sets them aside"
        )
    aside.bad.update(dict.fromkeys(bad, reason))
    return events.where(_HOLDS)
