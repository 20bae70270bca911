"""The SQL that ships with gapless: its place, in a folder or a zip, and its named queries.

A query starts at a line `-- name: word` and ends before the next one. Comments stay with the query:
the server sees them, and so do readers of pg_stat_activity.
The source says `gapless.`; a loaded query names the schema of the process, and is cached.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import LiteralString

from gapless.db.schema import here, once_changed

_PLACEHOLDER = re.compile(r"%\((\w+)\)s")
_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


@cache
def sql_root() -> Traversable:
    """Return the folder of all SQL: inside the wheel, which may be a zip, or the checkout's."""
    packed = files("gapless") / "_sql"
    return packed if packed.is_dir() else Path(__file__).parents[3] / "sql"


@cache
def every_file() -> tuple[Traversable, ...]:
    """Return the files of SQL of all rooms, by name."""
    return tuple(file for _, file in _every_file())


@cache
def sql_files(kind: str) -> tuple[Traversable, ...]:
    """Return the files below the folders `kind` (functions, views, ...) of all rooms, by name.

    Those with a number are in the order of their numbers; of others the core's are first, which
    needs nothing of a feature.
    """
    found = [(parts, file) for parts, file in _every_file() if kind in parts]
    found.sort(key=lambda each: "features" in each[0] and not each[1].name[0].isdigit())
    return tuple(file for _, file in found)


@cache
def _every_file() -> tuple[tuple[tuple[str, ...], Traversable], ...]:
    """Return the files of SQL with the parts of their paths, by name."""
    found = sorted(_below(sql_root(), ()), key=lambda each: each[0])
    return tuple(sorted(found, key=lambda each: each[1].name))


def _below(
    folder: Traversable, above: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], Traversable]]:
    for entry in folder.iterdir():
        parts = (*above, entry.name)
        if entry.is_dir():
            yield from _below(entry, parts)
        elif entry.name.endswith(".sql"):
            yield parts, entry


@cache
def queries(stage: str) -> dict[str, str]:
    """Return the named queries of `queries/<stage>.sql` of a room; a duplicate name is an error."""
    parts = _NAME.split(here(_file_of(stage).read_text()))[1:]
    found: dict[str, str] = {}
    for name, text in zip(parts[::2], parts[1::2], strict=True):
        if name in found:
            raise ValueError(f"{stage}.sql defines {name} twice")
        found[name] = text.strip().removesuffix(";")
    return found


def _file_of(stage: str) -> Traversable:
    for rooms in (sql_root(), sql_root() / "features"):
        for room in rooms.iterdir():
            file = room / "queries" / f"{stage}.sql"
            if file.is_file():
                return file
    raise FileNotFoundError(f"{sql_root()} has no queries of the name {stage}")


@cache
def query(stage: str, name: str) -> LiteralString:
    """Return one named query. It is ours, without any input, so it counts as a literal."""
    return queries(stage)[name]


@dataclass(frozen=True, slots=True)
class Statement:
    """A named query for the protocol; `params` in the order of $1, $2 and so on."""

    name: bytes
    text: bytes
    params: tuple[str, ...]


@cache
def statement(stage: str, name: str) -> Statement:
    """Return one named query with numbered parameters."""
    text = query(stage, name)
    params = tuple(dict.fromkeys(_PLACEHOLDER.findall(text)))
    numbered = _PLACEHOLDER.sub(lambda found: f"${params.index(found[1]) + 1}", text)
    return Statement(f"gapless_{stage}_{name}".encode(), numbered.encode(), params)


for _kept in (queries, query, statement):
    once_changed(_kept.cache_clear)
