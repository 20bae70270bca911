"""The SQL of the benchmarks: named queries, baselines and pgbench scripts, in files beside this.

Statements are bytes: psycopg runs them as they are, but its types accept only literals as str.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent


@cache
def query(name: str) -> bytes:
    """Return the statement below `-- name: <name>` in queries.sql."""
    text = (_FOLDER / "queries.sql").read_text(encoding="utf-8")
    parts = re.split(r"^-- name: (\w+)\n", text, flags=re.MULTILINE)
    statements = dict(zip(parts[1::2], parts[2::2], strict=True))
    return statements[name].strip().removesuffix(";").encode()


def baseline(name: str) -> bytes:
    """Return the statements that create a baseline's tables, in a schema of their own."""
    return (_FOLDER / "baselines" / f"{name}.sql").read_bytes()


def script(name: str) -> Path:
    """Return the path of a pgbench script."""
    return _FOLDER / "scripts" / f"{name}.sql"
