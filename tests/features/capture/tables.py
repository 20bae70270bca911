"""Captured tables of tests: made, written to, and what was published of them."""

from typing import Any

from psycopg import Connection


def capture(conn: Connection, table: str, **options: Any) -> None:
    """Capture a table into topic outbox."""
    options = {"key": None, "columns": None, "old": "changed", **options}
    conn.execute(
        "select gapless.capture(%(table)s, 'outbox', %(key)s, %(columns)s::text[], %(old)s)",
        {"table": table, **options},
    )


def published(conn: Connection) -> list[tuple[str, str, Any, Any]]:
    """Return key, type, new and old of all events, in the order they were published; forget them."""
    rows = conn.execute(
        "select key, event_type, payload from gapless.outbox_message_t order by id"
    ).fetchall()
    conn.execute("delete from gapless.outbox_message_t")
    for _, kind, payload in rows:
        assert payload["op"] == kind
        assert set(payload) <= {"op", "new", "old", "partition"}
    return [(key, kind, payload["new"], payload["old"]) for key, kind, payload in rows]


def kinds(conn: Connection) -> list[tuple[str, str]]:
    """Return key and type only."""
    return [(key, kind) for key, kind, _, _ in published(conn)]
