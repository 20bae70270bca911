"""Run a named query and get records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, LiteralString, TypeVar

if TYPE_CHECKING:
    from psycopg import Connection

Row = TypeVar("Row")


def rows(
    conn: Connection[Any], kind: type[Row], query: LiteralString, **params: object
) -> list[Row]:
    """Return all rows of a query, each as a record of that class."""
    from psycopg.rows import class_row  # noqa: PLC0415 - not for --help

    with conn.cursor(row_factory=class_row(kind)) as cursor:
        return cursor.execute(query, params).fetchall()
