"""Write the rows of several Parquet files into one, as Spark would have written them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gapless.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

_GROUP_BYTES = 64 << 20  # of a row group, in memory
_INT96 = "INT96"


class MergeError(Exception):
    """Files that cannot be merged."""


def merge_files(files: Sequence[Path], goal: Path) -> None:
    """Write the rows of all files, in their order, into a new one, and flush it to the disk.

    A column that some files lack is null in their rows. Raises MergeError for files that do not fit
    together, UsageError without pyarrow. Bound: a row group of _GROUP_BYTES is in memory.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise UsageError("pyarrow is missing: pip install 'gapless[spark-provided]'") from error
    try:
        read = [pq.ParquetFile(each, coerce_int96_timestamp_unit="us") for each in files]
        schema = _schema([each.schema_arrow for each in read])
        rows = sum(each.metadata.num_rows for each in read)
        group = _group_rows(read, rows)
        with pq.ParquetWriter(
            goal, schema, use_deprecated_int96_timestamps=_is_int96(read), store_schema=False
        ) as writer:
            for each in read:
                for batch in each.iter_batches(group):
                    writer.write_table(_as(schema, pa.Table.from_batches([batch])), group)
                each.close()
        written = pq.read_metadata(goal).num_rows
    except (pa.ArrowException, OSError) as error:
        raise MergeError(" ".join(str(error).split())[:300]) from error
    if written != rows:
        raise MergeError(f"{rows} rows became {written}")
    with goal.open("rb") as file:
        os.fsync(file.fileno())


def _schema(every: Sequence[pa.Schema]) -> pa.Schema:
    """Return a schema with all columns. Spark's own words for it count only if all say the same."""
    import pyarrow as pa

    first = every[0]
    if all(each.equals(first, check_metadata=True) for each in every):
        return first
    return pa.unify_schemas([each.remove_metadata() for each in every])


def _is_int96(files: Sequence[Any]) -> bool:
    """Tell whether timestamps are INT96, Spark's default. Raises MergeError if only some are."""
    import pyarrow as pa

    old = False
    for each in files:
        kinds = [each.schema.column(n).physical_type for n in range(len(each.schema))]
        old = old or _INT96 in kinds
    others = any(
        pa.types.is_timestamp(field.type)
        and each.schema.column(each.schema.names.index(field.name)).physical_type != _INT96
        for each in files
        for field in each.schema_arrow
        if field.name in each.schema.names
    )
    if old and others:
        raise MergeError("timestamps are INT96 in some places, and not in others")
    return old


def _group_rows(files: Sequence[Any], rows: int) -> int:
    size = sum(
        each.metadata.row_group(n).total_byte_size
        for each in files
        for n in range(each.metadata.num_row_groups)
    )
    return max(1, int(_GROUP_BYTES * max(rows, 1) / max(size, 1)))


def _as(schema: pa.Schema, table: pa.Table) -> pa.Table:
    import pyarrow as pa

    if table.schema.equals(schema):
        return table
    nothing = [field for field in schema if field.name not in table.schema.names]
    for field in nothing:
        table = table.append_column(field, pa.nulls(table.num_rows, field.type))
    return table.select(schema.names).cast(schema)
