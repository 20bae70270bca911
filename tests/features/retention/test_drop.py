"""Chunks that nobody needs are dropped, whole, oldest first; and nothing else is."""

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg import Connection

from features.retention.world import FOR_EVER, World
from gapless.db.connect import connect
from gapless.features.retention.chunks import (
    Retention,
    apply_retention,
    plan_retention,
    set_retention,
)
from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.sequence import sequence
from gapless.log.topics import adopt_topic, discard_unrouted
from gapless.status import snapshot


def test_status_says_for_how_long_a_group_holds_the_oldest_chunk(world: World) -> None:
    world.history(1)
    world.group()
    world.expire()
    assert world.apply() == 0
    world.conn.execute("update gapless.chunk_end set newest_ts = newest_ts - interval '5 min'")
    (held,) = snapshot(world.conn).held
    assert "group billing has yet to handle 8 events" in held.reason
    assert 300 <= (held.since_s or 0) < 400


@pytest.mark.long
def test_what_is_old_enough_goes_whole_and_frees_its_room(world: World) -> None:
    world.history()
    before = world.chunks()
    world.expire()
    assert world.apply() == 3
    assert world.ends() == [(13, 16), (13, 13)]
    assert world.value("select count(*) from gapless.outbox_message_t") == 3
    assert world.chunks() == before - 3
    assert world.value("select count(*) from gapless.log_segment where last_offset < 12") == 0
    assert world.value("select count(*) from gapless.chunk_end") == 0


def test_a_partition_that_is_emptied_goes_on_with_its_next_offset(world: World) -> None:
    world.history()
    world.expire()
    world.apply()
    world.publish(1)
    assert world.ends() == [(13, 16), (13, 14)], "I3: partition 1 was empty"
    rows = world.conn.execute("select c_offset from gapless.read('orders', 1, 1)").fetchall()
    assert rows == [(13,)]


@pytest.mark.parametrize("adopted", [True, False], ids=["adopted", "given up"])
def test_events_of_an_id_that_nobody_made_keep_their_chunk(world: World, adopted: bool) -> None:
    """And when they have their offsets at last, they are kept as their topic wants it."""
    world.publish()
    world.conn.execute(
        "insert into gapless.outbox_message_t (topic_id, key, payload) values (77, 'k', '1')"
    )
    world.next_chunk()
    world.history(2)
    world.expire()
    assert world.apply() == 0
    assert world.reasons() == [
        "it has events of topic id 77 that nobody made: gapless topics adopt, or gapless topics discard"
    ]
    if not adopted:
        assert discard_unrouted(world.conn, 77) == 1
        assert world.apply() == 3
        return
    adopt_topic(world.conn, 77, "late", partitions=1)
    assert sequence(world.conn) == 1
    assert world.apply() == 0
    assert world.reasons() == ["topic late keeps its events forever: it has no retention"]
    set_retention(world.conn, "late", Retention(keep_s=0.000_001))
    world.conn.execute("select gapless.create_group('g', 'late', 'earliest')")
    assert world.apply() == 0
    assert world.reasons()[0].startswith("group g has yet to handle 1 events of late")
    world.conn.execute("select gapless.drop_group('g')")
    assert world.apply() == 3


@pytest.mark.long
def test_a_transaction_from_before_a_restore_keeps_its_chunk(world: World, dsn: str) -> None:
    """Its events have ids below all that are done with, and no offsets yet."""
    with psycopg.connect(dsn) as late:
        world.publish(events=4)
        publish(late, "orders", NewEvent(payload="late", key=world.keys[0]))
        # As in another cluster: the next run counts every event anew, but those of open transactions.
        world.conn.execute("update gapless.sequencer set system_identifier = system_identifier + 1")
        world.publish(events=4)
        world.next_chunk()
        world.publish(events=2)
        world.expire()
        assert world.apply() == 0
        assert world.reasons() == [
            "it is in use: a transaction is open that began before the log was restored"
        ]
        late.commit()
    sequence(world.conn)
    sequence(world.conn)
    rows = world.conn.execute(
        "select c_offset, payload #>> '{}' from gapless.read('orders', 0, 1, 100)"
    ).fetchall()
    assert [offset for offset, _ in rows] == list(range(1, 12))
    assert rows[-1] == (11, "late")
    world.next_chunk()
    world.publish()
    assert world.apply() > 0


@pytest.mark.long
def test_the_chunk_in_use_stays(world: World, dsn: str) -> None:
    """An open transaction has ids in the oldest chunk: nobody knows its events yet (I1)."""
    with connect(dsn, role="publisher") as slow:
        slow.execute("begin")
        publish(slow, "orders", NewEvent(payload="late", key=world.keys[0]))
        world.history()
        world.expire()
        assert world.apply() == 0
        assert world.reasons() == ["it is in use: a transaction is open that may have events in it"]
        slow.execute("commit")
    world.publish(0, events=2)
    # The late event came after all others: they go with it, none is younger than it is.
    assert (
        world.value(
            "select c_offset from gapless.read('orders', 0) where payload::text like '%%late%%'"
        )
        == 16
    )
    world.publish(0, events=2)
    assert world.apply() == 3
    assert world.ends()[0] == (17, 21)


def test_a_unit_is_never_cut(world: World, dsn: str) -> None:
    """Its first event is in the chunk that goes, its last in one that stays (I5)."""
    publisher = connect(dsn, role="publisher")
    with publisher, publisher.transaction():
        publish(publisher, "orders", NewEvent(payload="a", key=world.keys[0]))
        world.publish(0)
        world.next_chunk()
        publish(publisher, "orders", NewEvent(payload="b", key=world.keys[0]))
    world.publish(0, events=3)
    world.expire()
    assert world.apply() == 1
    assert world.ends()[0] == (4, 7), "offsets 2 and 3 are the unit"
    assert world.value("select array_agg(id order by id) from gapless.outbox_message_t") == [
        1000,
        1001,
        1002,
        1003,
    ], "the rest of the unit is there, and nobody can read it"
    rows = world.conn.execute("select c_offset from gapless.read('orders', 0)").fetchall()
    assert rows == [(4,), (5,), (6,)]


@pytest.mark.long
def test_an_open_transaction_that_reads_the_log_stops_no_publisher(world: World, dsn: str) -> None:
    """It has the table locked: the room is freed all the same, the empty tables go later."""
    world.history()
    world.expire()
    before = world.chunks()
    with connect(dsn, role="publisher") as idle, connect(dsn, role="publisher") as other:
        idle.execute("begin")
        publish(idle, "orders", NewEvent(payload="open", key=world.keys[0]))
        other.execute("set lock_timeout = '1s'")
        assert world.apply() == 3
        publish(other, "orders", NewEvent(payload="y", key=world.keys[0]))
        assert world.chunks() == before
        assert world.value("select count(*) from gapless.outbox_message_t where id < 1000") == 0
        idle.execute("commit")
    assert world.apply() == 0
    assert world.chunks() == before - 3
    assert sequence(world.conn) == 2


@pytest.mark.long
def test_a_reader_of_the_chunk_is_not_disturbed(world: World, dsn: str) -> None:
    world.history()
    world.expire()
    with connect(dsn, role="reader") as reader:
        reader.execute("begin")
        reader.execute("select count(*) from gapless.outbox_message_t")
        assert world.apply() == 0
        row = reader.execute("select count(*) from gapless.outbox_message_t").fetchone()
        assert row == (27,)
        reader.execute("commit")
    assert world.apply() == 3


def test_the_default_chunk_is_emptied_once_all_in_it_is_dropped(world: World, dsn: str) -> None:
    world.publish(0, events=3)
    world.conn.execute(
        "select setval('gapless.outbox_message_id_seq', max(upto) + 10, false) from gapless.chunk"
    )
    world.publish(0, events=2)
    assert world.value("select count(*) from gapless.outbox_message_default") == 2
    world.next_chunk()
    world.publish(0, events=2)
    world.next_chunk()
    world.publish(0, events=3)
    world.expire()
    with connect(dsn, role="publisher") as late:
        assert world.apply() > 0
        assert world.value("select count(*) from gapless.outbox_message_default") == 0
        assert world.ends()[0] == (8, 11)
        late.execute("select 1")


def test_an_event_that_outlives_its_offset_is_not_sequenced_again(world: World, dsn: str) -> None:
    """After a restore, what stands in no segment has no offset yet: no segment may go too soon."""
    publisher = connect(dsn, role="publisher")
    with publisher, publisher.transaction():
        publish(publisher, "orders", NewEvent(payload="a", key=world.keys[0]))
        world.next_chunk()
        world.publish(0, events=3)
    world.publish(0, events=3)
    world.expire()
    assert world.apply() == 1
    assert world.ends()[0] == (5, 8)
    assert world.value("select count(*) from gapless.outbox_message_t") == 6, (
        "three are unreachable"
    )
    world.conn.execute("update gapless.sequencer set system_identifier = 1")
    assert sequence(world.conn) == 0
    assert world.ends()[0] == (5, 8)


@pytest.mark.long
def test_two_at_once_drop_a_chunk_once(world: World, dsn: str) -> None:
    world.history()
    world.expire()
    plan_retention(world.conn)
    with connect(dsn, role="other") as other:
        with world.conn.transaction():
            assert world.value("select gapless.drop_chunk()") is not None
            assert apply_retention(other, FOR_EVER) == []
        assert len(apply_retention(other, FOR_EVER)) == 2
    assert world.ends() == [(13, 16), (13, 13)]


def test_repeatable_read_is_refused(world: World) -> None:
    world.conn.execute("begin isolation level repeatable read")
    with pytest.raises(psycopg.Error, match="needs READ COMMITTED"):
        world.conn.execute("select gapless.drop_chunk()")
    world.conn.execute("rollback")


@pytest.mark.long
def test_a_group_put_back_meanwhile_keeps_the_chunk(
    world: World, dsn: str, conn: Connection
) -> None:
    """It looked where the log begins, and has not committed: the chunk MUST wait for it (I1)."""
    world.group()
    world.history()
    world.drain()
    world.expire()
    plan_retention(world.conn)
    with connect(dsn, role="seek") as seeker:
        with seeker.transaction():
            seeker.execute("select from gapless.seek('billing', to_end => 'earliest')")
            assert apply_retention(conn, FOR_EVER) == []
        assert apply_retention(conn, FOR_EVER) == []
        with seeker.transaction():
            seeker.execute("select from gapless.create_group('new', 'orders')")
            world.drain()
            assert apply_retention(conn, FOR_EVER) == []
    assert world.reasons()[0].startswith("group new has yet to handle")


@pytest.mark.long
def test_who_waited_for_a_seek_looks_again(world: World, dsn: str) -> None:
    """It saw that nobody needs the chunk, and got its locks when that was true no more."""
    world.group()
    world.history()
    world.drain()
    world.expire()
    plan_retention(world.conn)
    waits = "select exists (select from pg_locks where not granted and pid = %s)"
    with connect(dsn, role="retention") as dropper, ThreadPoolExecutor(1) as pool:
        while True:  # its wait ends by itself after 100 ms: then once more
            seeker = connect(dsn, role="seek")
            seeker.execute("begin")
            seeker.execute("select from gapless.seek('billing', to_end => 'earliest')")
            attempt = pool.submit(dropper.execute, "select gapless.drop_chunk()")
            while not attempt.done() and not world.value(waits, dropper.info.backend_pid):
                pass
            if not attempt.done():
                seeker.execute("commit")
            seeker.close()
            if attempt.exception() is None:
                break
            assert isinstance(attempt.exception(), psycopg.errors.LockNotAvailable)
            world.until_nobody_works()
            world.conn.execute("select from gapless.seek('billing', to_end => 'latest')")
        assert attempt.result().fetchone() == (None,)
    assert world.ends()[0] == (1, 16)
