"""Run a named query and return records; a refusal of the database is a RefusedError."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, LiteralString, TypeVar

from psycopg.rows import class_row, tuple_row

from gapless.db.refused import refused
from gapless.errors import UsageError

if TYPE_CHECKING:
    from psycopg import Connection

Row = TypeVar("Row")


def rows(
    conn: Connection[Any], kind: type[Row], query: LiteralString, **params: object
) -> list[Row]:
    """Return all rows of a query, each as a record of that class; RefusedError as refused()."""
    with refused(), conn.cursor(row_factory=class_row(kind)) as cursor:
        return cursor.execute(query, params).fetchall()


def row(conn: Connection[Any], query: LiteralString, **params: object) -> tuple[Any, ...]:
    """Return the only row of a query, as a tuple for any `conn`; RefusedError as refused()."""
    with refused(), conn.cursor(row_factory=tuple_row) as cursor:
        found = cursor.execute(query, params).fetchone()
    assert found is not None
    return found


def require_autocommit(conn: Connection[Any], what: str) -> None:
    """Raise UsageError for a connection that would hold back commits made step by step."""
    if not conn.autocommit:
        raise UsageError(f"{what} commits by itself: give it a connection in autocommit")
