"""pgmq: the SQL functions of its Python package: send_batch(), read(), delete(), pop()."""

from __future__ import annotations

from importlib.resources import files

import psycopg
from psycopg.types.json import Jsonb

from benchmarks.claims import Claims
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


def _read(dsn: str, _events: int, batch: int, cue: Cue) -> int:
    """Read, handle and delete messages until there are none: two commits, the handling between."""
    done = 0
    with psycopg.connect(dsn, autocommit=True) as conn:
        cursor = Claims.cursor(conn, is_decoded=True)
        cue.begin()
        while rows := cursor.execute(query("pgmq_read"), {"events": batch}).fetchall():
            conn.execute(query("pgmq_delete"), {"ids": [row[0] for row in rows]})
            done += len(rows)
    return done


def _pop(dsn: str, _events: int, batch: int, cue: Cue) -> int:
    """Pop and handle in one transaction: the effects of a message commit with its end."""
    done = 0
    with psycopg.connect(dsn, autocommit=True) as conn:
        claims = Claims(conn, query("pgmq_pop"), is_decoded=True)
        cue.begin()
        while rows := claims.next({"events": batch}):
            done += len(rows)
    return done


DRAINS = {"pgmq, read and delete": _read, "pgmq, pop in the handler's transaction": _pop}
