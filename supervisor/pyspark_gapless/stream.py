"""The streaming reader in the classes of PySpark: with limits from 4.2 on, without before.

Before 4.2 Spark asks Python sources for the newest offset only: a micro-batch is all there is, and
Trigger.AvailableNow reads it as one. Limits are refused there instead of being ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from gapless.errors import UsageError
from gapless.features.spark.options import ReadOptions
from gapless.features.spark.reach import Reached
from gapless.features.spark.source import Task, read_task
from gapless.features.spark.stream import StreamReader

if TYPE_CHECKING:
    import pyarrow as pa


class GaplessPartition(InputPartition):
    """The share of the log that one Spark task reads, and its database."""

    def __init__(self, task: Task, where: Reached) -> None:
        super().__init__(task)
        self.where = where


class _Reader(DataSourceStreamReader):
    """A streaming read. Spark keeps one of these on the driver; tasks use another, pickled once."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._stream: StreamReader | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options, "_stream": None}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's
        return self._driver.first()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        tasks, where = self._driver.tasks(start, end), self._driver.where()
        return [GaplessPartition(task, where) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, GaplessPartition)
        return read_task(self._options, partition.value, partition.where)

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: Spark calls it late, and not at all for the last batch (StreamReader)."""

    def stop(self) -> None:
        if self._stream is not None:
            self._stream.close()

    @property
    def _driver(self) -> StreamReader:
        if self._stream is None:
            self._stream = StreamReader(self._options)
        return self._stream


try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:  # before PySpark 4.2

    class GaplessStreamReader(_Reader):
        """A streaming read without limits."""

        def __init__(self, options: ReadOptions) -> None:
            if options.max_offsets is not None or options.min_offsets is not None:
                raise UsageError(
                    "maxOffsetsPerTrigger and minOffsetsPerTrigger need PySpark 4.2 or newer"
                ) from None
            super().__init__(options)

        def latestOffset(self) -> dict[str, Any]:  # type: ignore[override] # noqa: N802
            return self._driver.all()

        def partitions(
            self, start: dict[str, Any], end: dict[str, Any]
        ) -> Sequence[InputPartition]:
            # Spark plans a batch only when the one before it is committed.
            self._driver.show(self._driver.begun(start, end))
            return super().partitions(start, end)

        def commit(self, end: dict[str, Any]) -> None:
            self._driver.show(end)

else:

    class GaplessStreamReader(_Reader, SupportsTriggerAvailableNow):  # type: ignore[no-redef]
        """A streaming read with limits."""

        def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's
            if self._options.max_offsets is None and self._options.min_offsets is None:
                return ReadAllAvailable()
            return ReadMaxRows(self._options.max_offsets or 2**53)

        def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's
            self._driver.stop_here()

        def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
            return self._driver.next(start, limited=not isinstance(limit, ReadAllAvailable))

        def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's
            return self._driver.newest()
