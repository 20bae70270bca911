"""Files of Parquet in a Delta table, committed to its log once, by delta-rs: no jar is needed.

A batch's files are written into a folder of their own inside the table, where no reader looks, then
recorded in the database, then committed, with the batch's number as the version of this pipeline's
application transaction: the table itself knows whether a batch is in it. If a run is interrupted
before the record, the batch is written anew; after it, that commit finishes the batch. Files of a
lost attempt are in no commit: VACUUM removes them, as any writer's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote
from uuid import uuid4

from psycopg import Connection

from gapless.db.schema import schema
from gapless.errors import GaplessError, UsageError
from gapless.failpoints import hit
from gapless.features.spark.pipeline.days import with_days
from gapless.features.spark.pipeline.delta_schema import (
    columns_of,
    explained,
    require_same_columns,
    require_writable,
)
from gapless.features.spark.pipeline.document import Pipeline
from gapless.features.spark.pipeline.folder import File, Folder
from gapless.features.spark.pipeline.lake import app_of, require_new
from gapless.features.spark.pipeline.parquet import write_parquet
from gapless.features.spark.pipeline.position import MicroBatch, end_batch, plan_files, state

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame, SparkSession

_TIMESTAMPS = "spark.sql.parquet.outputTimestampType"
_NULL = "__HIVE_DEFAULT_PARTITION__"


def require_delta() -> None:
    """Raise UsageError where the package that writes Delta's log is missing."""
    try:
        import deltalake  # noqa: F401 - an extra
    except ImportError as error:
        raise UsageError(
            f"a target delta needs {error.name}, which is not installed: pip install gapless[delta]"
        ) from error


class Delta:
    """The Delta table a pipeline writes to; the first batch makes it."""

    def __init__(self, spark: SparkSession, pipeline: Pipeline) -> None:
        self._spark = spark
        self._pipeline = pipeline
        self._folder = Folder(spark, pipeline.target.where)

    def begin(self, conn: Connection[Any]) -> None:
        """Do nothing: files of interrupted runs are in no commit."""

    def bring(
        self, conn: Connection[Any], batch: MicroBatch, frame: Callable[[], DataFrame]
    ) -> None:
        """See Target: a recorded batch is only finished."""
        if state(conn, self._pipeline.name).files is None:
            self.write(conn, batch, with_days(frame(), self._pipeline.target))
        self.finish(conn, batch)

    def write(self, conn: Connection[Any], batch: MicroBatch, df: DataFrame) -> None:
        """Write a batch's files to their final place, and record them for the commit."""
        app = app_of(conn, self._pipeline.name)
        with explained(self._folder.where):
            done = self._table(df).transaction_version(app)
            require_new(done, self._pipeline.name, batch)
        below = f"gapless/{self._pipeline.name}/{batch.number:010d}-{uuid4().hex}"
        with _micros(self._spark):
            files = write_parquet(df, self._folder, below, self._pipeline, batch)
        adds = [
            _add(below, file, self._folder.parquet_rows(f"{below}/{file.name}")) for file in files
        ]
        hit("pipeline.staged")
        plan = {"table": self._folder.uri, "app": app, "adds": [add for add in adds if add]}
        plan_files(conn, self._pipeline.name, batch, plan)
        hit("pipeline.written")

    def finish(self, conn: Connection[Any], batch: MicroBatch) -> None:
        """Commit the recorded files, and move the pipeline past the batch."""
        plan = state(conn, self._pipeline.name).files
        if plan["adds"]:
            with explained(plan["table"]):
                self._commit(plan, batch)
        hit("pipeline.applied")
        with conn.transaction():
            end_batch(conn, self._pipeline.name, batch)
        hit("pipeline.done")

    def _table(self, df: DataFrame) -> DeltaTable:
        """Return the table, created if there is none. Raises UsageError if the rows do not fit."""
        from deltalake import DeltaTable, Schema

        partition_by = list(self._pipeline.target.partition_by)
        columns = columns_of(json.loads(df.schema.json()), partition_by)
        uri = self._folder.uri
        if not DeltaTable.is_deltatable(uri):
            others = [name for name in self._folder.names() if name != "_delta_log"]
            if others:
                raise UsageError(
                    f"it is no Delta table, but holds {others[0]!r}: name one, or an empty folder"
                )
            schema = Schema.from_json(json.dumps({"type": "struct", "fields": columns}))
            DeltaTable.create(uri, schema=schema, partition_by=partition_by, mode="ignore")
        table = DeltaTable(uri)
        require_writable(table)
        adds = self._pipeline.target.adds_columns
        return require_same_columns(table, columns, partition_by, adds=adds)

    def _commit(self, plan: Any, batch: MicroBatch) -> None:
        """Commit unless that has happened; of two at once, delta-rs refuses the second."""
        from deltalake import CommitProperties, DeltaTable, Transaction
        from deltalake.transaction import AddAction, RemoveAction

        table = DeltaTable(plan["table"])
        if has_batch(table, plan["app"], batch.number):
            return
        folder = Folder(self._spark, plan["table"])
        for add in plan["adds"]:
            if not folder.exists(add["path"]):
                raise GaplessError(
                    f"{add['path']} is not there any more, and not committed: was it vacuumed? "
                    f"Set planned and files to null in the pipeline's row of {schema()}.pipeline, "
                    "and the batch is written anew"
                )
        hit("pipeline.looked")
        adds: list[AddAction | RemoveAction] = [
            AddAction(**add, data_change=True) for add in plan["adds"]
        ]
        once = CommitProperties(app_transactions=[Transaction(plan["app"], batch.number)])
        parts = table.metadata().partition_columns
        table.create_write_transaction(
            adds, "append", table.schema(), parts, commit_properties=once
        )


def has_batch(table: DeltaTable, app: str, number: int) -> bool:
    """Tell whether a batch is in the table, or a later one.

    A later one: another run was faster, or the database was restored (require_new() tells so). Its
    number MUST NOT go back, or the batches after this one would be committed again.
    """
    done = table.transaction_version(app)
    return done is not None and done >= number


def _add(below: str, file: File, rows: int) -> dict[str, Any] | None:
    """Return a file as an entry of Delta's log; None for one without rows."""
    if not rows:
        return None
    pairs = [part.partition("=") for part in file.name.split("/")[:-1]]
    values = {unquote(name): unquote(value) for name, _, value in pairs}
    return {
        "path": f"{below}/{file.name}",
        "size": file.size,
        "partition_values": {
            name: None if value == _NULL else value for name, value in values.items()
        },
        "modification_time": file.modified_ms,
        "stats": json.dumps({"numRecords": rows}),
    }


@contextmanager
def _micros(spark: SparkSession) -> Iterator[None]:
    """Write timestamps as every writer of Delta does, against the session's setting."""
    said = spark.conf.get(_TIMESTAMPS)
    spark.conf.set(_TIMESTAMPS, "TIMESTAMP_MICROS")
    try:
        yield
    finally:
        if said is not None:
            spark.conf.set(_TIMESTAMPS, said)
