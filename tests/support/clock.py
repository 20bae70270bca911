"""Other clocks: gapless.clock() of a test's database, shifted; and a clock that was wrong at all writes."""

from datetime import timedelta

from psycopg import Connection, sql

_CLOCK = sql.SQL(
    "create or replace function gapless.clock() returns timestamptz language sql volatile"
    " as $$ select {} $$"
)


def shift(conn: Connection, by: timedelta | float) -> None:
    """Shift the clock ahead of the machine's; a number is seconds, behind if negative."""
    seconds = by.total_seconds() if isinstance(by, timedelta) else by
    body = sql.SQL("clock_timestamp() + make_interval(secs => {})").format(sql.Literal(seconds))
    conn.execute(_CLOCK.format(body))


def stop_at(conn: Connection, moment: str) -> None:
    """Stop the clock at this moment."""
    conn.execute(_CLOCK.format(sql.SQL("{}::timestamptz").format(sql.Literal(moment))))


_TIMES = """
select r.relname::text, array_agg(a.attname::text)
from pg_class r join pg_attribute a on a.attrelid = r.oid
where r.relnamespace = 'gapless'::regnamespace and r.relkind in ('r', 'p') and not r.relispartition
  and a.atttypid = 'timestamptz'::regtype and a.attnum > 0 and not a.attisdropped
group by r.relname
"""


def stored_times(conn: Connection) -> dict[str, list[str]]:
    """Return the columns of each table that are times."""
    return dict(conn.execute(_TIMES).fetchall())


def put_back(conn: Connection, by_s: float) -> None:
    """Put the machine's clock back, as the tables see it: move all their times ahead by by_s.

    conn: of a superuser, so that no trigger sees the change.
    """
    with conn.transaction():
        conn.execute("set local session_replication_role = replica")
        for table, columns in stored_times(conn).items():
            moved = sql.SQL(", ").join(
                sql.SQL("{0} = {0} + make_interval(secs => {1})").format(sql.Identifier(each), by_s)
                for each in columns
            )
            conn.execute(sql.SQL("update gapless.{} set {}").format(sql.Identifier(table), moved))
