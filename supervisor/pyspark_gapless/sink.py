"""The sink in the classes of PySpark's Python Data Source API; it works by gapless.spark.sink."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import uuid4

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from gapless.errors import GaplessError, UsageError
from gapless.spark.options import WriteOptions
from gapless.spark.sink import Staged, drop_stages, publish_staged, stage

if TYPE_CHECKING:
    import pyarrow as pa

_QUERY = "sql.streaming.queryId"


@dataclass(frozen=True)
class Message(WriterCommitMessage):
    """What a task says to the driver; query_id is the streaming query's, kept in its checkpoint."""

    staged: Staged
    query_id: str | None = None


class GaplessWriter(DataSourceArrowWriter):
    """A batch write. With the option writeId, a job that is run again publishes nothing twice."""

    def __init__(self, options: WriteOptions, *, overwrite: bool) -> None:
        _refuse_overwrite(overwrite=overwrite)
        self._options = options
        self._sink_id = f"write {options.write_id or uuid4()}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Message:
        return Message(_stage(self._options, iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        publish_staged(self._options.dsn, self._sink_id, 0, _staged(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        # Spark may call this after a commit that went through: nothing published is undone.
        drop_stages(self._options.dsn, _staged(messages))


class GaplessStreamWriter(DataSourceStreamArrowWriter):
    """A streaming write; the fence is the query's id, which its checkpoint keeps, and the batch."""

    def __init__(self, options: WriteOptions, *, overwrite: bool) -> None:
        _refuse_overwrite(overwrite=overwrite)
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Message:
        context = TaskContext.get()
        query_id = context.getLocalProperty(_QUERY) if context is not None else None
        if query_id is None:
            raise GaplessError("a streaming write outside a streaming query: its id is not known")
        return Message(_stage(self._options, iterator), query_id)

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
    return stage(options.dsn, options.topic, part, batches)


def _staged(messages: list[WriterCommitMessage | None]) -> list[Staged]:
    return [each.staged for each in messages if isinstance(each, Message)]


def _refuse_overwrite(*, overwrite: bool) -> None:
    if overwrite:
        raise UsageError('a log is only appended to: write.mode("append"), outputMode("append")')
