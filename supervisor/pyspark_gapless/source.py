"""The data source `gapless` in the classes of PySpark's Python Data Source API."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
)

from gapless.features.spark.columns import require_own_schema, schema_ddl
from gapless.features.spark.events import check_columns
from gapless.features.spark.options import ReadOptions, read_options, write_options
from gapless.features.spark.source import AtLoad, look, plan_batch, read_task
from gapless.settings import environment_schema
from pyspark_gapless.stream import GaplessPartition, GaplessStreamReader

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


class GaplessSource(DataSource):
    """The format `gapless`: the log as a batch and streaming source and sink."""

    _loaded: AtLoad | None = None

    @classmethod
    def name(cls) -> str:
        return "gapless"

    def schema(self) -> str:
        options = read_options(self._given)
        self._loaded = look(options)  # Spark keeps this object, and with it the DataFrame's range
        return schema_ddl(options.columns, options.formats)

    def reader(self, schema: StructType) -> DataSourceReader:
        return GaplessReader(self._read_options(schema), self._loaded)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's
        return GaplessStreamReader(self._read_options(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:  # noqa: FBT001
        from pyspark_gapless.sink import GaplessWriter

        options = write_options(self._given)
        check_columns(schema.fieldNames(), topic=options.topic)
        return GaplessWriter(options, overwrite=overwrite)

    def streamWriter(  # noqa: N802 - Spark's
        self,
        schema: StructType,
        overwrite: bool,  # noqa: FBT001 - Spark's
    ) -> DataSourceStreamWriter:
        from pyspark_gapless.sink import GaplessStreamWriter

        options = write_options(self._given)
        check_columns(schema.fieldNames(), topic=options.topic)
        return GaplessStreamWriter(options, schema, overwrite=overwrite)

    @property
    def _given(self) -> dict[str, str]:
        """Return the options, with the environment's schema if they name none.

        Spark's worker plans one source after the other: the last one may have named another.
        """
        return {"schema": environment_schema(os.environ), **self.options}

    def _read_options(self, schema: StructType) -> ReadOptions:
        """Return the options of a reader. Raises UsageError for a schema that is not ours."""
        options = read_options(self._given)
        fields = [
            (field.name, f"{field.dataType.simpleString()}{'' if field.nullable else ' not null'}")
            for field in getattr(schema, "fields", ())  # an engine without Spark gives Arrow's
        ]
        if fields:
            require_own_schema(fields, options.columns, options.formats)
        return options


class GaplessReader(DataSourceReader):
    """A batch read. It has no pushFilters, on purpose: see the package."""

    def __init__(self, options: ReadOptions, loaded: AtLoad | None) -> None:
        self._options = options
        self._loaded = loaded

    def partitions(self) -> Sequence[InputPartition]:
        # Without a partition Spark calls read(None), so there is always one.
        plan = plan_batch(self._options, self._loaded)
        return [GaplessPartition(task, plan.reached) for task in plan.tasks or [()]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, GaplessPartition)
        return read_task(self._options, partition.value, partition.where)
