"""The data source `gapless` in the classes of PySpark's Python Data Source API."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
)

from gapless.spark.columns import schema_ddl
from gapless.spark.events import check_columns
from gapless.spark.options import ReadOptions, read_options, write_options
from gapless.spark.source import Task, check, plan_batch, read_task
from gapless.spark.stream import Stream

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
except ImportError as error:  # before PySpark 4.2
    raise ImportError("gapless needs PySpark 4.2 or newer: pip install 'pyspark>=4.2'") from error

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


class GaplessSource(DataSource):
    """The format `gapless`: the log as a batch and streaming source and sink."""

    @classmethod
    def name(cls) -> str:
        return "gapless"

    def schema(self) -> str:
        options = read_options(self.options)
        check(options)
        return schema_ddl(options.columns, binary_value=options.binary_value)

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002
        return GaplessReader(read_options(self.options))

    def streamReader(  # noqa: N802 - Spark's
        self,
        schema: StructType,  # noqa: ARG002
    ) -> DataSourceStreamReader:
        return GaplessStreamReader(read_options(self.options))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:  # noqa: FBT001
        from pyspark_gapless.sink import GaplessWriter  # noqa: PLC0415 - readers need none of it

        options = write_options(self.options)
        check_columns(schema.fieldNames(), topic=options.topic)
        return GaplessWriter(options, overwrite=overwrite)

    def streamWriter(  # noqa: N802 - Spark's
        self,
        schema: StructType,
        overwrite: bool,  # noqa: FBT001 - Spark's
    ) -> DataSourceStreamArrowWriter:
        from pyspark_gapless.sink import GaplessStreamWriter  # noqa: PLC0415 - as above

        options = write_options(self.options)
        check_columns(schema.fieldNames(), topic=options.topic)
        return GaplessStreamWriter(options, overwrite=overwrite)


class GaplessPartition(InputPartition):
    """What one Spark task reads."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)


class GaplessReader(DataSourceReader):
    """A batch read. It has no pushFilters, on purpose: see the package."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        # Without a partition Spark calls read(None), so there is always one.
        return [GaplessPartition(task) for task in plan_batch(self._options) or [()]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_task(self._options, partition.value)


class GaplessStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming read. Spark keeps one of these on the driver; tasks use another, pickled once."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._stream: Stream | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options, "_stream": None}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's
        return self._driver.first()

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

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [GaplessPartition(task) for task in self._driver.tasks(start, end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_task(self._options, partition.value)

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: Spark calls this late, and not at all for the last batch (see Stream)."""

    def stop(self) -> None:
        if self._stream is not None:
            self._stream.close()

    @property
    def _driver(self) -> Stream:
        if self._stream is None:
            self._stream = Stream(self._options)
        return self._stream
