"""The demo's SQL, read from queries.sql and schema.sql beside this file.

As bytes: psycopg takes them as they are, where its types want a str to be a literal.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from gapless.db.schema import here

FOLDER = Path(__file__).parent


@cache
def query(name: str) -> bytes:
    """Return the statement below `-- name: <name>` in queries.sql."""
    text = here((FOLDER / "queries.sql").read_text(encoding="utf-8"))
    parts = re.split(r"^-- name: (\w+)\n", text, flags=re.MULTILINE)
    statements = dict(zip(parts[1::2], parts[2::2], strict=True))
    return statements[name].strip().removesuffix(";").encode()


def schema() -> bytes:
    """Return the statements that create the demo's tables; safe to run again."""
    return (FOLDER / "schema.sql").read_bytes()
