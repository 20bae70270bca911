"""Draining by an ordered group, against SKIP LOCKED work queues: lean ones, and as published."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import psycopg
from psycopg import Connection, sql

import gapless
from benchmarks.claims import Claims
from benchmarks.crew import Cue, crew
from benchmarks.drain import Drained, decoding, drain, drained_figures, new_group, noop_handler
from benchmarks.figure import Figure, alternate
from benchmarks.fill import fill_outbox
from benchmarks.queries import baseline, query
from benchmarks.server import Setup
from gapless.db.connect import connect
from gapless.log.topics import ensure_topic

WORKERS = 4
BATCH = 100
PAYLOAD_BYTES = 300

HANDLED = "queue, DELETE in the handler's transaction"
ALONE = "queue, DELETE by one statement, lost if its worker dies"
PUBLISHED = "queue, DELETE, as published"
INDEXED = "queue, status column, partial index, as published"
STATUS = "queue, status column, as published"
DECODED = f"{HANDLED}, decoding"
TABLES = {
    HANDLED: "job_deleted",
    ALONE: "job_deleted",
    PUBLISHED: "job_deleted",
    INDEXED: "job_indexed",
    STATUS: "job",
    DECODED: "job_deleted",
}
# The share of the jobs that makes a round last seconds; without an index, more jobs cost more each.
SHARES = {HANDLED: 1.0, ALONE: 1.0, PUBLISHED: 0.5, INDEXED: 0.2, STATUS: 0.05, DECODED: 1.0}
OURS_DECODED = "ours, decoding"

_Take = Callable[[Connection[Any]], Iterator[int]]  # yields numbers of jobs, until there are none


def run(setup: Setup) -> list[Figure]:
    """Drain the same kind of events from the log and from queues of each kind."""
    events = setup.pick(1_000, 30_000, 50_000)
    with setup.database("jobs") as dsn, connect(dsn, role="bench") as conn:
        conn.execute(baseline("queue"))
        topic = ensure_topic(conn, "jobs", partitions=WORKERS)
        fill_outbox(dsn, topic.topic_id, events=events, payload_bytes=PAYLOAD_BYTES)
        results = alternate(
            setup.pick(1, 2, 2),
            {
                **{name: partial(_queue, dsn, name, int(events * SHARES[name])) for name in TABLES},
                "ours": partial(_ours, dsn, events, noop_handler("jobs", BATCH).function),
                OURS_DECODED: partial(_ours, dsn, events, decoding),
            },
        )
    what = f"{WORKERS} workers, batch {BATCH}"
    ours, decoded = results["ours"], results[OURS_DECODED]
    return [
        *(
            figure
            for name in TABLES
            if name != DECODED
            for figure in drained_figures(f"{what}, payload as bytes", ours, results[name], name)
        ),
        *drained_figures(f"{what}, payload decoded", decoded, results[DECODED], DECODED)[:2],
    ]


def _ours(dsn: str, events: int, function: Any) -> Drained:
    decorate = gapless.handler(topic="jobs", group=new_group("jobs"), batch_size=BATCH)
    return drain(dsn, [decorate(function)], events=events, partitions=WORKERS)


def _queue(dsn: str, name: str, jobs: int) -> Drained:
    """Fill the queue again and let the workers empty it."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(_on("queue_truncate", name))
        conn.execute(_on("queue_fill", name), {"events": jobs, "payload_bytes": PAYLOAD_BYTES})
        conn.execute(query("vacuum"))
    with crew([partial(_work, dsn, name)] * WORKERS, metered_dsn=dsn) as workers:
        workers.join()
    assert workers.done == jobs, f"{workers.done} of {jobs}"
    assert workers.meter is not None
    return Drained(jobs / workers.took_s, workers.meter.of(jobs))


def _work(dsn: str, name: str, cue: Cue) -> int:
    """Take and finish jobs until there are none."""
    takes: dict[str, _Take] = {
        HANDLED: partial(_handled, is_decoded=False),
        DECODED: partial(_handled, is_decoded=True),
        ALONE: _alone,
        PUBLISHED: _published,
    }
    take = takes.get(name) or partial(_marked, name)
    with psycopg.connect(dsn, autocommit=True) as conn:
        cue.begin()
        return sum(take(conn))


def _handled(conn: Connection[Any], *, is_decoded: bool) -> Iterator[int]:
    """Delete and handle in one transaction: the effects of a job commit with its end."""
    claims = Claims(conn, _on("queue_delete_fast", HANDLED), is_decoded=is_decoded)
    while rows := claims.next({"events": BATCH}):
        yield len(rows)


def _alone(conn: Connection[Any]) -> Iterator[int]:
    """Delete, which commits, then handle."""
    cursor = Claims.cursor(conn, is_decoded=False)
    statement = _on("queue_delete_fast", ALONE)
    while rows := cursor.execute(statement, {"events": BATCH}, prepare=True).fetchall():
        yield len(rows)


def _published(conn: Connection[Any]) -> Iterator[int]:
    """Delete between BEGIN and COMMIT, three round trips; as text, JSON decoded by psycopg."""
    while True:
        with conn.transaction():
            rows = conn.execute(_on("queue_delete", PUBLISHED), {"events": BATCH}).fetchall()
        if not rows:
            return
        yield len(rows)


def _marked(name: str, conn: Connection[Any]) -> Iterator[int]:
    """Mark jobs as taken, handle them, mark them as done: a transaction before, one after."""
    while rows := conn.execute(_on("queue_take", name), {"events": BATCH}).fetchall():
        conn.execute(_on("queue_done", name), {"ids": [row[0] for row in rows]})
        yield len(rows)


def _on(name: str, table: str) -> sql.Composed:
    found = sql.SQL(query(name).decode())
    return found.format(table=sql.Identifier("baseline", TABLES[table]))
