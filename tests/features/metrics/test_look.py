"""What a scrape asks of the database: once, every 5 s at most, and within 20 ms at 64 partitions."""

from time import perf_counter

import pytest
from psycopg import Connection

from gapless.features.metrics.collect import found_in, write
from gapless.features.metrics.look import DatabaseLook, Standstill, take_look
from gapless.log.publish import publish
from gapless.log.sequence import sequence
from gapless.log.topics import ensure_topic
from gapless.ops import Retention, alter_topic, list_chunks
from support.chunks import next_chunk, small_chunks
from support.group import owner
from support.patience import patience

LOOK_S_MAX = 0.02
PARTITIONS = 64


def look(conn: Connection) -> DatabaseLook:
    return take_look(conn, Standstill())


@pytest.mark.long
def test_a_look_at_64_partitions(dsn: str, conn: Connection) -> None:
    topic = ensure_topic(conn, "orders", partitions=PARTITIONS)
    for n in range(2000):
        publish(conn, "orders", {"n": n}, key=str(n))
    sequence(conn)
    with owner(dsn, "billing", topic):
        conn.execute(
            "insert into gapless.dead_letter (group_id, topic_id, partition_id, first_offset,"
            " last_offset, events, transaction_id, state, attempts, reason, exception, died_ts)"
            " select 'billing', %s, n %% 64, n, n, 1, gen_random_uuid(), 'dead', 1, 'x', 'x', now()"
            " from generate_series(1, 2000) n",
            [topic.topic_id],
        )
        conn.execute("analyze")
        took_s = []
        for _ in range(20):
            began_s = perf_counter()
            found = look(conn)
            write(found_in(found, [], None), "")
            took_s.append(perf_counter() - began_s)
    print(f"{min(took_s) * 1000:.1f} ms")  # noqa: T201 - pytest -s shows it
    assert len(found.standings) == PARTITIONS
    assert sum(each.lag for each in found.standings) == 2000
    assert sum(each.units for each in found.letters if each.state == "dead") == 2000
    assert min(took_s) <= patience(LOOK_S_MAX)


def test_retention_that_is_held(dsn: str, conn: Connection) -> None:
    small_chunks(conn)
    topic = ensure_topic(conn, "orders", partitions=1)
    conn.execute("select gapless.create_group('billing', 'orders')")
    publish(conn, "orders", 1)
    next_chunk(conn)
    publish(conn, "orders", 2)
    sequence(conn)
    list_chunks(conn)
    assert look(conn).chunks.held_s == 0, "the topic keeps its events"
    alter_topic(conn, "orders", retention=Retention(keep_s=3600))
    conn.execute("update gapless.chunk_end set newest_ts = newest_ts - interval '2 hours'")
    found = look(conn).chunks
    assert 3600 <= found.held_s < 3700, "held for an hour, by a group that is behind"
    assert found.chunks == conn.execute("select count(*) from gapless.chunk").fetchone()[0]
    with owner(dsn, "billing", topic) as held:
        held.consume()
    assert look(conn).chunks.held_s == 0, "nobody is behind: it may go"


def test_events_of_a_replay_are_no_lag(dsn: str, conn: Connection) -> None:
    ensure_topic(conn, "orders", partitions=1)
    publish(conn, "orders", 1)
    sequence(conn)
    conn.execute(
        "select gapless.create_replay('again', 'orders', null, 'earliest', null, null, null, null)"
    )
    assert look(conn).standings == []


def test_what_is_pending(conn: Connection) -> None:
    ensure_topic(conn, "orders", partitions=1)
    publish(conn, "orders", 1)
    assert [(each.topic, each.events) for each in look(conn).pending] == [("orders", 1)]
    found = found_in(look(conn), [], None)["gapless_pending_events"]
    assert found["orders",] == 1
    sequence(conn)
    assert found_in(look(conn), [], None)["gapless_pending_events"]["orders",] == 0
