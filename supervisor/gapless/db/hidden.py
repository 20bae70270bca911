"""Row security on our tables: rows that a role may not see look as if they did not exist."""

from __future__ import annotations

from typing import Any

from psycopg import Connection

from gapless.db.connect import is_revoked, why_of
from gapless.db.queries import query
from gapless.db.schema import schema
from gapless.errors import HiddenError


def hidden_rows(conn: Connection[Any], *, all_of_them: bool = False) -> str | None:
    """Name the tables whose rows may exist unseen, and the remedy; None: there are none.

    all_of_them: only the tables without any policy, whose rows are all hidden.
    """
    tables = [
        name
        for name, has_policies in conn.execute(query("schema", "hidden_tables")).fetchall()
        if not (all_of_them and has_policies)
    ]
    if not tables:
        return None
    remedies = "; ".join(
        f"alter table {schema()}.{name} disable row level security" for name in tables
    )
    return (
        f'row security hides rows of {", ".join(tables)} from role "{conn.info.user}", or from '
        f"the owner of schema {schema()}: {remedies}"
    )


def why_refused(conn: Connection[Any], error: Exception) -> str:
    """Describe in one line the failure of a statement: why_of(), unless rows are hidden from it.

    Before: `conn` is outside a transaction.
    """
    return (is_revoked(error) and hidden_rows(conn)) or why_of(error)


def require_rows(conn: Connection[Any]) -> None:
    """Raise HiddenError if a table of ours would look empty in any case."""
    hidden = hidden_rows(conn, all_of_them=True)
    if hidden is not None:
        raise HiddenError(hidden)
