"""Read events that retention has dropped from an archive, as if they were still in the log.

An archive is the Parquet or Delta output of a pipeline: the source's own columns, and perhaps
others. A range that is read from it is counted and compared with its offsets, as in the live log.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gapless.errors import HoleError, UsageError
from gapless.features.spark.columns import spark_types
from gapless.features.spark.ranges import Range
from gapless.features.spark.segments import ReadRequest
from gapless.features.spark.shape import arrow_type, as_type, in_one_piece

if TYPE_CHECKING:
    import pyarrow as pa

_BATCH_EVENTS = 20_000


def read_archived(wanted: ReadRequest, archived: Range) -> Iterator[pa.RecordBatch]:
    """Yield the events of a range from its archive, in offset order.

    Raises HoleError when events are missing, or one is there twice; UsageError for a folder that is
    no archive. Bound: the range is in memory at once; planning cuts it as any other
    (recordsPerTask).
    """
    import pyarrow as pa

    table = _load(wanted, archived).sort_by("offset")
    _check(archived, table["offset"].to_pylist())
    if wanted.event_types is not None:
        kinds = pa.array(wanted.event_types)
        table = table.filter(pa.compute.is_in(table["event_type"], value_set=kinds))
    types = spark_types(wanted.columns, wanted.formats)
    arrays = [as_type(in_one_piece(table[name]), kind) for name, kind in types.items()]
    schema = pa.schema([(name, arrow_type(kind)) for name, kind in types.items()])
    yield from pa.Table.from_arrays(arrays, schema=schema).to_batches(_BATCH_EVENTS)


def open_archive(folder: str) -> Any:
    """Return a folder of Parquet, or a Delta table, as a data set of pyarrow.

    Of a table, only the files that its log names: the folder may also hold files of lost attempts.
    Raises UsageError without the package for Delta; ValueError and OSError as pyarrow does.
    """
    import pyarrow.dataset as ds
    from pyarrow import fs

    where = folder if ":/" in folder else Path(folder).absolute().as_uri()
    files, path = fs.FileSystem.from_uri(where)
    if files.get_file_info(f"{path}/_delta_log").type != fs.FileType.Directory:
        return ds.dataset(folder, format="parquet", partitioning="hive")
    try:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError
    except ImportError as error:
        raise UsageError(
            f"{folder} is a Delta table: pip install gapless[delta] where it is read"
        ) from error
    try:
        # MUST NOT be delta-rs's own file system: its calls into Python may outlive the interpreter.
        return DeltaTable(folder).to_pyarrow_dataset(filesystem=fs.SubTreeFileSystem(path, files))
    except DeltaError as error:
        raise ValueError(str(error)) from error


def _load(wanted: ReadRequest, archived: Range) -> pa.Table:
    import pyarrow.compute  # noqa: F401 - used through pa
    import pyarrow.dataset as ds

    needed = {"offset", *wanted.columns, *(["event_type"] if wanted.event_types else [])}
    inside = (
        (ds.field("topic") == archived.topic)
        & (ds.field("partition") == archived.partition_id)
        & (ds.field("offset") >= archived.first_offset)
        & (ds.field("offset") <= archived.last_offset)
    )
    try:
        try:
            return _table(archived, sorted(needed), inside)
        except FileNotFoundError:  # it was listed, and merged before it was opened
            return _table(archived, sorted(needed), inside)
    except (OSError, ValueError, KeyError) as error:
        line = " ".join(str(error).split())
        raise UsageError(
            f"archive {archived.archive} cannot be read where Spark's tasks run, or has not the "
            f"columns topic, partition, offset and the requested ones: {line[:200]}"
        ) from error


def _table(archived: Range, columns: list[str], inside: Any) -> pa.Table:
    folder = open_archive(archived.archive or "")
    if not folder.files:
        raise UsageError(
            f"archive {archived.archive} is empty where Spark's tasks run: no pipeline has written "
            "to it, or it is another folder there"
        )
    return folder.to_table(columns=columns, filter=inside)


def _check(archived: Range, offsets: list[int]) -> None:
    expected = range(archived.first_offset, archived.last_offset + 1)
    if offsets == list(expected):
        return
    missing = sorted(set(expected) - set(offsets))
    problem = (
        f"offset {missing[0]} is missing" if missing else f"{len(offsets)} rows, some of them twice"
    )
    raise HoleError(
        f"archive {archived.archive} is not complete for {archived.topic}/{archived.partition_id}, "
        f"offsets {archived.first_offset} to {archived.last_offset}: {problem}"
    )
