"""Tables with commits of their own, written from the driver: rows and batch number are one commit.

A batch's rows come to the driver as Arrow; the end of the batch is recorded in the database, then
the rows and the number of the batch are committed to the table, then the pipeline moves on. If a
run is interrupted before the record, the batch begins anew, perhaps longer; after it, it has the
same range, and the number in the table tells whether the rows are there.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from typing import TYPE_CHECKING, Any, Protocol

from psycopg import Connection

from gapless.db.queries import query
from gapless.db.schema import schema
from gapless.errors import GaplessError
from gapless.failpoints import hit
from gapless.features.spark.pipeline.days import with_days
from gapless.features.spark.pipeline.document import Pipeline
from gapless.features.spark.pipeline.merge import changes_of
from gapless.features.spark.pipeline.position import MicroBatch, end_batch, plan_files, state

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


class LakeTable(Protocol):
    """A table whose commits may carry the number of a batch."""

    def explained(self) -> AbstractContextManager[None]:
        """Explain in one sentence any error of the table, with its name."""

    def done(self, app: str) -> int | None:
        """Return the last batch of a pipeline that is in the table; None if none is."""

    def fit(self, rows: pa.Table) -> None:
        """Create the table, or add columns to it; UsageError if the rows do not fit."""

    def write(self, rows: pa.Table, app: str, number: int) -> None:
        """Commit the rows, merged or appended, together with the number of the batch."""

    def close(self) -> None:
        """End sessions that it has; it opens others when it is used again."""


class Lake:
    """The lake table a pipeline writes to; the first batch makes it."""

    def __init__(self, pipeline: Pipeline, table: LakeTable) -> None:
        self._pipeline = pipeline
        self._table = table

    def begin(self, conn: Connection[Any]) -> None:
        """Do nothing: an interrupted batch is in the table, or not at all."""

    def bring(
        self, conn: Connection[Any], batch: MicroBatch, frame: Callable[[], DataFrame]
    ) -> None:
        """See Target."""
        self.take(conn, batch, lambda: with_days(frame(), self._pipeline.target).toArrow())

    def take(self, conn: Connection[Any], batch: MicroBatch, rows: Callable[[], pa.Table]) -> None:
        """Write a batch, and move the pipeline past it; one that is in the table is only finished.

        rows: returns the batch's rows, transformed. Bound: they are in memory at once.
        """
        with closing(self._table):
            if not self._is_done(conn, batch):
                self._apply(conn, batch, rows())
        hit("pipeline.applied")
        with conn.transaction():
            end_batch(conn, self._pipeline.name, batch)
        hit("pipeline.done")

    def _is_done(self, conn: Connection[Any], batch: MicroBatch) -> bool:
        """Tell whether a recorded batch is in the table.

        Raises GaplessError for a table that is ahead of the database.
        """
        with self._table.explained():
            done = self._table.done(app_of(conn, self._pipeline.name))
            if state(conn, self._pipeline.name).files is None:
                require_new(done, self._pipeline.name, batch)
                return False
            return done == batch.number

    def _apply(self, conn: Connection[Any], batch: MicroBatch, rows: pa.Table) -> None:
        """Record the batch, and commit its rows to the table."""
        name, target = self._pipeline.name, self._pipeline.target
        with self._table.explained():
            rows = plain(rows)
            if target.is_upsert:
                rows = changes_of(rows, target)
            self._table.fit(rows)
        hit("pipeline.staged")
        if state(conn, name).files is None:
            plan_files(conn, name, batch, {"form": target.form})
        hit("pipeline.written")
        if rows.num_rows:
            with self._table.explained():
                self._table.write(rows, app_of(conn, name), batch.number)


def app_of(conn: Connection[Any], name: str) -> str:
    """Return a pipeline's name that none of another database, or another schema, has."""
    row = conn.execute(query("spark", "database_identity")).fetchone()
    assert row is not None
    return f"{schema()} {row[0]} {name}"


def require_new(done: int | None, name: str, batch: MicroBatch) -> None:
    """Raise GaplessError for a batch that a table has, and the database does not know of."""
    if done is not None and done >= batch.number:
        raise GaplessError(
            f"it has batch {done} of pipeline {name}, and the database is at "
            f"{batch.number}: was the database restored, or the pipeline removed? Set the "
            "table back, too, or name another one"
        )


def plain(rows: pa.Table) -> pa.Table:
    """Return the rows with moments in UTC, and columns that may all be null."""
    import pyarrow as pa

    utc = pa.timestamp("us", tz="UTC")
    return rows.cast(
        pa.schema(
            (
                column.name,
                utc if pa.types.is_timestamp(column.type) and column.type.tz else column.type,
            )
            for column in rows.schema
        )
    )
