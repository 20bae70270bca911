"""Other clocks: gapless.clock() of a test's database, shifted; and one that was wrong when all was written."""

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


_TIMES = """
select r.relname::text, array_agg(a.attname::text)
from pg_class r join pg_attribute a on a.attrelid = r.oid
where r.relnamespace = 'gapless'::regnamespace and r.relkind in ('r', 'p') and not r.relispartition
  and a.atttypid = 'timestamptz'::regtype and a.attnum > 0 and not a.attisdropped
group by r.relname
"""


def stored_times(conn: Connection) -> dict[str, list[str]]:
    """Each table's columns that are times."""
    return dict(conn.execute(_TIMES).fetchall())


def put_back(conn: Connection, by_s: float) -> None:
    """Let the machine's clock be put back by so much, seen from the tables: all that they say is that far ahead.

    conn: of a superuser, for no trigger takes it for a change.
    """
    with conn.transaction():
        conn.execute("set local session_replication_role = replica")
        for table, columns in stored_times(conn).items():
            moved = sql.SQL(", ").join(
                sql.SQL("{0} = {0} + make_interval(secs => {1})").format(sql.Identifier(each), by_s)
                for each in columns
            )
            conn.execute(sql.SQL("update gapless.{} set {}").format(sql.Identifier(table), moved))
