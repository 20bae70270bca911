"""Merge the small Parquet files of days that are over, exactly once for every reader.

A folder of a day is replaced as a whole: a new one is made beside it, with the merged files and
links to all others, and the two change names in one step of the file system. So a listing finds
the rows in the small files or in the merged ones, and a crash leaves one or the other, and a folder
with a dot, which readers pass over and the next run removes. A merged file is named after the first
and the last batch in it: archive-0000000003+0000000090-00000.parquet.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date
from pathlib import Path
from typing import Any

from psycopg import Connection
from psycopg.rows import class_row

from gapless.db.queries import query
from gapless.errors import GaplessError, UsageError
from gapless.failpoints import hit
from gapless.features.spark.pipeline.lease import compacting, files_locked
from gapless.features.spark.pipeline.merged import MergeError, merge_files
from gapless.features.spark.pipeline.position import state
from gapless.features.spark.pipeline.verify import Archive
from gapless.features.spark.resolve import find_now

__all__ = ["CompactedFolder", "compact_pipeline"]

BYTES_MAX = 256 << 20  # of a merged file, as the sum of the small ones
_DAY = re.compile(r"[^=]+=(\d{4}-\d{2}-\d{2})")
_HERE = -100  # AT_FDCWD
_EXCHANGE = 2  # RENAME_EXCHANGE


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactedFolder:
    """A folder whose files were merged: their number before and after, and their bytes now."""

    folder: str
    files: int
    merged: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class BatchFile:
    """A file of a pipeline: the first and last batch in it."""

    first: int
    last: int
    name: str

    @property
    def is_merged(self) -> bool:
        """Whether it was merged from others."""
        return "+" in self.name

    def covers(self, batch: int) -> bool:
        """Tell whether it is merged, and has the rows of this batch."""
        return self.is_merged and self.first <= batch <= self.last


def batches_of(pipeline: str, name: str) -> BatchFile | None:
    """Return the batches that the name of a file says; None: it is not of this pipeline."""
    match = re.fullmatch(rf"{re.escape(pipeline)}-(\d+)(?:[+](\d+))?-\d+[.]parquet", name)
    return match and BatchFile(first=int(match[1]), last=int(match[2] or match[1]), name=name)


def compact_pipeline(
    conn: Connection[Any], name: str, *, before: date | None = None
) -> list[CompactedFolder]:
    """Merge the files of a pipeline in the folders of days before one, by default today in UTC.

    Before: `conn` is in autocommit. The pipeline may run meanwhile; its unfinished batch is left
    alone. Raises UsageError for one that never ran, writes no Parquet into a folder of this
    machine, or is compacted already; GaplessError for files that cannot be merged.
    """
    root = _folder(conn, name)
    before = before or find_now(conn).astimezone(UTC).date()
    found = []
    with compacting(conn, name):
        for folder in _days(root, before):
            _sweep(folder, name)
            if done := _compact(conn, name, folder):
                found.append(done)
    return found


def _folder(conn: Connection[Any], name: str) -> Path:
    with conn.cursor(row_factory=class_row(Archive)) as cursor:
        archive = cursor.execute(query("spark", "archive"), {"name": name}).fetchone()
    if archive is None:
        raise UsageError(f"pipeline {name} has never run in this database")
    kind, _, where = archive.target.partition(" ")
    if kind != "parquet":
        raise UsageError(
            f"pipeline {name} writes a {kind}: only files of Parquet are merged here; Delta and "
            "Iceberg have commands of their own"
        )
    if not (root := Path(where.removeprefix("file:"))).is_dir():
        raise UsageError(
            f"pipeline {name}: {where} is no folder of this machine: run this where it is, on a "
            "file system that can exchange two folders"
        )
    return root


def _days(root: Path, before: date) -> Iterator[Path]:
    """Yield the folders, below one of a day that is over, that have files."""
    for place, folders, files in os.walk(root):
        folders[:] = sorted(each for each in folders if not each.startswith((".", "_")))
        parts = Path(place).relative_to(root).parts
        days = [match[1] for part in parts if (match := _DAY.fullmatch(part))]
        if files and days and max(days) < before.isoformat():
            yield Path(place)


def _compact(conn: Connection[Any], name: str, folder: Path) -> CompactedFolder | None:
    groups = _groups(folder, _finished(conn, name, folder))
    if not groups:
        return None
    fresh = _beside(folder)
    fresh.mkdir()
    try:
        merged = []
        for number, group in enumerate(groups):
            goal = fresh / _merged_name(name, group, _names(folder) | _names(fresh), number)
            merge_files([folder / each.name for each in group], goal)
            merged.append(goal)
        hit("compact.written")
        gone = {each.name for group in groups for each in group}
        size = sum(each.stat().st_size for each in merged)
        with files_locked(conn, name):
            _link_others(folder, fresh, gone)
            hit("compact.linked")
            _exchange(fresh, folder)
            hit("compact.swapped")
    except MergeError as error:
        raise GaplessError(f"pipeline {name}: {folder}: {error}; nothing was changed") from error
    finally:
        # Before the exchange it has copies; after it, files that were merged.
        _sweep(folder, name)
    return CompactedFolder(folder=str(folder), files=len(gone), merged=len(merged), bytes=size)


def _finished(conn: Connection[Any], name: str, folder: Path) -> list[BatchFile]:
    """Return the files of batches that are finished, in their order: no move of them comes."""
    done = state(conn, name).batch
    every = [batches_of(name, each) for each in _names(folder)]
    return sorted(each for each in every if each is not None and each.last < done)


def _groups(folder: Path, files: Sequence[BatchFile]) -> list[list[BatchFile]]:
    """Return neighbours that fit into one file, two at least."""
    groups: list[list[BatchFile]] = []
    room = 0
    for each in files:
        size = (folder / each.name).stat().st_size
        if size > room:
            groups.append([])
            room = BYTES_MAX
        groups[-1].append(each)
        room -= size
    return [group for group in groups if len(group) > 1]


def _merged_name(pipeline: str, group: Sequence[BatchFile], taken: set[str], number: int) -> str:
    first, last = group[0].first, max(each.last for each in group)
    while (name := f"{pipeline}-{first:010d}+{last:010d}-{number:05d}.parquet") in taken:
        number += 1
    return name


def _link_others(folder: Path, fresh: Path, gone: set[str]) -> None:
    """Give the new folder all that is in the old one, besides the files that were merged."""
    there = _names(folder)
    if not gone <= there:
        raise MergeError(f"{min(gone - there)} has gone meanwhile")
    for name in there - gone - {f".{each}.crc" for each in gone}:  # Hadoop's checksums
        if (folder / name).is_dir():
            raise MergeError(f"{name} is a folder beside the files of a day")
        os.link(folder / name, fresh / name)


def _exchange(fresh: Path, folder: Path) -> None:
    """Let two folders change names, in one step."""
    _flush(fresh)
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        raise UsageError(f"{folder}: this system cannot exchange two folders in one step") from None
    if call(_HERE, os.fsencode(fresh), _HERE, os.fsencode(folder), _EXCHANGE):
        told = os.strerror(ctypes.get_errno())
        raise UsageError(
            f"{folder}: its file system cannot exchange two folders in one step ({told}): nothing "
            "was changed"
        )
    _flush(folder.parent)


def _flush(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _beside(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.compacting")


def _sweep(folder: Path, pipeline: str) -> None:
    """Remove the folder that is left of an exchange, or of one that did not come about.

    A file that was put into it at the last moment, by a pipeline that did not wait for the lock,
    comes back. Merged ones are in the folder, or never were.
    """
    old = _beside(folder)
    if not old.is_dir():
        return
    there = _names(folder)
    batches = [each for each in (batches_of(pipeline, name) for name in there) if each]
    for name in _names(old) - there:
        batch = batches_of(pipeline, name)
        if name.startswith(".") or (
            batch and (batch.is_merged or any(each.covers(batch.first) for each in batches))
        ):
            continue
        os.link(old / name, folder / name)
    shutil.rmtree(old)


def _names(folder: Path) -> set[str]:
    return {each.name for each in folder.iterdir()}
