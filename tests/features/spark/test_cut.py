"""Cuts of the log: all of a transaction or nothing of it, and never more than was asked for."""

from collections import Counter, defaultdict
from contextlib import ExitStack
from random import Random

import psycopg
import pytest
from psycopg import Connection

from gapless.features.spark.options import read_options
from gapless.features.spark.place import cut, earliest, find_ends, latest
from gapless.log.publish import publish
from gapless.log.sequence import sequence
from gapless.log.topics import Topic, ensure_topic
from support.log import placed

Cut = dict[tuple[int, int], int]


def _cuts(conn: Connection, dsn: str, topics: str, events_max: int) -> list[Cut]:
    """Go through the log from cut to cut; return each as next offsets by (topic_id, partition)."""
    options = read_options({"url": dsn, "subscribe": topics})
    ends = find_ends(conn, options)
    at = earliest(ends)
    found = []
    for _ in range(10_000):
        now = cut(conn, at, ends, events_max)
        if now == at:
            assert now == latest(ends), "a cut that stands still before the end"
            return found
        at = now
        found.append({(e.topic_id, e.partition_id): at[e.topic][e.partition_id] for e in ends})
    raise AssertionError("cuts do not come to an end")


def _publish_some(dsn: str, topics: list[str], seed: int) -> None:
    """Publish in transactions that overlap: none of them is together in the order of ids."""
    random = Random(seed)
    with ExitStack() as stack:
        conns = [stack.enter_context(psycopg.connect(dsn)) for _ in range(4)]
        for turn in range(120):
            conn = random.choice(conns)
            for _ in range(random.choice((1, 1, 2, 7))):
                publish(conn, random.choice(topics), {"n": turn}, key=str(random.random()))
            if random.random() < 0.5:
                conn.commit()
        for conn in conns:
            conn.commit()


@pytest.mark.few(3)
@pytest.mark.parametrize("runs", ["one run", "many runs"])
@pytest.mark.parametrize("events_max", [1, 5, 40, 500, 10_000])
def test_a_transaction_is_never_torn(
    dsn: str, conn: Connection, topic: Topic, runs: str, events_max: int
) -> None:
    other = ensure_topic(conn, "other", partitions=3)
    for seed in range(3):
        _publish_some(dsn, ["outbox", "other"], seed)
        if runs == "many runs":
            sequence(conn)
    sequence(conn)
    log = placed(conn)
    whole: Counter[str | None] = Counter()
    for events in log.values():
        whole.update(event.xid for event in events)
    before: Cut = defaultdict(lambda: 1)
    for now in _cuts(conn, dsn, "outbox,other", events_max):
        inside: Counter[str | None] = Counter()
        for where, events in log.items():
            inside.update(e.xid for e in events if before[where] <= e.c_offset < now[where])
        assert all(whole[xid] == n for xid, n in inside.items()), "a transaction was torn"
        taken = sum(inside.values())
        assert taken <= events_max or len(inside) == 1, f"{taken} events for {events_max}"
        before = now
    assert other.topic_id == 2


def test_a_cut_goes_past_a_full_limit_exactly(dsn: str, conn: Connection, topic: Topic) -> None:
    """A transaction of which as many events fit as are allowed, and more follow, is not cut there."""
    with conn.transaction():
        for n in range(10):
            publish(conn, "outbox", {"n": n}, key="same")
    publish(conn, "outbox", {}, key="same")
    sequence(conn)
    options = read_options({"url": dsn, "subscribe": "outbox"})
    ends = find_ends(conn, options)
    sizes = [sum(now.values()) - 4 for now in _cuts(conn, dsn, "outbox", 5)]
    assert sizes == [10, 11]
    assert latest(ends)


@pytest.mark.parametrize("runs", ["one run", "many runs"])
def test_as_many_as_are_allowed_are_taken_at_once(
    dsn: str, conn: Connection, topic: Topic, runs: str
) -> None:
    """The limit itself is allowed, in whole runs and inside of one, and the end of a run is in it."""
    for _ in range(5):
        with conn.transaction():
            for n in range(2):
                publish(conn, "outbox", {"n": n}, key=f"k{n}")
        if runs == "many runs":
            sequence(conn)
    sequence(conn)
    for events_max, expected in (
        (4, [4, 8, 10]),
        (5, [4, 8, 10]),
        (2, [2, 4, 6, 8, 10]),
        (10, [10]),
    ):
        sizes = [sum(now.values()) - 4 for now in _cuts(conn, dsn, "outbox", events_max)]
        assert sizes == expected, f"at most {events_max}"
