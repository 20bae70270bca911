"""Ways to work on a queue, each written as well as possible: prepared, binary, one statement.

A queue group takes and finishes events in the handler's transaction; so do DELETE, the status
column and pop(), whose COMMIT travels with the next statement, as ours does. read() and delete()
are two commits, with the handler in between.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import psycopg
from psycopg import sql

import gapless
from benchmarks.claims import Claims
from benchmarks.crew import Cue
from benchmarks.drain import decoding, new_group, noop
from benchmarks.queries import baseline, query
from benchmarks.rivals import find
from benchmarks.turns import Side
from gapless.consume.terms import agree
from gapless.db.connect import connect
from gapless.features.queue.drive import QueueDriver
from gapless.features.queue.place import open_queue
from gapless.lease.member import create_group
from gapless.log.topics import require_topic
from gapless.settings import Settings
from gapless.worker.control import subscription_of

OURS = "ours"
DELETED = "DELETE … SKIP LOCKED, partial index"
MARKED = "a status column, partial index"
POPPED = "pgmq pop in the handler's transaction"
READ = "pgmq read and delete"
PAYLOAD_BYTES = 300


class Way(Protocol):
    """A kind of queue. fill: make a queue with jobs, for one round. working: a worker's session.

    A turn of that session takes and finishes a batch.
    """

    def fill(self, dsn: str, events: int) -> None: ...
    def working(self, dsn: str, batch: int, *, is_decoded: bool) -> Any: ...


class Ours:
    """A queue group on a topic that has the events; each round has a group that has read none."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.group = ""

    def fill(self, dsn: str, events: int) -> None:  # noqa: ARG002 - the log has them already
        self.group = new_group("queue")
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute(query("vacuum"))

    def join(self, dsn: str, batch: int, function: Any = noop) -> Any:
        """Make the group, if it is not there; return the arguments of a driver but its session."""
        decorate: Any = gapless.handler(
            topic=self.topic, group=self.group, mode="queue", batch_size=batch
        )
        handler = decorate(function)
        terms = agree(handler, Settings())
        with connect(dsn, role="bench") as conn:
            create_group(conn, subscription_of(self.group, require_topic(conn, self.topic), terms))
        return handler, terms

    @contextmanager
    def working(self, dsn: str, batch: int, *, is_decoded: bool) -> Iterator[Side]:
        handler, terms = self.join(dsn, batch, decoding if is_decoded else noop)
        with connect(dsn, role="bench") as conn:
            queue = open_queue(conn, handler, terms, self.group, worker="bench", reserve_s=60)
            driver = QueueDriver(queue)

            def turn() -> int:
                while (done := driver.turn()).outcome == "done":
                    if done.events:
                        return done.events
                return 0

            yield Side(conn, turn)
            driver.sweep()


class Lean:
    """A table of jobs, which one statement takes and finishes."""

    def __init__(self, statement: str) -> None:
        self._statement = statement

    def fill(self, dsn: str, events: int) -> None:
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute(query("lean_drop"))
            conn.execute(baseline("queue"))
            statement = sql.SQL(query("queue_fill").decode())
            table = sql.Identifier("baseline", "job_indexed")
            given = {"events": events, "payload_bytes": PAYLOAD_BYTES}
            conn.execute(statement.format(table=table), given)
            conn.execute(query("vacuum"))

    @contextmanager
    def working(self, dsn: str, batch: int, *, is_decoded: bool) -> Iterator[Side]:
        with psycopg.connect(dsn, autocommit=True) as conn:
            claims = Claims(conn, query(self._statement), is_decoded=is_decoded)
            yield Side(conn, lambda: len(claims.next({"events": batch})))
            claims.commit()


class Pgmq(Lean):
    """The functions of pgmq's package, called as the others are."""

    def __init__(self, *, pops: bool) -> None:
        super().__init__("pgmq_pop")
        self._pops = pops

    def fill(self, dsn: str, events: int) -> None:
        rival = find("pgmq")
        assert rival is not None
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute(query("pgmq_drop"))
            rival.create(dsn)
            conn.execute(query("pgmq_fill"), {"events": events, "payload_bytes": PAYLOAD_BYTES})
            conn.execute(query("vacuum"))

    @contextmanager
    def working(self, dsn: str, batch: int, *, is_decoded: bool) -> Iterator[Side]:
        if self._pops:
            with super().working(dsn, batch, is_decoded=is_decoded) as side:
                yield side
            return
        with psycopg.connect(dsn, autocommit=True) as conn:
            cursor = Claims.cursor(conn, is_decoded=is_decoded)

            def turn() -> int:
                given = {"events": batch}
                rows = cursor.execute(query("pgmq_read"), given, prepare=True).fetchall()
                if rows:
                    ids = {"ids": [row[0] for row in rows]}
                    conn.execute(query("pgmq_delete"), ids, prepare=True)
                return len(rows)

            yield Side(conn, turn)


def ways(topic: str) -> dict[str, Way]:
    """Return the available ways by name; ours is the last."""
    found: dict[str, Way] = {DELETED: Lean("lean_delete"), MARKED: Lean("lean_mark")}
    if find("pgmq") is not None:
        found |= {POPPED: Pgmq(pops=True), READ: Pgmq(pops=False)}
    return found | {OURS: Ours(topic)}


def work(way: Way, dsn: str, batch: int, cue: Cue, *, is_decoded: bool = False) -> int:
    """Work until the queue is empty; return the number of events."""
    with way.working(dsn, batch, is_decoded=is_decoded) as side:
        cue.begin()
        done = 0
        while events := side.turn():
            done += events
            cue.did()
    return done
