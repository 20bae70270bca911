"""A table in another database: the batch's rows and the pipeline's place are one commit there.

The table gapless_position beside the target has, for each pipeline, the number of the last batch in
it and the place where that batch ended. If a run is interrupted between the commit there and that
of the position in the log's database, the next run finds the batch, and only moves the position to
the same place.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import Connection, sql

from gapless.db.connect import connect
from gapless.errors import ConnectError, GaplessError, UsageError
from gapless.failpoints import hit
from gapless.features.spark.offsets import to_json
from gapless.features.spark.pipeline.document import Pipeline
from gapless.features.spark.pipeline.lake import app_of, require_new
from gapless.features.spark.pipeline.position import MicroBatch, end_batch, recorded_end
from gapless.features.spark.pipeline.table import (
    Table,
    beside,
    drop_stage,
    explained,
    stage_of,
)
from gapless.features.spark.reach import reached
from gapless.features.spark.sink import Staged
from gapless.settings import dereference

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Rows = tuple[Sequence[str], list[Staged]]  # columns, and the rows that tasks have staged

_POSITION = "gapless_position"
_CREATE = sql.SQL(
    "create table if not exists {} (pipeline text primary key, batch int8, place json)"
)
_FIND = sql.SQL("select batch, place from {} where pipeline = %s")
_MOVE = sql.SQL(
    "update {} set batch=%(batch)s, place=%(place)s where pipeline=%(app)s and batch<%(batch)s"
)
_PUT = sql.SQL("insert into {} values (%(app)s, %(batch)s, %(place)s) on conflict do nothing")


def open_other(url: str) -> Connection[Any]:
    """Open the database of a reference. Raises ConnectError or UsageError in one sentence."""
    return connect(dereference(url), role="spark pipeline")


class OtherTable:
    """The table in another database that a pipeline writes to."""

    def __init__(self, pipeline: Pipeline, url: str) -> None:
        self._pipeline = pipeline
        self._url = url
        self._position = beside(pipeline.target.where, _POSITION)

    def begin(self, conn: Connection[Any]) -> None:
        """Do nothing: a batch is in the table, or not at all."""

    def bring(
        self, conn: Connection[Any], batch: MicroBatch, frame: Callable[[], DataFrame]
    ) -> None:
        """See Target."""

        def stage(there: Connection[Any], table: Table) -> Rows:
            df = frame()
            return df.columns, table.write(there, df)

        self.take(conn, batch, stage)

    def take(
        self,
        conn: Connection[Any],
        batch: MicroBatch,
        stage: Callable[[Connection[Any], Table], Rows],
    ) -> None:
        """Write a batch, and move the pipeline past it; one that is there is only finished.

        stage: brings the batch's rows to the stage of the table.
        """
        app = app_of(conn, self._pipeline.name)
        with closing(open_other(self._url)) as there:
            done = self._stored(there, app, batch)
            if done is None:
                self._write(there, app, batch, stage)
        hit("pipeline.applied")
        with conn.transaction():
            end_batch(conn, self._pipeline.name, done or batch)
        hit("pipeline.done")

    def _stored(self, there: Connection[Any], app: str, batch: MicroBatch) -> MicroBatch | None:
        """Return the batch as the other database has it; None if it has not.

        Raises GaplessError for a database that is ahead of the log's.
        """
        with explained(self._pipeline):
            with suppress(psycopg.errors.UniqueViolation):  # another pipeline makes it just now
                there.execute(_CREATE.format(self._position))
            row = there.execute(_FIND.format(self._position), [app]).fetchone()
        if row is None or row[0] < batch.number:
            return None
        if row[0] > batch.number:
            require_new(row[0], self._pipeline.name, batch)
        return replace(batch, end=recorded_end(self._pipeline, row[1], batch.start))

    def _note(self, there: Connection[Any], app: str, batch: MicroBatch) -> None:
        """Move the place in the other database past the batch, in the transaction of its rows.

        Raises GaplessError if another run has done so.
        """
        now = {"app": app, "batch": batch.number, "place": json.dumps(to_json(batch.end))}
        moved = (
            there.execute(_MOVE.format(self._position), now).rowcount
            or there.execute(_PUT.format(self._position), now).rowcount
        )
        if not moved:
            raise GaplessError(
                f"pipeline {self._pipeline.name} has moved on meanwhile: it runs elsewhere, too"
            )

    def _write(
        self,
        there: Connection[Any],
        app: str,
        batch: MicroBatch,
        stage: Callable[[Connection[Any], Table], Rows],
    ) -> None:
        where = stage_of(app, self._pipeline.target.where)
        table = Table(self._pipeline, reached(there), stage=where)
        columns, rows = stage(there, table)
        hit("pipeline.written")
        with there.transaction():
            self._note(there, app, batch)
            table.merge(there, columns, rows)
            hit("pipeline.looked")


def drop_staged(conn: Connection[Any], name: str, target: str) -> str | None:
    """Drop the staged rows of an interrupted run; return the stage's name if that is refused.

    target: as the database has it, `table NAME`, `table NAME at URL`, or another kind.
    """
    kind, _, rest = target.partition(" ")
    where, _, url = rest.partition(" at ")
    if kind != "table":
        return None
    if not url:
        return drop_stage(conn, stage_of(name, where))
    stage = stage_of(app_of(conn, name), where)
    try:
        with closing(open_other(url)) as there:
            left_over = drop_stage(there, stage)
    except (ConnectError, UsageError):
        left_over = stage.as_string(conn)
    return f"{left_over} at {url}" if left_over else None
