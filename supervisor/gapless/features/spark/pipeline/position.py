"""A pipeline's position: in the database, moved in the transaction of a batch's effects."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

import psycopg
from psycopg import Connection
from psycopg.rows import class_row

from gapless.db.queries import query
from gapless.errors import GaplessError, UsageError
from gapless.features.spark.offsets import Offsets, count, from_json, to_json
from gapless.features.spark.options import read_options
from gapless.features.spark.pipeline.bad import Aside, redriven_events, require_taken
from gapless.features.spark.pipeline.document import Pipeline
from gapless.features.spark.pipeline.lease import locked_pipeline
from gapless.features.spark.place import End, cut, find_ends, latest, require_kept, wait_for_offsets
from gapless.ops.text import quantity

__all__ = ["PipelineStanding", "list_pipelines", "reset_pipeline"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineState:
    """A pipeline's state: number of batches done; the files of the current batch, and its end."""

    name: str
    batch: int
    planned: Any
    files: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineStanding:
    """A pipeline's progress; lag: events it has not read. bad: events it could not take.

    state: running; retrying, since failing_ts; waiting: an instance is about to run it; failed or
    stopped: no instance has it. standbys: sessions of instances that would run it. runs: one does,
    and runner is the newest, silent for silent_s.
    """

    name: str
    state: Literal["running", "retrying", "waiting", "failed", "stopped"]
    batches: int
    events: int
    bad: int
    lag: int
    runs: bool = field(metadata={"only_json": True})
    standbys: int
    runner: str | None = field(metadata={"only_json": True})
    failing_ts: datetime | None
    silent_s: float | None = field(metadata={"only_json": True})
    done_ts: datetime | None
    target: str
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Unread events that a topic keeps for a pipeline; is_archive: it is the topic's archive."""

    topic: str
    events: int
    is_archive: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBatch:
    """A batch: number, and the range of the log from `start` to before `end`.

    epoch: of the run that ends it. is_planned: its files are recorded, and only to be moved. aside:
    dead letters that it handles again, without a range, and its bad events.
    """

    number: int
    start: Offsets
    end: Offsets
    ends: tuple[End, ...]
    epoch: int = 0
    is_planned: bool = False
    aside: Aside = field(default_factory=Aside)

    @property
    def events(self) -> int:
        return count(self.start, self.end)

    @property
    def is_due(self) -> bool:
        """Whether there is something to do."""
        return bool(self.events or self.is_planned or self.aside.redriven)


def register_pipeline(conn: Connection[Any], pipeline: Pipeline) -> None:
    """Register the pipeline. Raises UsageError for topics that do not exist."""
    topics = set(pipeline.topics)
    if pipeline.target.kind == "topic":
        topics.add(pipeline.target.where)
    _ends(conn, topics)
    conn.execute(
        query("spark", "register_pipeline"),
        {
            "name": pipeline.name,
            "topics": list(pipeline.topics),
            "start": pipeline.start,
            "target": str(pipeline.target),
        },
    )


def require_target(conn: Connection[Any], pipeline: Pipeline) -> None:
    """Raise UsageError for work that only its former target takes: a batch, redriven letters."""
    files = state(conn, pipeline.name).files
    form = files.get("form", "delta") if isinstance(files, dict) else "parquet"
    if files is not None and form != pipeline.target.form:
        raise UsageError(
            f"pipeline {pipeline.name} has a batch whose files are on their way into {form}: run "
            "it with --once as it was, then change its target"
        )
    require_taken(conn, pipeline)


def state(conn: Connection[Any], name: str) -> PipelineState:
    """Return the pipeline's state. Raises UsageError for one that never ran here."""
    with conn.cursor(row_factory=class_row(PipelineState)) as cursor:
        found = cursor.execute(query("spark", "pipeline"), {"name": name}).fetchone()
    if found is None:
        raise UsageError(f"pipeline {name} has never run in this database")
    return found


def list_pipelines(conn: Connection[Any]) -> list[PipelineStanding]:
    """Return the progress of all pipelines that ever ran in this database."""
    with conn.cursor(row_factory=class_row(PipelineStanding)) as cursor:
        return cursor.execute(query("spark", "pipelines")).fetchall()


def next_batch(conn: Connection[Any], pipeline: Pipeline, epoch: int = 0) -> MicroBatch:
    """Fix the next batch: up to a consistent cut, at most batch_events events, maybe none.

    A batch whose files are already written is returned unchanged. Dead letters that a person has
    asked for come first, in a batch of their own. Raises HoleError when retention dropped events
    that the pipeline has not read, UsageError as require_taken().
    """
    wait_for_offsets(conn)
    at = state(conn, pipeline.name)
    ends = _ends(conn, pipeline.topics)
    start = _position(conn, pipeline, ends)
    aside = Aside(topic_ids={end.topic: end.topic_id for end in ends})
    if at.planned is not None:
        end = recorded_end(pipeline, at.planned, start)
    else:
        require_taken(conn, pipeline)  # a person may redrive them while it runs
        if not pipeline.target.commits_apart:
            aside.redriven = redriven_events(conn, pipeline)
        end = start if aside.redriven else latest(ends)
        if count(start, end) > pipeline.batch_events:
            end = cut(conn, start, ends, pipeline.batch_events)
    return MicroBatch(
        number=at.batch,
        start=start,
        end=end,
        ends=tuple(ends),
        epoch=epoch,
        is_planned=at.planned is not None,
        aside=aside,
    )


def recorded_end(pipeline: Pipeline, place: Any, start: Offsets) -> Offsets:
    """Return the end of a batch that was recorded when the log had fewer partitions, perhaps.

    A new partition has none of its events. Raises UsageError for events of a topic that the
    pipeline has left since: their position would stay behind them.
    """
    recorded = from_json(place)
    if left := sorted(recorded.keys() - start.keys()):
        raise UsageError(
            f"pipeline {pipeline.name} has a batch under way, with events of {', '.join(left)}: "
            "run it with --once as it was, then change its topics"
        )
    return {topic: parts | recorded.get(topic, {}) for topic, parts in start.items()}


def plan_files(conn: Connection[Any], name: str, batch: MicroBatch, files: Any) -> None:
    """Record the files of a batch, so that it is finished with them and never written again.

    Its bad events are decided with them, and set aside in the same transaction.

    files: JSON; a list of moves for Parquet (files.py), an object for Delta (delta.py), and for
    a merge or Iceberg an object with the target's form alone (lake.py).
    """
    params = {
        "name": name,
        "batch": batch.number,
        "planned": json.dumps(to_json(batch.end)),
        "files": json.dumps(files),
        "epoch": batch.epoch,
    }
    with conn.transaction():
        row = conn.execute(query("spark", "plan_files"), params).fetchone()
        if row is None or not row[0]:
            raise GaplessError(f"pipeline {name} has moved on meanwhile: it runs elsewhere, too")
        batch.aside.settle(conn, name)
    batch.aside.is_settled = True


def end_batch(conn: Connection[Any], name: str, batch: MicroBatch) -> None:
    """Move the pipeline past a batch, in the caller's transaction; GaplessError if fenced."""
    before = [batch.start[end.topic][end.partition_id] for end in batch.ends]
    after = [
        batch.end.get(end.topic, {}).get(end.partition_id, stays)
        for end, stays in zip(batch.ends, before, strict=True)
    ]
    params = {
        "name": name,
        "batch": batch.number,
        "topic_ids": [end.topic_id for end in batch.ends],
        "partition_ids": [end.partition_id for end in batch.ends],
        "from_offsets": before,
        "to_offsets": after,
        "events": batch.events,
        "epoch": batch.epoch,
    }
    try:
        conn.execute(query("spark", "end_batch"), params)
    except psycopg.Error as error:
        if error.sqlstate == "GL409":
            raise GaplessError(str(error.diag.message_primary)) from error
        raise
    batch.aside.settle(conn, name)


def note(conn: Connection[Any], name: str, error: str | None) -> None:
    """Record the error that stops the pipeline; None: it has none. Before: `conn` has the lock."""
    conn.execute(query("spark", "note_pipeline"), {"name": name, "error": error})


def reset_pipeline(
    conn: Connection[Any], name: str, to: Literal["earliest", "latest"] = "earliest"
) -> None:
    """Let a pipeline begin anew; its output stays.

    Before: `conn` is in autocommit. Raises UsageError for one that never ran, while it runs, or
    half-way through a batch.
    """
    state(conn, name)
    with locked_pipeline(conn, name):
        try:
            conn.execute(query("spark", "reset_pipeline"), {"name": name, "goal": to})
        except psycopg.Error as error:
            if error.sqlstate == "GL409":
                raise UsageError(str(error.diag.message_primary)) from error
            raise


def holds(conn: Connection[Any], name: str) -> list[Hold]:
    """Return what retention keeps for a pipeline. Raises UsageError if nothing knows of it."""
    with conn.cursor(row_factory=class_row(Hold)) as cursor:
        found = cursor.execute(query("spark", "holds"), {"name": name}).fetchall()
    if not found:
        state(conn, name)
    return found


def remove(conn: Connection[Any], name: str) -> None:
    """Forget a pipeline: retention no longer waits for it. Raises UsageError while it runs.

    Nor while instances stand by, or wait to try it again: they would begin it anew.
    """
    holds(conn, name)
    with locked_pipeline(conn, name):
        standbys = sum(each.standbys for each in list_pipelines(conn) if each.name == name)
        if standbys:
            told = f"{quantity(standbys, 'instance')} of gapless pipeline run would begin it anew"
            raise UsageError(f"pipeline {name}: {told}: stop them first")
        conn.execute(query("spark", "remove_pipeline"), {"name": name})


def _ends(conn: Connection[Any], topics: Iterable[str]) -> list[End]:
    return find_ends(conn, read_options({"url": conn.info.dsn, "subscribe": ",".join(topics)}))


def _position(conn: Connection[Any], pipeline: Pipeline, ends: list[End]) -> Offsets:
    rows = conn.execute(
        query("spark", "position"),
        {"group_id": f"pipeline.{pipeline.name}", "topics": list(pipeline.topics)},
    ).fetchall()
    at: Offsets = {}
    for topic, partition_id, offset in rows:
        at.setdefault(topic, {})[partition_id] = offset
    for end in ends:  # a new partition
        at.setdefault(end.topic, {}).setdefault(end.partition_id, 1)
    anew = f"gapless pipeline reset {pipeline.name} begins anew with those that are"
    require_kept(at, ends, fail=True, remedy=anew)
    return at
