"""The recording of a minute (sql: record_history)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg.rows import scalar_row

from gapless.db.queries import query

if TYPE_CHECKING:
    from psycopg import Connection

_SLACK_S = 0.2  # the clocks of two machines do not run alike
# The server looks for a deadlock after 1 s: a person's drop_group() might be the one that fails.
_LOCK_WAIT = "set local lock_timeout = '300ms'"


def record(conn: Connection[Any], keep_hours: int | None) -> float:
    """Record the present minute; return the seconds until the next one, by the database's clock.

    Before: `conn` is in autocommit; it may be a pooler's. keep_hours: None: as the last recording.
    """
    with conn.transaction(), conn.cursor(row_factory=scalar_row) as cursor:
        cursor.execute(_LOCK_WAIT)
        found = cursor.execute(query("history", "record"), {"keep_hours": keep_hours}).fetchone()
    return float(found or 0.0) + _SLACK_S
