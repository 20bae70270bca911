"""The SQL that ships with gapless: where it is, and the named queries in it.

A query starts at a line `-- name: word` and ends before the next one. Comments stay with the query:
the server sees them, and so does whoever reads pg_stat_activity.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import LiteralString

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


@cache
def sql_root() -> Path:
    """Return the folder of all SQL: inside the wheel, or the checkout's `sql/`."""
    packed = Path(str(files("gapless") / "_sql"))
    return packed if packed.is_dir() else Path(__file__).parents[3] / "sql"


@cache
def queries(stage: str) -> dict[str, str]:
    """Return the named queries of `sql/queries/<stage>.sql`; a doubled name is an error."""
    parts = _NAME.split((sql_root() / "queries" / f"{stage}.sql").read_text())[1:]
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
