"""Fill the outbox from inside the server, as fast as possible."""

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
PART_EVENTS = 500_000  # of a chunk of 1 000 000: every event finds a chunk of its own


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
    """Publish `events` events in transactions of `events_a_commit`; sequence them if `sequenced`.

    Chunks are made in between, as a supervisor does: events without a chunk stay in the default
    one for good, where autovacuum then works for longer than create_chunks() waits.
    """
    given = {
        "bench.events_a_commit": events_a_commit,
        "bench.payload_bytes": payload_bytes,
        "bench.topic_id": topic_id,
        "synchronous_commit": "off",
    }
    with psycopg.connect(dsn, autocommit=True) as conn:
        for name, value in given.items():
            conn.execute(query("set"), {"name": name, "value": str(value)})
        for first in range(0, events, PART_EVENTS):
            part = str(min(PART_EVENTS, events - first))
            conn.execute(query("set"), {"name": "bench.events", "value": part})
            _make_room(conn)
            conn.execute(query("fill_outbox"))
        conn.execute(query("analyze"))
    if sequenced:
        sequence_all(dsn)


def _make_room(conn: Connection[Any]) -> None:
    """Create chunks; an autovacuum in the way ends within a moment."""
    for _ in range(TRIES):
        with suppress(psycopg.errors.LockNotAvailable):
            create_chunks(conn)
            return
        sleep(1)
    create_chunks(conn)


def sequence_all(dsn: str) -> None:
    """Give offsets to all committed events."""
    with connect(dsn, role="bench") as conn:
        while sequence(conn):
            pass
