"""A hole in one partition stops that one alone: take(), and workers of both kinds, serve the others (I8)."""

from collections.abc import Callable
from typing import Literal

import pytest
from psycopg import Connection

import gapless
from features.queue.holes import lose_event
from gapless.consume.terms import agree
from gapless.errors import HoleError
from gapless.features.queue.drive import QueueDriver
from gapless.features.queue.place import open_queue
from gapless.log.sequence import sequence
from gapless.settings import Settings
from gapless.status import snapshot

Lose = Callable[[Connection], None]


def lose_first_event(conn: Connection) -> None:
    lose_event(conn, "p0e2")


def lose_first_segment(conn: Connection) -> None:
    """The first of two segments of the partition."""
    done = conn.execute(
        "delete from gapless.log_segment where base_offset = 1 and partition_id = 0"
        " and topic_id = gapless.topic_id(%s)",
        ["mails"],
    )
    assert done.rowcount == 1


def drop_by_retention(conn: Connection) -> None:
    lose_first_segment(conn)
    conn.execute(
        "insert into gapless.log_start (topic_id, partition_id, first_offset, newest_ts)"
        " values (gapless.topic_id('mails'), 0, 7, now())"
    )


HOLES = pytest.mark.parametrize("lose", [lose_first_event, lose_first_segment, drop_by_retention])


@pytest.fixture
def shop(conn: Connection) -> Connection:
    """Partition 0, the laggiest, has p0e1 to p0e12; partition 1 has p1e1 to p1e8 and is whole."""
    conn.execute("select gapless.create_topic('mails', 2)")
    keys: dict[int, str] = {}
    for n in range(20):
        row = conn.execute("select gapless.partition_of(%s, 2)", [f"k{n}"]).fetchone()
        assert row is not None
        keys.setdefault(row[0], f"k{n}")
    for first, last, partition in ((1, 6, 0), (7, 12, 0), (1, 8, 1)):
        conn.execute(
            "insert into gapless.outbox_message_t (topic_id, event_type, key, payload)"
            " select gapless.topic_id('mails'), %s || n, %s, '{}' from generate_series(%s::int, %s::int) n"
            " order by n",
            [f"p{partition}e", keys[partition], first, last],
        )
        while sequence(conn):
            pass
    conn.execute("select gapless.create_group('sender', 'mails', mode => 'queue', block => 4)")
    return conn


def take(conn: Connection, most: int = 4) -> list[str]:
    rows = conn.execute(
        "select receipt, event_type from gapless.take('sender', 'mails', %s)", [most]
    ).fetchall()
    for receipt in {row[0] for row in rows}:
        conn.execute("select gapless.acknowledge('sender', 'mails', %s)", [receipt])
    return [row[1] for row in rows]


def names(partition: int, first: int, last: int) -> list[str]:
    return [f"p{partition}e{n}" for n in range(first, last + 1)]


@HOLES
def test_take_serves_the_others(shop: Connection, lose: Lose) -> None:
    """It raises nothing; when nothing else is there a notice says which partition stands."""
    lose(shop)
    told: list[str] = []
    shop.add_notice_handler(lambda notice: told.append(notice.message_primary or ""))
    taken = [name for _ in range(3) for name in take(shop)]
    assert sorted(taken) == names(1, 1, 8)
    assert len(told) == 1
    assert "missing" in told[0] or "retention has dropped" in told[0]
    kept = shop.execute("select count(*) from gapless.queue_range where deadline is not null")
    assert kept.fetchone() == (0,), "of the hole's block nothing is in hand"
    (row,) = [r for r in snapshot(shop).partitions if r.partition_id == 0]
    assert row.error is not None


def test_what_lapsed_with_a_hole_keeps_nobody_waiting(shop: Connection) -> None:
    """Each partition has a range that nobody answered for; that of one cannot be read any more."""
    left = [
        name
        for n in range(10)
        for (name,) in shop.execute(
            "select event_type from gapless.take('sender', 'mails', 4)"
        ).fetchall()
    ]
    assert len(left) == 20
    shop.execute("update gapless.queue_range set deadline = clock_timestamp()")
    lose_first_event(shop)
    taken = [name for _ in range(60) for name in take(shop, 1)]
    assert set(names(1, 1, 8)) == set(taken) - set(names(0, 1, 12))
    assert "p0e2" not in taken


@pytest.mark.few(3)
@HOLES
@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
def test_a_driver_serves_the_others(
    shop: Connection, lose: Lose, delivery: Literal["exactly-once", "at-least-once"]
) -> None:
    """It tells of the hole once; then partition 0 rests, and all of partition 1 is handled."""
    lose(shop)
    handled: list[str] = []

    def send(unit: gapless.Unit, _conn: Connection | None = None) -> None:
        handled.extend(event.event_type or "" for event in unit)

    handler = gapless.Handler(
        function=send,
        topic="mails",
        group="sender",
        mode="queue",
        batch_size=4,
        delivery=delivery,
        visibility_s=60,
    )
    terms = agree(handler, Settings())
    driver = QueueDriver(open_queue(shop, handler, terms, "sender", worker="test", reserve_s=60.0))
    told = 0
    idle = 0
    while idle < 20 and told < 20:
        try:
            idle = idle + 1 if driver.turn().outcome == "idle" else 0
        except HoleError:
            told += 1
        driver.wake()
    assert sorted(set(handled) - {"p0e1"}) == names(1, 1, 8)  # p0e1 is before the hole
    assert len(handled) == len(set(handled))
    assert told == 1
