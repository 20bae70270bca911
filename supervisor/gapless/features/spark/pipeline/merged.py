"""Write the rows of several Parquet files into one, as Spark would have written them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gapless.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

_GROUP_BYTES = 64 << 20  # of a row group, in memory
_INT96 = "INT96"


class MergeError(Exception):
    """Files that cannot be merged."""


@dataclass(slots=True, kw_only=True)
class _Footers:
    """The footers of files: their different schemas, rows, and bytes in memory."""

    schemas: list[pa.Schema] = field(default_factory=list)
    rows: int = 0
    bytes: int = 0
    is_int96: bool = False  # timestamps, Spark's default
    is_other: bool = False

    def add(self, file: Any) -> None:
        schema, metadata = file.schema_arrow, file.metadata
        if not any(each.equals(schema, check_metadata=True) for each in self.schemas):
            self.schemas.append(schema)
        self.rows += metadata.num_rows
        groups = range(metadata.num_row_groups)
        self.bytes += sum(metadata.row_group(n).total_byte_size for n in groups)
        self._add_timestamps(schema, file.schema)

    def _add_timestamps(self, schema: pa.Schema, columns: Any) -> None:
        import pyarrow as pa

        kinds = [columns.column(n).physical_type for n in range(len(columns))]
        self.is_int96 = self.is_int96 or _INT96 in kinds
        self.is_other = self.is_other or any(
            pa.types.is_timestamp(each.type) and kinds[columns.names.index(each.name)] != _INT96
            for each in schema
            if each.name in columns.names
        )


def merge_files(files: Sequence[Path], goal: Path) -> None:
    """Write the rows of all files, in their order, into a new one, and flush it to the disk.

    A column that some files lack is null in their rows. Raises MergeError for files that do not fit
    together, UsageError without pyarrow. Bound: one file is open, and the rows of two row groups of
    _GROUP_BYTES are in memory.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise UsageError("pyarrow is missing: pip install 'gapless[spark-provided]'") from error
    footers = _Footers()
    try:
        for each in files:
            with _opened(each) as file:
                footers.add(file)
        if footers.is_int96 and footers.is_other:
            raise MergeError("timestamps are INT96 in some places, and not in others")
        schema = _schema(footers.schemas)
        group = max(1, int(_GROUP_BYTES * max(footers.rows, 1) / max(footers.bytes, 1)))
        with pq.ParquetWriter(
            goal, schema, use_deprecated_int96_timestamps=footers.is_int96, store_schema=False
        ) as writer:
            for table in _groups(files, schema, group):
                writer.write_table(table, group)
        written = pq.read_metadata(goal).num_rows
        with goal.open("rb") as merged:
            os.fsync(merged.fileno())
    except (pa.ArrowException, OSError) as error:
        raise MergeError(" ".join(str(error).split())[:300]) from error
    if written != footers.rows:
        raise MergeError(f"{footers.rows} rows became {written}")


def _opened(path: Path) -> Any:
    import pyarrow.parquet as pq

    return pq.ParquetFile(path, coerce_int96_timestamp_unit="us")


def _groups(files: Sequence[Path], schema: pa.Schema, rows: int) -> Iterator[pa.Table]:
    """Yield the rows of all files, so many at a time: a row group for each file would be small."""
    import pyarrow as pa

    found: list[pa.Table] = []
    count = 0
    for each in files:
        with _opened(each) as file:
            for batch in file.iter_batches(rows):
                found.append(_as(schema, pa.Table.from_batches([batch])))
                count += batch.num_rows
                if count >= rows:
                    table = pa.concat_tables(found)
                    yield table.slice(0, rows)
                    found, count = [table.slice(rows)], count - rows
    if count:
        yield pa.concat_tables(found)


def _schema(every: Sequence[pa.Schema]) -> pa.Schema:
    """Return a schema with all columns. Spark's own words for it count only if all say the same."""
    import pyarrow as pa

    if len(every) == 1:
        return every[0]
    return pa.unify_schemas([each.remove_metadata() for each in every])


def _as(schema: pa.Schema, table: pa.Table) -> pa.Table:
    import pyarrow as pa

    if table.schema.equals(schema):
        return table
    for each in [each for each in schema if each.name not in table.schema.names]:
        table = table.append_column(each, pa.nulls(table.num_rows, each.type))
    return table.select(schema.names).cast(schema)
