"""Minutes that are recorded when a test says so, and read back."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from psycopg import Connection
from psycopg.rows import class_row

from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.sequence import sequence
from support.records import value

HOUR = datetime(2040, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class Minute:
    """A row of gapless.history()."""

    group_id: str | None
    topic: str | None
    minute: datetime
    lag: int | None
    lag_s: int | None
    handled: int | None
    dead_letters: int | None
    members: int | None
    published: int | None


def at(minute: int, second: int = 10) -> datetime:
    """Return a time within the n-th minute."""
    return HOUR + timedelta(minutes=minute, seconds=second)


def now(conn: Connection[Any]) -> int:
    """Return the present minute by the database's clock, as a number."""
    found = value(conn, "select clock_timestamp()")
    return int((found - HOUR).total_seconds() // 60)


def record(conn: Connection[Any], minute: int, keep_hours: int = 72, *, second: int = 10) -> int:
    """Record the n-th minute; return the number of rows."""
    said = "select gapless.record_history_at(%s, %s)"
    return int(value(conn, said, at(minute, second), keep_hours))


def read(
    conn: Connection[Any],
    group: str | None = "billing",
    topic: str | None = "orders",
    *,
    first: int | None = None,
) -> dict[int, Minute]:
    """Return the recorded minutes of one series."""
    with conn.cursor(row_factory=class_row(Minute)) as cursor:
        found = cursor.execute(
            "select * from gapless.history(%s, %s, %s, %s)",
            [
                group,
                topic,
                "-infinity" if first is None else HOUR + timedelta(minutes=first),
                "infinity",
            ],
        ).fetchall()
    return {
        int((each.minute - HOUR).total_seconds()) // 60: each
        for each in found
        if each.group_id == group and each.topic == topic
    }


def add(conn: Connection[Any], events: int) -> None:
    """Publish events, and give them offsets."""
    publish(conn, "orders", [NewEvent(payload=n, key="a") for n in range(events)])
    sequence(conn)


def handle(conn: Connection[Any], events: int, group: str = "billing") -> None:
    """Let a group pass events, as a batch does."""
    conn.execute(
        "update gapless.consumer_offsets set next_offset = next_offset + %s where group_id = %s",
        [events, group],
    )
