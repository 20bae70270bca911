"""The sink in the classes of PySpark's Python Data Source API, over gapless.features.spark.sink."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import TYPE_CHECKING
from uuid import uuid4

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from gapless.db.connect import connect
from gapless.errors import GaplessError, UsageError
from gapless.features.spark.options import WriteOptions
from gapless.features.spark.reach import reached
from gapless.features.spark.sink import Staged, drop_stages, publish_staged, stage

try:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter as StreamWriterBase
except ImportError:  # PySpark 4.0: rows instead of Arrow batches
    from pyspark.sql.datasource import (  # type: ignore[assignment]
        DataSourceStreamWriter as StreamWriterBase,
    )

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import Row, StructType

_QUERY = "sql.streaming.queryId"
_ROWS = 10_000  # of PySpark 4.0, in an Arrow batch


@dataclass(frozen=True)
class Message(WriterCommitMessage):
    """A task's message to the driver; query_id is the streaming query's, of its checkpoint."""

    staged: Staged
    query_id: str | None = None


class GaplessWriter(DataSourceArrowWriter):
    """A batch write. With the option writeId, a job that is run again publishes nothing twice."""

    def __init__(self, options: WriteOptions, *, overwrite: bool) -> None:
        _refuse_overwrite(overwrite=overwrite)
        self._options = _settled(options)
        self._sink_id = f"write {options.write_id or uuid4()}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Message:
        return Message(_stage(self._options, iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        publish_staged(self._options.dsn, self._sink_id, 0, _staged(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        # Spark may call this after a commit that went through: nothing published is undone.
        drop_stages(self._options.dsn, _staged(messages))


class GaplessStreamWriter(StreamWriterBase):
    """A streaming write; the fence is the query's id, which its checkpoint keeps, and the batch."""

    def __init__(self, options: WriteOptions, schema: StructType, *, overwrite: bool) -> None:
        _refuse_overwrite(overwrite=overwrite)
        self._options = _settled(options)
        self._schema = schema

    def write(self, iterator: Iterator[pa.RecordBatch] | Iterator[Row]) -> Message:
        context = TaskContext.get()
        query_id = context.getLocalProperty(_QUERY) if context is not None else None
        if query_id is None:
            raise GaplessError("a streaming write outside a streaming query: its id is not known")
        return Message(_stage(self._options, _batches(iterator, self._schema)), query_id)

    def commit(
        self,
        messages: list[WriterCommitMessage | None],
        batchId: int,  # noqa: N803 - Spark's
    ) -> None:
        queries = {each.query_id for each in messages if isinstance(each, Message)}
        if not queries:
            return  # a batch without tasks has nothing to publish
        (query_id,) = queries
        publish_staged(self._options.dsn, f"query {query_id}", batchId, _staged(messages))

    def abort(
        self,
        messages: list[WriterCommitMessage | None],
        batchId: int,  # noqa: N803, ARG002 - Spark's
    ) -> None:
        drop_stages(self._options.dsn, _staged(messages))


def _stage(options: WriteOptions, batches: Iterator[pa.RecordBatch]) -> Staged:
    context = TaskContext.get()
    part = context.partitionId() if context is not None else 0
    return stage(options.dsn, options.topic, part, batches, options.identity)


def _settled(options: WriteOptions) -> WriteOptions:
    """Return the options with the database that the driver reaches: tasks reach no other."""
    with closing(connect(options.dsn, role="spark sink")) as conn:
        where = reached(conn)
    return replace(options, dsn=where.dsn, identity=where.identity)


def _batches(
    given: Iterator[pa.RecordBatch] | Iterator[Row], schema: StructType
) -> Iterator[pa.RecordBatch]:
    """Return Arrow batches as they are, and rows as Arrow batches."""
    import pyarrow as pa

    items = iter(given)
    first = next(items, None)
    if first is None:
        return
    items = chain([first], items)
    if isinstance(first, pa.RecordBatch):
        yield from items
        return
    while rows := [row.asDict() for row in islice(items, _ROWS)]:
        columns = {name: [row[name] for row in rows] for name in schema.fieldNames()}
        yield pa.RecordBatch.from_pydict(columns)


def _staged(messages: list[WriterCommitMessage | None]) -> list[Staged]:
    return [each.staged for each in messages if isinstance(each, Message)]


def _refuse_overwrite(*, overwrite: bool) -> None:
    if overwrite:
        raise UsageError('a log is only appended to: write.mode("append"), outputMode("append")')
