"""pgmq: its SQL functions as its Python package carries them: send_batch(), read(), delete()."""

from __future__ import annotations

from importlib.resources import files

import psycopg
from psycopg.types.json import Jsonb

from benchmarks.crew import Cue
from benchmarks.queries import query
from benchmarks.rivals import PAYLOAD

INSTALL = (files("pgmq") / "sql" / "pgmq.sql").read_bytes()


def create(dsn: str) -> None:
    """Create its functions and a queue."""
    with psycopg.connect(dsn) as conn:
        conn.execute(INSTALL)
        conn.execute(query("pgmq_create"))


def publish(dsn: str, events: int, batch: int, cue: Cue) -> int:
    """Send messages."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        cue.begin()
        for _ in range(events // batch):
            conn.execute(query("pgmq_send"), {"payloads": [Jsonb(PAYLOAD)] * batch})
    return events


def drain(dsn: str, _events: int, batch: int, cue: Cue) -> int:
    """Read and delete messages until there are none."""
    done = 0
    with psycopg.connect(dsn, autocommit=True) as conn:
        cue.begin()
        while rows := conn.execute(query("pgmq_read"), {"events": batch}).fetchall():
            conn.execute(query("pgmq_delete"), {"ids": [row[0] for row in rows]})
            done += len(rows)
    return done
