"""Fill the outbox from inside the server, as fast as it goes."""

from __future__ import annotations

from contextlib import suppress
from time import sleep
from typing import Any

import psycopg
from psycopg import Connection

from benchmarks.queries import query
from gapless.db.connect import connect
from gapless.log.sequence import create_chunks, sequence
from gapless.log.topics import ensure_topic

TRIES = 30


def make_topic(dsn: str, name: str, *, partitions: int) -> None:
    """Make a topic; the first is `outbox`, with id 1."""
    with connect(dsn, role="bench") as conn:
        ensure_topic(conn, name, partitions=partitions)


def fill_outbox(
    dsn: str,
    topic_id: int,
    *,
    events: int,
    payload_bytes: int,
    events_a_commit: int = 1,
    sequenced: bool = True,
) -> None:
    """Publish `events` events in transactions of `events_a_commit`; give them offsets, or not."""
    given = {
        "bench.events": events,
        "bench.events_a_commit": events_a_commit,
        "bench.payload_bytes": payload_bytes,
        "bench.topic_id": topic_id,
        "synchronous_commit": "off",
    }
    with psycopg.connect(dsn, autocommit=True) as conn:
        _make_room(conn)
        for name, value in given.items():
            conn.execute(query("set"), {"name": name, "value": str(value)})
        conn.execute(query("fill_outbox"))
        conn.execute(query("analyze"))
    if sequenced:
        sequence_all(dsn)


def _make_room(conn: Connection[Any]) -> None:
    """Create chunks; an autovacuum that is in the way is gone in a moment."""
    for _ in range(TRIES):
        with suppress(psycopg.errors.LockNotAvailable):
            create_chunks(conn)
            return
        sleep(1)
    create_chunks(conn)


def sequence_all(dsn: str) -> None:
    """Give offsets to all that is committed."""
    with connect(dsn, role="bench") as conn:
        while sequence(conn):
            pass
