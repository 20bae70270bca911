"""I1 to I5 with real concurrency: producers that pause, roll back and use savepoints, each on its own
connection, against sequencers that compete.
"""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from random import Random
from uuid import UUID

import pytest
from psycopg import Connection

from gapless.db.connect import connect
from gapless.log.sequence import sequence
from gapless.log.topics import adopt_topic, ensure_topic
from support.log import (
    Published,
    assert_all_there,
    assert_gapless,
    assert_kept,
    assert_neighbours,
    assert_ordered,
    placed,
    tags,
)

PRODUCERS = 10
SEQUENCERS = 3
TOPICS = [1, 1, 1, 2, 77]  # nobody creates 77
INSERT = (
    "insert into gapless.outbox_message_t (topic_id, key, host_id, transaction_id, event_type)"
    " values (%s, %s, %s, %s, %s)"
)


class Producer:
    """Publishes random transactions and remembers what it did, on the clock all threads share."""

    def __init__(self, dsn: str, number: int) -> None:
        self.dsn = dsn
        self.number = number
        self.random = Random(number)
        self.published: list[Published] = []

    def run(self, transactions: int) -> list[Published]:
        with connect(self.dsn, role="producer") as conn:
            for n in range(transactions):
                self._transaction(conn, f"{self.number}.{n}")
        return self.published

    def _transaction(self, conn: Connection, name: str) -> None:
        if self.random.random() < 0.3:
            events = [self._insert(conn, name)]
            ends_well = True
        else:
            conn.execute("begin")
            events = self._work(conn, name, depth=0)
            ends_well = self.random.random() < 0.8
            conn.execute("commit" if ends_well else "rollback")
        committed = time.monotonic() if ends_well else None
        for event in events:
            event.committed = committed
        self.published += events

    def _work(self, conn: Connection, name: str, depth: int) -> list[Published]:
        events: list[Published] = []
        for _ in range(self.random.randint(1, 4)):
            events.append(self._insert(conn, name))
            if self.random.random() < 0.2:
                time.sleep(self.random.random() * 0.02)
            if depth < 3 and self.random.random() < 0.2:
                conn.execute(f"savepoint s{depth}")
                inner = self._work(conn, name, depth + 1)
                if self.random.random() < 0.5:
                    conn.execute(f"rollback to s{depth}")
                    self.published += inner
                else:
                    events += inner
        return events

    def _insert(self, conn: Connection, name: str) -> Published:
        pick = self.random.choice
        tag = f"{name}.{self.random.getrandbits(48):012x}"
        columns = [
            pick(TOPICS),
            pick([None, "a", "b", "C", "ü", ""]),
            pick([None, "h1", "h2"]),
            pick([None, None, None, UUID(int=1), UUID(int=self.random.getrandbits(64))]),
        ]
        event = Published(tag=tag, transaction=name, inserted=time.monotonic())
        conn.execute(INSERT, [*columns, tag])
        return event


def _sequence_until(dsn: str, stop: threading.Event) -> int:
    total = 0
    with connect(dsn, role="sequencer") as conn:
        while not stop.is_set():
            total += sequence(conn)
            stop.wait(0.001)
    return total


def _race(dsn: str, transactions: int) -> tuple[list[Published], int]:
    """Let all producers and sequencers run at once; return what was published, and sequenced."""
    stop = threading.Event()
    with ThreadPoolExecutor(PRODUCERS + SEQUENCERS) as pool:
        sequencers = [pool.submit(_sequence_until, dsn, stop) for _ in range(SEQUENCERS)]
        producers = [
            pool.submit(Producer(dsn, number).run, transactions) for number in range(PRODUCERS)
        ]
        try:
            published = [event for producer in producers for event in producer.result()]
        finally:
            stop.set()
        return published, sum(sequencer.result() for sequencer in sequencers)


def _check(conn: Connection, dsn: str, transactions: int) -> None:
    ensure_topic(conn, "outbox", partitions=4)
    ensure_topic(conn, "second", partitions=3)
    published, sequenced = _race(dsn, transactions)
    before = placed(conn)
    adopt_topic(conn, TOPICS[-1], "third", partitions=2)  # its events were kept all the time
    sequenced += sequence(conn)
    assert sequence(conn) == 0
    log = placed(conn)
    assert_kept(before, log)
    assert sequenced == len(tags(log))
    assert_gapless(log)
    assert_all_there(log, published)
    assert_neighbours(log)
    assert_ordered(log, published)
    committed = [event for event in published if event.committed is not None]
    assert 0 < len(committed) < len(published)
    assert len({topic_id for topic_id, _ in log}) == 3
    runs = conn.execute("select count(distinct run) from gapless.log_segment").fetchone()
    assert runs is not None
    assert runs[0] > 20, "too few runs for a race"


def test_concurrent_producers_and_sequencers(conn: Connection, dsn: str) -> None:
    _check(conn, dsn, transactions=150)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_concurrent_producers_and_sequencers_for_minutes(conn: Connection, dsn: str) -> None:
    _check(conn, dsn, transactions=10_000)
