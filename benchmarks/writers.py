"""Writers, while five groups read: batches of 100 events of 1 KB; ours, and the rival's."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import Connection

import gapless
from benchmarks import counters
from benchmarks.crew import Cue
from gapless import NewEvent

WRITE_BATCH = 100
PAYLOAD_BYTES = 1000
PAYLOAD = b'{"pad":"' + b"x" * (PAYLOAD_BYTES - 10) + b'"}'


def write_ours(dsn: str, cue: Cue) -> int:
    """Publish into topic `live` until told to stop; return the number of events."""

    def write(conn: Connection[Any], batch: int) -> None:
        events = [
            NewEvent(payload=PAYLOAD, key=f"{batch}-{n}", event_type="bench")
            for n in range(WRITE_BATCH)
        ]
        gapless.publish(conn, "live", events)

    return _write(dsn, cue, write)


def write_rival(dsn: str, partitions: int, first_partition: int, cue: Cue) -> int:
    """Do the same as the rival does."""

    def write(conn: Connection[Any], batch: int) -> None:
        counters.write(conn, (first_partition + batch) % partitions, [PAYLOAD] * WRITE_BATCH)

    return _write(dsn, cue, write)


def _write(dsn: str, cue: Cue, write: Any) -> int:
    batches = 0
    with psycopg.connect(dsn, autocommit=True) as conn:
        cue.begin()
        while cue.going():
            write(conn, batches)
            batches += 1
    return batches * WRITE_BATCH
