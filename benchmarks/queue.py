"""Draining, against a SKIP LOCKED work queue as commonly written."""

from __future__ import annotations

from functools import partial
from typing import Any

import psycopg
from psycopg import Connection, sql

from benchmarks.cost import cost_figures
from benchmarks.crew import Cue, crew
from benchmarks.drain import Drained, drain, noop_handler
from benchmarks.figure import Figure, alternate
from benchmarks.fill import fill_outbox
from benchmarks.queries import baseline, query
from benchmarks.server import Setup
from gapless.db.connect import connect
from gapless.log.topics import ensure_topic

WORKERS = 4
BATCH = 100
PAYLOAD_BYTES = 300

STATUS = "queue, status column"
INDEXED = "queue, partial index"
DELETED = "queue, DELETE"
TABLES = {STATUS: "job", INDEXED: "job_indexed", DELETED: "job_deleted"}


def run(setup: Setup) -> list[Figure]:
    """Drain the same events from the log and from three kinds of queue."""
    events = setup.pick(1_000, 10_000, 50_000)
    with setup.database("queue") as dsn, connect(dsn, role="bench") as conn:
        conn.execute(baseline("queue"))
        topic = ensure_topic(conn, "queue", partitions=WORKERS)
        fill_outbox(dsn, topic.topic_id, events=events, payload_bytes=PAYLOAD_BYTES)
        results = alternate(
            setup.rounds,
            {
                **{name: partial(_queue, dsn, name, events) for name in TABLES},
                "ours": partial(_ours, dsn, events),
            },
        )
    what = f"{WORKERS} workers, batch {BATCH}"
    ours = results["ours"]
    figures = [
        Figure(
            what=what,
            unit="events/s",
            ours=tuple(each.per_s for each in ours),
            baseline=tuple(each.per_s for each in results[name]),
            against=name,
        )
        for name in TABLES
    ]
    for name in TABLES:
        costs = [each.cost for each in results[name]]
        figures += cost_figures(what, [each.cost for each in ours], costs, name)
    return figures


def _ours(dsn: str, events: int) -> Drained:
    return drain(dsn, [noop_handler("queue", BATCH)], events=events, partitions=WORKERS)


def _queue(dsn: str, name: str, events: int) -> Drained:
    """Fill the queue anew and let the workers empty it."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(_on("queue_truncate", name))
        conn.execute(_on("queue_fill", name), {"events": events, "payload_bytes": PAYLOAD_BYTES})
        conn.execute(query("vacuum"))
    with crew([partial(_work, dsn, name)] * WORKERS, metered_dsn=dsn) as workers:
        workers.join()
    assert workers.done == events, f"{workers.done} of {events}"
    assert workers.meter is not None
    return Drained(events / workers.took_s, workers.meter.of(events))


def _work(dsn: str, name: str, cue: Cue) -> int:
    """Take and finish jobs until there are none."""
    take = _delete if name == DELETED else partial(_take, name)
    done = 0
    with psycopg.connect(dsn, autocommit=True) as conn:
        cue.begin()
        while taken := take(conn):
            done += taken
    return done


def _take(name: str, conn: Connection[Any]) -> int:
    """Mark jobs as taken, handle them, mark them as done: a transaction before, one after."""
    rows = conn.execute(_on("queue_take", name), {"events": BATCH}).fetchall()
    if rows:
        conn.execute(_on("queue_done", name), {"ids": [row[0] for row in rows]})
    return len(rows)


def _delete(conn: Connection[Any]) -> int:
    with conn.transaction():
        return len(conn.execute(_on("queue_delete", DELETED), {"events": BATCH}).fetchall())


def _on(name: str, table: str) -> sql.Composed:
    found = sql.SQL(query(name).decode())
    return found.format(table=sql.Identifier("baseline", TABLES[table]))
