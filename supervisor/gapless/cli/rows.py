"""Run a named query of sql/queries/cli.sql and get records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from psycopg import Connection

Row = TypeVar("Row")


def rows(conn: Connection[Any], kind: type[Row], name: str, **params: object) -> list[Row]:
    """Return all rows of the query, each as a record of that class."""
    from psycopg.rows import class_row  # noqa: PLC0415 - not for --help

    from gapless.db.queries import query  # noqa: PLC0415 - not for --help

    with conn.cursor(row_factory=class_row(kind)) as cursor:
        return cursor.execute(query("cli", name), params).fetchall()
