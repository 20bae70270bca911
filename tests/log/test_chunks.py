"""Chunks of outbox_message_t: made ahead, and no harm done when nobody made them."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Event

import psycopg
import pytest
from psycopg import Connection

from gapless.db.connect import connect, is_transient
from gapless.log.publish import publish
from gapless.log.sequence import configure_chunks, create_chunks, sequence
from gapless.log.topics import Topic
from support.group import owner
from support.log import assert_gapless, placed, tags

CHUNK_EVENTS = 1000
AHEAD = 2


@pytest.fixture
def small(conn: Connection, topic: Topic) -> Connection:
    """A log whose chunks hold CHUNK_EVENTS ids; the one in use has 10 ids left, and is the last."""
    configure_chunks(conn, chunk_events=CHUNK_EVENTS, chunks_ahead=AHEAD)
    _jump(conn, _covered(conn) - 10)
    return conn


@pytest.fixture
def other(dsn: str) -> Iterator[Connection]:
    with connect(dsn, role="other") as conn:
        yield conn


def _chunks(conn: Connection) -> list[tuple[int, int]]:
    """The ids that each chunk covers: first, and one past the last."""
    return conn.execute("select from_id, upto from gapless.chunk order by 1").fetchall()


def _covered(conn: Connection) -> int:
    return _chunks(conn)[-1][1]


def _jump(conn: Connection, next_id: int) -> None:
    conn.execute("select setval('gapless.outbox_message_id_seq', %s, false)", [next_id])


def _in_default(conn: Connection) -> int:
    row = conn.execute("select count(*) from gapless.outbox_message_default").fetchone()
    assert row is not None
    return int(row[0])


def test_chunks_are_made_ahead_and_only_then(conn: Connection, topic: Topic) -> None:
    configure_chunks(conn, chunk_events=CHUNK_EVENTS, chunks_ahead=AHEAD)
    assert create_chunks(conn) == 0
    next_id = _covered(conn) - CHUNK_EVENTS
    _jump(conn, next_id)
    assert create_chunks(conn) > 0
    assert create_chunks(conn) == 0
    chunks = _chunks(conn)
    assert chunks[0][0] == 1
    assert all(
        upto == following[0] for (_, upto), following in zip(chunks, chunks[1:], strict=False)
    )
    assert next_id + AHEAD * CHUNK_EVENTS < _covered(conn) <= next_id + (AHEAD + 2) * CHUNK_EVENTS


def test_a_chunk_has_the_indexes_of_the_others(small: Connection) -> None:
    create_chunks(small)
    count = (
        "select i.tablename, count(*) from pg_indexes i where i.schemaname = 'gapless' and"
        " (i.tablename = 'outbox_message_t' or i.tablename in (select chunk from gapless.chunk))"
        " group by 1"
    )
    indexes = dict(small.execute(count).fetchall())
    of_parent = indexes.pop("outbox_message_t")
    assert {of_parent} == set(indexes.values())
    assert len(indexes) == len(_chunks(small))


@pytest.mark.long
def test_events_past_the_last_chunk_are_kept_sequenced_and_read(
    small: Connection, dsn: str, topic: Topic
) -> None:
    published = []

    def publish_some(when: str) -> None:
        for n in range(40):
            published.append(f"{when} {n}")
            publish(small, "outbox", n, key=f"k{n}", event_type=published[-1])

    publish_some("past the last chunk")
    assert _in_default(small) == 30
    assert sequence(small) == 40
    assert create_chunks(small) > 0
    publish_some("in a new chunk")
    assert _in_default(small) == 30
    assert sequence(small) == 40
    log = placed(small)
    assert_gapless(log)
    assert sorted(map(str, tags(log))) == sorted(published)

    read = [
        event_type
        for partition in range(topic.partitions)
        for (event_type,) in small.execute(
            "select event_type from gapless.read('outbox', %s)", [partition]
        )
    ]
    assert read == tags(log)
    with owner(dsn, "g", topic) as group:
        assert group.consume(batch_size=7) == tags(log)


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "left", [1, 10, CHUNK_EVENTS // 2, -1, -CHUNK_EVENTS + 1, -CHUNK_EVENTS // 2, -5 * CHUNK_EVENTS]
)
def test_a_new_chunk_takes_no_id_that_may_be_in_flight(small: Connection, left: int) -> None:
    """A publisher on its way to the default chunk would fail, or ATTACH would."""
    _jump(small, _covered(small) - left)
    before = _chunks(small)
    row = small.execute("select last_value from gapless.outbox_message_id_seq").fetchone()
    assert row is not None
    assert create_chunks(small) > 0
    first_new = min(from_id for from_id, _ in set(_chunks(small)) - set(before))
    assert first_new >= row[0] + CHUNK_EVENTS // 2


def test_who_burns_ids_makes_no_publisher_fail(small: Connection, dsn: str) -> None:
    """Nor the sequencer: it has chunks, or tries again."""
    published = 0

    def burn(tries: int) -> int:
        with connect(dsn, role="publisher") as conn:
            for _ in range(tries):
                conn.execute(
                    "select count(nextval('gapless.outbox_message_id_seq'))"
                    " from generate_series(1, 40000)"
                )
        return 0

    with ThreadPoolExecutor(3) as pool, connect(dsn, role="publisher") as publisher:
        burning = [pool.submit(burn, 20), pool.submit(burn, 20)]
        while not all(each.done() for each in burning):
            attempt = pool.submit(create_chunks, small)
            while not attempt.done():
                publish(publisher, "outbox", 1)
                published += 1
            with suppress(psycopg.errors.LockNotAvailable):
                attempt.result()
        assert [each.result() for each in burning] == [0, 0]
    assert sequence(small) == published


def test_a_statement_that_is_amid_its_rows_has_them_all_stored(
    small: Connection, other: Connection
) -> None:
    """It goes by the chunks that were there when it began."""
    _jump(small, _covered(small) + 1)
    slow = (
        "insert into gapless.outbox_message_t (topic_id, payload)"
        " select 1, '1' from (select pg_advisory_lock(9) offset 0) s, generate_series(1, 400)"
    )
    small.execute("select pg_advisory_lock(9)")
    with ThreadPoolExecutor(1) as pool:
        rows = pool.submit(other.execute, slow)
        waits = "select from pg_locks where locktype = 'advisory' and not granted"
        while small.execute(waits).fetchone() is None:
            pass
        assert create_chunks(small) > 0
        small.execute("select pg_advisory_unlock(9)")
        assert rows.result().rowcount == 400


def test_an_open_publisher_does_not_hold_up_chunks_nor_they_it(
    small: Connection, other: Connection
) -> None:
    other.execute("begin")
    publish(other, "outbox", 1, event_type="in mid-transaction")
    assert create_chunks(small) > 0
    publish(other, "outbox", 2)
    other.execute("commit")
    assert sequence(small) == 2


def test_a_reader_of_the_default_chunk_makes_it_give_up_soon_and_try_again(
    small: Connection, other: Connection, dsn: str
) -> None:
    """… and whoever publishes meanwhile waits no longer than that."""
    other.execute("begin")
    other.execute("select count(*) from gapless.outbox_message_t")
    _jump(small, _covered(small))
    with connect(dsn, role="publisher") as publisher, ThreadPoolExecutor(1) as pool:
        publisher.execute("set statement_timeout = '5s'")
        attempt = pool.submit(create_chunks, small)
        while not attempt.done():
            publish(publisher, "outbox", 1)
        with pytest.raises(psycopg.errors.LockNotAvailable) as refused:
            attempt.result()
        assert is_transient(refused.value), "the sequencer goes on, and tries again"
    other.execute("commit")
    assert create_chunks(small) > 0
    assert sequence(small) == _in_default(small) > 0


def test_workers_that_handle_what_is_there_do_not_keep_it_in_use(
    small: Connection, dsn: str
) -> None:
    """At no moment all of them are at rest: then what comes would go there, and be held, forever."""
    _jump(small, _covered(small) + 1)
    publish(small, "outbox", 1)
    done = Event()

    def work(first_s: float) -> None:
        with connect(dsn, role="worker") as conn:
            conn.execute("select pg_sleep(%s)", [first_s])
            while not done.is_set():
                with conn.transaction():
                    conn.execute("select from gapless.outbox_message_default")
                    conn.execute("select pg_sleep(0.4)")

    with ThreadPoolExecutor(4) as pool:
        workers = [pool.submit(work, n / 10) for n in range(4)]
        try:
            holders = (
                "select count(*) from pg_locks where mode = 'AccessShareLock'"
                " and relation = 'gapless.outbox_message_default'::regclass"
            )
            while small.execute(holders).fetchone() != (4,):
                pass
            assert create_chunks(small) > 0
        finally:
            done.set()
        assert [worker.result() for worker in workers] == [None] * 4


def test_two_make_chunks_at_once(small: Connection, other: Connection) -> None:
    with small.transaction():
        made = create_chunks(small)
        assert create_chunks(other) == 0
    assert made > 0
    assert create_chunks(other) == 0


def test_the_size_of_chunks_can_be_changed_in_between(small: Connection) -> None:
    create_chunks(small)
    publish(small, "outbox", 1)
    configure_chunks(small, chunk_events=1700, chunks_ahead=3)
    assert create_chunks(small) > 0
    _jump(small, _covered(small) - 1)
    for n in range(3):
        publish(small, "outbox", n)
    assert create_chunks(small) > 0
    assert sequence(small) == 4
    chunks = _chunks(small)
    assert all(
        upto <= following[0] for (_, upto), following in zip(chunks, chunks[1:], strict=False)
    )
