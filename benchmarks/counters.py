"""topicpartition.io's design: a table and a counter for each partition; consumers poll."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import sleep
from typing import Any

import psycopg
from psycopg import Connection, sql

from benchmarks.claims import Claims, Rows
from benchmarks.crew import Cue, Job
from benchmarks.queries import baseline, query

NAME = "a counter a partition"
WELL = "a counter a partition, one statement"
RESTS_MS = (0, 1, 10, 100)


def create(dsn: str, partitions: int) -> None:
    """Create tables and counters."""
    with psycopg.connect(dsn) as conn:
        conn.execute(query("set"), {"name": "bench.partitions", "value": str(partitions)})
        conn.execute(baseline("counters"))


def join(dsn: str, groups: Sequence[str]) -> None:
    """Let groups begin at offset 1 of every partition."""
    with psycopg.connect(dsn) as conn:
        conn.execute(query("counters_join"), {"groups": list(groups)})


def fill(dsn: str, *, partitions: int, events: int, payload_bytes: int) -> None:
    """Put `events` events into the partitions, the same number into each."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        for partition_id in range(partitions):
            conn.execute(
                _on("counters_fill", partition_id),
                {
                    "partition_id": partition_id,
                    "events": events // partitions,
                    "payload_bytes": payload_bytes,
                },
            )
        conn.execute(query("vacuum"))


def write(conn: Connection[Any], partition_id: int, payloads: Sequence[bytes]) -> None:
    """Write a batch; it is one transaction of its own on an autocommit connection."""
    params = {"partition_id": partition_id, "payloads": list(payloads)}
    conn.execute(_on("counters_write", partition_id), params)


def claim(conn: Connection[Any], group: str, partition_id: int, events: int) -> Rows:
    """Claim and read up to `events` events in the caller's transaction."""
    params = {"group_id": group, "partition_id": partition_id, "events": events}
    row = conn.execute(query("counters_claim"), params).fetchone()
    assert row is not None
    first, last = row
    if last < first:
        return []
    cursor = conn.cursor(binary=True)
    cursor.execute(_on("counters_read", partition_id), {"first": first, "last": last})
    return cursor.fetchall()


def polled(rest_ms: int) -> str:
    """Return the name of a poller that rests this long when it finds nothing."""
    return f"counters, a rest of {rest_ms} ms" if rest_ms else "counters, without a rest"


def poller(
    dsn: str,
    group: str,
    partition_id: int,
    events: int,
    see: Callable[[Rows], object] = len,
    pause_s: float = 0.0,
) -> Job:
    """Return a consumer as published: four statements a batch, each a round trip.

    It claims over and over, without a rest unless pause_s says so.
    """

    def poll(cue: Cue) -> int:
        handled = 0
        with psycopg.connect(dsn, autocommit=True) as conn:
            cue.begin()
            while cue.going():
                with conn.transaction():
                    rows = claim(conn, group, partition_id, events)
                    if rows:
                        see(rows)
                handled += len(rows)
                if not rows and pause_s:
                    sleep(pause_s)
        return handled

    return poll


def good_poller(
    dsn: str,
    group: str,
    partition_id: int,
    events: int,
    see: Callable[[Rows], object] = len,
    rest_s: float = 0.0,
) -> Job:
    """Return a consumer as one would write it: one statement, a round trip a batch.

    It looks before it locks, so without new events it writes nothing, and rests.
    """

    def poll(cue: Cue) -> int:
        handled = 0
        params = {"group_id": group, "partition_id": partition_id, "events": events}
        with psycopg.connect(dsn, autocommit=True) as conn:
            claims = Claims(conn, claim_statement(partition_id), is_decoded=False)
            cue.begin()
            while cue.going():
                rows = claims.next(params)
                if rows:
                    see(rows)
                elif rest_s:
                    sleep(rest_s)
                handled += len(rows)
            claims.commit()
        return handled

    return poll


def claim_statement(partition_id: int) -> sql.Composed:
    """Return the statement that claims and reads in one; it takes group, partition and events."""
    return _on("counters_take", partition_id)


def _on(name: str, partition_id: int) -> sql.Composed:
    """Return a query with the partition's table in it."""
    table = sql.Identifier("baseline", f"partition_{partition_id}")
    return sql.SQL(query(name).decode()).format(table=table)
