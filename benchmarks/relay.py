"""A bare relay: the bound on the latency of a design that gives offsets after the commit."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import psycopg
from psycopg import Connection

from benchmarks.crew import Cue, Job, crew
from benchmarks.openloop import Notebook, Send
from benchmarks.queries import query
from gapless.db.listen import heard, listen, wait

NAME = "bare relay, a reader a partition"

_RECENT = 200  # messages: a lower id may still commit within this distance
_LOOK_UP = "-c enable_seqscan=off -c enable_hashjoin=off -c enable_mergejoin=off"


@contextmanager
def relayed(dsn: str, arrived: Notebook, pad: str, readers: int) -> Iterator[Send]:
    """Let messages be numbered and read; the tables exist already (baselines/relay.sql)."""

    def send(conn: Connection[Any], n: int) -> None:
        conn.execute(query("relay_publish"), {"payload": json.dumps({"n": n, "pad": pad})})

    with psycopg.connect(dsn) as conn:
        row = conn.execute(query("relay_restart"), {"partitions": readers}).fetchone()
    assert row is not None
    jobs: list[Job] = [partial(_number, dsn, readers, row[0])]
    jobs += [partial(_read, dsn, arrived, n) for n in range(readers)]
    with crew(jobs) as relay:
        yield send
        relay.stop()


def _number(dsn: str, partitions: int, last: int, cue: Cue) -> int:
    numbered = 0
    with psycopg.connect(dsn, autocommit=True, options=_LOOK_UP) as conn:
        listen(conn, "relay_in")
        recent = deque([last], _RECENT)
        cue.begin()
        while cue.going():
            wait(conn, 0.1)
            heard(conn)
            params = {"above": recent[0], "recent": [*recent], "partitions": partitions}
            found = conn.execute(query("relay_number"), params).fetchall()
            recent.extend(row[0] for row in found)
            numbered += len(found)
    return numbered


def _read(dsn: str, arrived: Notebook, partition: int, cue: Cue) -> int:
    handled = 0
    with psycopg.connect(dsn, autocommit=True, options=_LOOK_UP) as conn:
        listen(conn, f"relay_out_{partition}")
        cue.begin()
        while cue.going():
            wait(conn, 0.1)
            heard(conn)
            with conn.pipeline():
                conn.execute(b"begin")
                found = conn.execute(query("relay_read"), {"partition": partition})
            payloads = found.fetchall()
            for (payload,) in payloads:
                arrived.write(json.loads(payload)["n"])
            conn.execute(b"commit")
            handled += len(payloads)
    return handled
