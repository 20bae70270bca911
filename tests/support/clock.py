"""Another clock for events for later and schedules: gapless.clock() of a test's database, shifted."""

from __future__ import annotations

from datetime import timedelta

from psycopg import Connection, sql

_CLOCK = sql.SQL(
    "create or replace function gapless.clock() returns timestamptz language sql volatile"
    " as $$ select {} $$"
)


def shift(conn: Connection, by: timedelta | float) -> None:
    """Let the clock go so far ahead of the machine's; a number is seconds, negative behind it."""
    seconds = by.total_seconds() if isinstance(by, timedelta) else by
    body = sql.SQL("clock_timestamp() + make_interval(secs => {})").format(sql.Literal(seconds))
    conn.execute(_CLOCK.format(body))


def stop_at(conn: Connection, moment: str) -> None:
    """Let it be this moment, and stay so."""
    conn.execute(_CLOCK.format(sql.SQL("{}::timestamptz").format(sql.Literal(moment))))
