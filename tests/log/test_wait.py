"""wait_for(): what a group has done with a transaction, and waiting for it."""

import asyncio
import threading
import time

import psycopg
import pytest
from psycopg import AsyncConnection

from gapless.errors import UsageError, WaitError
from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.sequence import sequence
from gapless.log.wait import wait_for
from support.plans import cost
from support.two_partitions import World

OWN_ID = "11111111-2222-3333-4444-555555555555"


def state(world: World, transaction_id: object, group: str = "billing") -> str:
    return str(world.value("select gapless.transaction_state(%s, %s)", group, transaction_id))


@pytest.mark.parametrize("timeout_s", [0, -1, float("nan")])
def test_no_time_is_one_look(world: World, timeout_s: float) -> None:
    with pytest.raises(WaitError, match="no event of it is there"):
        wait_for(world.conn, "billing", OWN_ID, timeout_s)


@pytest.mark.parametrize("own_id", [None, OWN_ID])
def test_all_its_partitions_count(world: World, own_id: str | None) -> None:
    events = [NewEvent(payload=1, key=key, transaction_id=own_id) for key in world.keys.values()]
    publish(world.conn, "orders", 0, key=world.keys[0])
    told = publish(world.conn, "orders", events)
    transaction_id = own_id or told
    assert state(world, transaction_id) == "unsequenced"
    sequence(world.conn)
    assert state(world, transaction_id) == "pending"
    world.conn.execute("select gapless.seek('billing', 'orders', 0, to_end => 'latest')")
    assert state(world, transaction_id) == "pending"
    world.conn.execute("select gapless.seek('billing', 'orders', 1, to_end => 'latest')")
    assert state(world, transaction_id) == "skipped", "nobody has handled it"
    with pytest.raises(WaitError, match="passed it without a call") as caught:
        wait_for(world.conn, "billing", transaction_id, 30)
    assert caught.value.state == "skipped"
    world.conn.execute("select gapless.seek('billing', 'orders', 1, to_end => 'earliest')")
    assert state(world, transaction_id) == "pending"
    world.drain()
    assert state(world, transaction_id) == "skipped", "of partition 0"
    world.conn.execute("select gapless.seek('billing', to_end => 'earliest')")
    world.drain()
    assert state(world, transaction_id) == "handled"


def test_what_is_dead_waits_or_was_mended(world: World) -> None:
    first, second = world.publish(payload="refuse"), world.publish()
    world.drain()
    assert (state(world, first), state(world, second)) == ("dead", "handled")
    world.conn.execute("select gapless.redrive_letter('billing', 'orders', 0, 1)")
    assert state(world, first) == "waiting"
    world.conn.execute("select gapless.discard_letter('billing', 'orders', 0, 1, 'known')")
    assert state(world, first) == "dead"


def test_what_was_never_published(world: World, dsn: str) -> None:
    assert state(world, OWN_ID) == "unknown"
    with psycopg.connect(dsn) as other:
        told = publish(other, "orders", 1)
        assert state(world, told) == "open"
        other.rollback()
        assert state(world, told) == "rolled-back"
        with pytest.raises(WaitError, match="it was rolled back") as caught:
            wait_for(world.conn, "billing", told, 30)
        assert caught.value.state == "rolled-back"
    far = world.value("select gapless.transaction_uuid('4000000000')")
    assert state(world, far) == "unknown"
    nothing = world.value("select gapless.transaction_uuid(pg_current_xact_id())")
    assert state(world, nothing) == "unknown"


def test_not_inside_the_publishing_transaction(world: World, dsn: str) -> None:
    with psycopg.connect(dsn) as other:
        told = publish(other, "orders", 1)
        with pytest.raises(UsageError, match="commit first"):
            wait_for(other, "billing", told)
        other.rollback()
        other.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        with pytest.raises(UsageError, match="needs READ COMMITTED, not REPEATABLE READ"):
            wait_for(other, "billing", told)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_it_returns_when_it_is_handled(world: World, dsn: str, kind: str) -> None:
    """Also of a connection that is in a transaction of its own, and has rows of another kind."""
    told = world.publish()

    def later() -> None:
        time.sleep(0.3)
        world.drain()

    thread = threading.Thread(target=later)
    thread.start()
    try:
        if kind == "sync":
            with psycopg.connect(dsn, row_factory=psycopg.rows.dict_row) as conn:
                conn.execute("select 1")
                assert wait_for(conn, "billing", told, 30) == "handled"
        else:
            assert asyncio.run(_waits(dsn, str(told))) == "handled"
    finally:
        thread.join()


async def _waits(dsn: str, transaction_id: str) -> str:
    async with await AsyncConnection.connect(dsn) as conn:
        return await wait_for(conn, "billing", transaction_id, 30)


def test_it_is_found_by_index(world: World) -> None:
    """In a log of some thousand events, that was never analysed."""
    for _ in range(20):
        publish(world.conn, "orders", [NewEvent(payload=1, key=f"k{n}") for n in range(300)])
        sequence(world.conn)
    first = world.value("select transaction_id from gapless.read('orders', 0, 1, 1)")
    told = publish(world.conn, "orders", 1, key="a", transaction_id=OWN_ID)
    sequence(world.conn)
    for transaction_id, most in ((told, 10), (first, 2000)):
        with cost(world.conn) as measured:
            state(world, transaction_id)
        assert measured.scanned == {}
        assert measured.events_looked_up <= most


def test_events_whose_topic_had_other_partitions(world: World) -> None:
    """Their key leads elsewhere now: they are found all the same."""
    told = world.publish(1)
    world.conn.execute(
        "update gapless.topic set partitions = 1, partitions_ever = 2 where name = 'orders'"
    )
    rows = world.conn.execute("select partition_id, first_offset from gapless.locate(%s)", [told])
    assert rows.fetchall() == [(1, 1)]


def test_an_xid_that_a_failover_has_given_again(world: World) -> None:
    """What has it now, on another timeline, is not what was asked for, wherever its key leads."""
    told = world.publish(1)
    assert state(world, told) == "pending"
    world.conn.execute("update gapless.log_segment set timeline = 2")
    assert state(world, told) == "unknown"
    world.conn.execute(
        "update gapless.topic set partitions = 1, partitions_ever = 2 where name = 'orders'"
    )
    assert state(world, told) == "unknown"


def test_an_id_that_was_given_by_hand_is_of_any_timeline(world: World) -> None:
    """Republished as it was: it looks like an xid of another timeline, and is none."""
    id_ = "00000007-0000-8000-8000-000000000abc"
    publish(world.conn, "orders", 1, key=world.keys[0], transaction_id=id_)
    assert state(world, id_) == "unsequenced"
    sequence(world.conn)
    assert state(world, id_) == "pending"
