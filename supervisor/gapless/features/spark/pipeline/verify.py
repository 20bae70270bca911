"""Checks that an archive holds each of its events once: those of a batch, or all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psycopg import Connection
from psycopg.rows import class_row

from gapless.db.queries import query
from gapless.errors import HoleError, UsageError
from gapless.features.spark.archive import open_archive
from gapless.features.spark.offsets import Offsets, from_json
from gapless.features.spark.pipeline.position import MicroBatch
from gapless.features.spark.pipeline.spec import FOLDERS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_COLUMNS = ("topic", "partition", "offset")


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """An archive's folder, and the events it has to hold: from `begun` up to `place`, exclusive."""

    target: str
    begun: Any
    place: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """The contents of an archive for a partition: offsets from `first` to `last`, both inclusive.

    problem: the offset that is missing or twice; None when every one is there, once.
    """

    topic: str
    partition: int
    first: int
    last: int
    problem: str | None


def require_batch(df: DataFrame, batch: MicroBatch, name: str) -> None:
    """Raise HoleError unless the rows are the batch's events, each once.

    Raises UsageError when they lack the columns to tell.
    """
    missing = [column for column in _COLUMNS if column not in df.columns]
    if missing:
        raise UsageError(
            f"pipeline {name} is an archive, so its rows need {', '.join(_COLUMNS)}: "
            f"{', '.join(missing)} is not there"
        )
    from pyspark.sql.functions import col, count, count_distinct
    from pyspark.sql.functions import max as highest
    from pyspark.sql.functions import min as lowest

    offset = col("offset")
    rows = (
        df.groupBy("topic", "partition")
        .agg(lowest(offset), highest(offset), count(offset), count_distinct(offset))
        .collect()
    )
    found = {(topic, partition): tuple(figures) for topic, partition, *figures in rows}
    for topic, partition, first, last in _ranges(batch.start, batch.end):
        events = last - first + 1
        if found.pop((topic, partition), None) != (first, last, events, events):
            raise HoleError(
                f"pipeline {name} is an archive, but its transform did not return offsets "
                f"{first} to {last} of {topic}/{partition}, each once: nothing was written"
            )
    if found:
        raise HoleError(f"pipeline {name}: events of {min(found)} are not of this batch")


def verify(conn: Connection[Any], name: str) -> Iterator[Verified]:
    """Read the offsets in the files of an archive again, partition by partition.

    Raises UsageError for a pipeline that never ran, writes no files, or cannot be read here.
    Bound: the offsets of one partition are in memory at a time, 8 bytes each.
    """
    with conn.cursor(row_factory=class_row(Archive)) as cursor:
        archive = cursor.execute(query("spark", "archive"), {"name": name}).fetchone()
    if archive is None:
        raise UsageError(f"pipeline {name} has never run in this database")
    kind, _, folder = archive.target.partition(" ")
    if kind not in FOLDERS:
        raise UsageError(f"pipeline {name} writes a {kind}, no archive of Parquet or Delta")
    for topic, partition, first, last in _ranges(
        from_json(archive.begun), from_json(archive.place)
    ):
        problem = _problem(folder, topic, partition, first, last)
        yield Verified(topic=topic, partition=partition, first=first, last=last, problem=problem)


def _ranges(start: Offsets, end: Offsets) -> Iterator[tuple[str, int, int, int]]:
    """Yield topic, partition, first and last offset, both inclusive, of the events between."""
    for topic, partitions in sorted(end.items()):
        for partition, offset in sorted(partitions.items()):
            first = start.get(topic, {}).get(partition, 1)
            if offset > first:
                yield topic, partition, first, offset - 1


def _offsets(folder: str, inside: Any) -> Any:
    import numpy as np

    files = open_archive(folder)
    if not files.files:  # without a file there is no schema either
        return np.empty(0, dtype=np.int64)
    return files.to_table(columns=["offset"], filter=inside)["offset"].to_numpy()


def _problem(folder: str, topic: str, partition: int, first: int, last: int) -> str | None:
    import numpy as np
    import pyarrow.dataset as ds

    inside = (ds.field("topic") == topic) & (ds.field("partition") == partition)
    try:
        try:
            offsets = _offsets(folder, inside)
        except FileNotFoundError:  # it was listed, and merged before it was opened
            offsets = _offsets(folder, inside)
    except (OSError, ValueError, KeyError) as error:
        raise UsageError(
            f"{folder} cannot be read from here, or has not the columns {', '.join(_COLUMNS)}: "
            f"{' '.join(str(error).split())[:200]}"
        ) from error
    offsets = np.sort(offsets)
    offsets = offsets[(offsets >= first) & (offsets <= last)]
    twice = offsets[1:][np.diff(offsets) == 0]
    if len(twice):
        return f"offset {twice[0]} is there twice, and {len(twice) - 1} others"
    # With both ends beside the offsets, every gap is one between neighbours.
    steps = np.concatenate(([first - 1], offsets, [last + 1]))
    gaps = np.flatnonzero(np.diff(steps) > 1)
    if not len(gaps):
        return None
    lost = last - first + 1 - len(offsets)
    return f"offsets {steps[gaps[0]] + 1} to {steps[gaps[0] + 1] - 1} are missing ({lost} in all)"
