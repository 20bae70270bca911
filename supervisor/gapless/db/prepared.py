"""Statements that run again and again, prepared, on a session that a handler works on too.

Parsing and planning cost the server more than what a small step asks of it. A statement that is
prepared with a generic plan would lock every chunk; the server weighs that and plans anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, LiteralString

import psycopg
from psycopg import Cursor


def fetch_all(
    cursor: Cursor[Any], statement: LiteralString, params: Mapping[str, object]
) -> list[Any]:
    """Execute a statement that is kept prepared; return its rows.

    Raises OperationalError, without SQLSTATE, when a handler took the session's prepared statements
    away (DEALLOCATE ALL, where psycopg does not see it): try again, nothing is prepared any more.
    """
    try:
        return cursor.execute(statement, params, prepare=True).fetchall()
    except psycopg.errors.InvalidSqlStatementName as error:
        cursor.connection.prepare_threshold = None
        raise psycopg.OperationalError(f"a handler deallocated our statements: {error}") from error
