"""The SQL that ships with gapless: where it is, the named queries in it, the schema they speak to.

A query starts at a line `-- name: word` and ends before the next one. Comments stay with the query:
the server sees them, and so does whoever reads pg_stat_activity.

A process works in one schema: GAPLESS_SCHEMA, unless use_schema() came first. The source says
`gapless.`; what is loaded is put into that schema once, and kept.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import LiteralString

from gapless.db.schema import in_schema
from gapless.errors import ConfigError
from gapless.settings import environment_schema
from gapless.settings.schema import DEFAULT_SCHEMA

_PLACEHOLDER = re.compile(r"%\((\w+)\)s")
_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


_chosen: list[str] = []  # the schema of this process, once somebody has asked


def schema() -> str:
    """Return the schema of this process. Raises ConfigError for a bad GAPLESS_SCHEMA."""
    if not _chosen:
        _chosen.append(environment_schema(os.environ))
    return _chosen[0]


def use_schema(name: str) -> None:
    """Let this process work in a schema, of which SchemaName has approved, from now on.

    For whoever begins a process: sessions that are open go on with the SQL they had.
    """
    if _chosen == [name]:
        return
    _chosen[:] = [name]
    for kept in (queries, query, statement):
        kept.cache_clear()


def agree_on_schema(wanted: str, source: str) -> None:
    """Let this process work in the schema that somebody said; never change it under what runs.

    source: who said it, for the error. Raises ConfigError when it works in another one already.
    """
    if _chosen and _chosen != [wanted]:
        raise ConfigError(
            f"schema is {wanted} (from {source}), but this process works in {schema()} already: "
            f"set GAPLESS_SCHEMA={wanted} before it starts; one process works in one schema"
        )
    use_schema(wanted)


def here(text: str) -> LiteralString:
    """Return SQL of ours, such as a file of it, as it reads in the schema of this process.

    No input is ever in it, and so it counts as a literal: the name needs no quotes.
    """
    return in_schema(text, schema())


def schema_words() -> str:
    """Name the schema in a message: `gapless schema`, or `gapless schema "audit"`."""
    return "gapless schema" if schema() == DEFAULT_SCHEMA else f'gapless schema "{schema()}"'


def init_command() -> str:
    """Return the command that installs or upgrades the schema of this process."""
    return "gapless init" if schema() == DEFAULT_SCHEMA else f"gapless init --schema {schema()}"


@cache
def sql_root() -> Path:
    """Return the folder of all SQL: inside the wheel, or the checkout's `sql/`."""
    packed = Path(str(files("gapless") / "_sql"))
    return packed if packed.is_dir() else Path(__file__).parents[3] / "sql"


@cache
def queries(stage: str) -> dict[str, str]:
    """Return the named queries of `sql/queries/<stage>.sql`; a doubled name is an error."""
    parts = _NAME.split(here((sql_root() / "queries" / f"{stage}.sql").read_text()))[1:]
    found: dict[str, str] = {}
    for name, text in zip(parts[::2], parts[1::2], strict=True):
        if name in found:
            raise ValueError(f"sql/queries/{stage}.sql defines {name} twice")
        found[name] = text.strip().removesuffix(";")
    return found


@cache
def query(stage: str, name: str) -> LiteralString:
    """Return one named query. It is ours, so it counts as a literal (no input is ever in it)."""
    return queries(stage)[name]


@dataclass(frozen=True, slots=True)
class Statement:
    """A named query as the protocol wants it; `params` in the order of $1, $2 and so on."""

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
