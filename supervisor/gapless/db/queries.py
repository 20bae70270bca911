"""The SQL that ships with gapless: its place, and its named queries.

A query starts at a line `-- name: word` and ends before the next one. Comments stay with the query:
the server sees them, and so do readers of pg_stat_activity.
The source says `gapless.`; a loaded query names the schema of the process, and is cached.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import LiteralString

from gapless.db.schema import here, once_changed

_PLACEHOLDER = re.compile(r"%\((\w+)\)s")
_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


@cache
def sql_root() -> Path:
    """Return the folder of all SQL: inside the wheel, or the checkout's `sql/`."""
    packed = Path(str(files("gapless") / "_sql"))
    return packed if packed.is_dir() else Path(__file__).parents[3] / "sql"


@cache
def _every_file() -> tuple[Path, ...]:
    root = sql_root()
    files = sorted(path.relative_to(root) for path in root.rglob("*.sql"))
    return tuple(sorted(files, key=lambda path: path.stem))


@cache
def sql_files(kind: str) -> tuple[Path, ...]:
    """Return the files below the folders `kind` (functions, views, ...) of all rooms, by name.

    Those with a number are in the order of their numbers; of others the core's are first, which
    needs nothing of a feature.
    """
    found = [path for path in _every_file() if kind in path.parts]
    found.sort(key=lambda path: "features" in path.parts and not path.stem[0].isdigit())
    return tuple(sql_root() / path for path in found)


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


def _file_of(stage: str) -> Path:
    for rooms in ("*", "features/*"):
        for path in sql_root().glob(f"{rooms}/queries/{stage}.sql"):
            return path
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
