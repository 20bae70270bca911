"""Merge the small Parquet files of days that are over, exactly once for every reader.

A folder of a day is replaced as a whole: a new one is made beside it, with the merged files and
links to all others, and the two change names in one step of the file system. So a listing finds
the rows in the small files or in the merged ones, and a crash leaves one or the other, and a folder
with a dot, which readers pass over and the next run removes. A merged file is named after the first
and the last batch in it: archive-0000000003+0000000090-00000.parquet.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
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
_FILE = re.compile(r"(.+)-(\d+)(?:[+](\d+))?-\d+[.]parquet")
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

    pipeline: str
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


def batches_of(name: str) -> BatchFile | None:
    """Return the pipeline and the batches that the name of a file says; None: it is of none."""
    match = _FILE.fullmatch(name)
    if match is None:
        return None
    first, last = int(match[2]), int(match[3] or match[2])
    return BatchFile(pipeline=match[1], first=first, last=last, name=name)


def compact_pipeline(
    conn: Connection[Any],
    name: str,
    *,
    before: date | None = None,
    tell: Callable[[int, int], None] = lambda *_: None,
) -> list[CompactedFolder]:
    """Merge the files of a pipeline in the folders of days before one, by default today in UTC.

    Before: `conn` is in autocommit. tell: is called with the number of folders whose files are
    merged, and of all. The pipeline may run meanwhile; its unfinished batch is left alone. Raises
    UsageError for one that never ran, writes no Parquet into a folder of this machine, or is
    compacted already; GaplessError, after all other folders, for files that cannot be merged.
    """
    root = _folder(conn, name)
    before = before or find_now(conn).astimezone(UTC).date()
    found, refused = [], []
    with compacting(conn, name), _alone(root):
        folders = list(_days(root, before))
        for number, folder in enumerate(folders, start=1):
            try:
                _sweep(folder)
                if done := _compact(conn, name, folder):
                    found.append(done)
            except MergeError as error:
                refused.append(f"{folder}: {error}; nothing was changed there")
            except OSError as error:
                refused.append(f"{folder}: {error}")
            tell(number, len(folders))
    if refused:
        others = f"{len(found)} other folders were merged, and {len(refused) - 1} were not"
        raise GaplessError(f"pipeline {name}: {refused[0]}; {others}")
    return found


@contextmanager
def _alone(root: Path) -> Iterator[None]:
    """Be the only process here that merges files below a folder, which pipelines may share."""
    number = os.open(root, os.O_RDONLY)
    try:
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            told = f"files of another pipeline in it are being merged, or {error}"
            raise UsageError(f"{root}: {told}") from None
        yield
    finally:
        os.close(number)


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
    fresh.mkdir(0o700)
    try:
        merged = []
        for number, group in enumerate(groups):
            goal = fresh / _merged_name(name, group, _names(folder) | _names(fresh), number)
            merge_files([folder / each.name for each in group], goal)
            _let_alike(folder / group[0].name, goal)
            merged.append(goal)
        hit("compact.written")
        gone = {each.name for group in groups for each in group}
        size = sum(each.stat().st_size for each in merged)
        with files_locked(conn, name):
            _link_others(folder, fresh, gone)
            _let_alike(folder, fresh)
            hit("compact.linked")
            _exchange(fresh, folder)
            hit("compact.swapped")
    finally:
        # Before the exchange it has copies; after it, files that were merged.
        _sweep(folder)
    return CompactedFolder(folder=str(folder), files=len(gone), merged=len(merged), bytes=size)


def _finished(conn: Connection[Any], name: str, folder: Path) -> list[BatchFile]:
    """Return the files of batches that are finished, in their order: no move of them comes."""
    done = state(conn, name).batch
    every = [each for each in map(batches_of, _names(folder)) if each is not None]
    return sorted(each for each in every if each.pipeline == name and each.last < done)


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


def _let_alike(model: Path, made: Path) -> None:
    """Give a file or folder the owner and the mode of another, for those who use that."""
    wanted = model.stat()
    number = os.open(made, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        has = os.fstat(number)
        if (wanted.st_uid, wanted.st_gid) != (has.st_uid, has.st_gid):
            os.fchown(number, wanted.st_uid, wanted.st_gid)
        os.fchmod(number, stat.S_IMODE(wanted.st_mode))
    except PermissionError:
        owner = f"user {wanted.st_uid} and group {wanted.st_gid}"
        raise MergeError(f"{model.name} is of {owner}: run this as that user") from None
    finally:
        os.close(number)


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


def _sweep(folder: Path) -> None:
    """Remove the folder that is left of an exchange, or of one that did not come about.

    A file that was put into it at the last moment, by a pipeline that did not wait for the lock,
    comes back. Merged ones are in the folder, or never were. The run may have been another's.
    """
    old = _beside(folder)
    if not old.is_dir():
        return
    there = _names(folder)
    merged = [each for each in map(batches_of, there) if each is not None and each.is_merged]
    for name in _names(old) - there:
        batch = batches_of(name)
        if name.startswith(".") or (
            batch
            and (
                batch.is_merged
                or any(m.pipeline == batch.pipeline and m.covers(batch.first) for m in merged)
            )
        ):
            continue
        os.link(old / name, folder / name)
    shutil.rmtree(old)


def _names(folder: Path) -> set[str]:
    return {each.name for each in folder.iterdir()}
