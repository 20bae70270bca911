"""Who waits for something of a queue group to come back is told so, once for each partition, when that is committed."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gapless.db.connect import connect
from support.twins import Twins

LOOKS = 20  # so often a session asks for something, that what is told to it comes with the answer
Told = list[tuple[str, str]]
RESERVE = "select receipt from gapless.reserve('told', %s, %s, 2, '1 h', %s)"


@pytest.fixture(scope="module")
def ears(shared: Twins, module_dsn: str) -> Iterator[Callable[[int], Told]]:
    """Call it for what was told since, in order, once there is so much of it."""
    heard: Told = []
    with connect(module_dsn, role="test") as conn:
        conn.add_notify_handler(lambda each: heard.append((each.channel, each.payload)))
        for topic_id in shared.topic_ids.values():
            for partition in range(3):
                conn.execute(f"listen gapless_p_{topic_id}_{partition}")

        def listen(least: int) -> Told:
            for _ in range(LOOKS):
                conn.execute("select 1")
                if len(heard) >= least:
                    break
            conn.execute("select 1")
            said = sorted(heard)
            heard.clear()
            return said

        yield listen


@pytest.fixture
def world(shared: Twins, ears: Callable[[int], Told]) -> Iterator[Twins]:
    """With a group of its own, whose rows go at the end: what is told is told at COMMIT alone."""
    shared.conn.execute(
        "select gapless.create_group('told', t, mode => 'queue', block => 4) from unnest('{orders,other}'::text[]) t"
    )
    ears(0)
    yield shared
    shared.conn.execute("select gapless.drop_group('told')")


def channel(world: Twins, partition: int, topic: str = "orders") -> tuple[str, str]:
    return (f"gapless_p_{world.topic_ids[topic]}_{partition}", "letter")


def reserve(world: Twins, partition: int, worker: str = "ann", topic: str = "orders") -> str:
    rows = world.conn.execute(RESERVE, [world.topic_ids[topic], partition, worker]).fetchall()
    return str(rows[0][0])


def test_what_is_given_back(world: Twins, ears: Callable[[int], Told]) -> None:
    receipt = reserve(world, 1)
    assert ears(0) == []
    world.conn.execute("select gapless.release('told', 'orders', %s)", [receipt])
    assert ears(1) == [channel(world, 1)]
    receipt = reserve(world, 2)
    world.conn.execute("select gapless.release_receipt(%s, 2)", [receipt])
    assert ears(1) == [channel(world, 2)]


def test_what_a_dead_worker_had(world: Twins, ears: Callable[[int], Told]) -> None:
    """Each partition once, whatever it had there."""
    for partition, worker in ((0, "ann"), (0, "ann"), (1, "ann"), (2, "bob")):
        reserve(world, partition, worker)
    reserve(world, 1, "ann", "other")
    letter = reserve(world, 2, "bob")
    world.conn.execute("select gapless.release('told', 'orders', %s, delay => '1 h')", [letter])
    world.conn.execute(
        "update gapless.dead_letter set token = gen_random_uuid(), worker = 'ann' where group_id = 'told'"
    )
    ears(0)
    said: Any = world.value("select gapless.end_holder('ann')")
    assert said == 6
    assert ears(4) == sorted(
        [channel(world, 0), channel(world, 1), channel(world, 2), channel(world, 1, "other")]
    )
    assert world.value("select gapless.end_holder('ann')") == 0
    assert ears(0) == []


def test_a_range_that_a_dead_worker_took(world: Twins, ears: Callable[[int], Told]) -> None:
    lease = world.value(
        "select lease_no from gapless.lease where group_id = 'told' and partition_id = 2 and topic_id = %s",
        world.topic_ids["orders"],
    )
    assert world.value("select gapless.note_death(%s, 1, 2, 'ann')", lease) == "noted"
    assert ears(1) == [channel(world, 2)]
    world.conn.execute(
        "update gapless.queue_range set deadline = null where lease_no = %s", [lease]
    )
    assert world.value("select gapless.note_death(%s, 1, 2, 'ann')", lease) == "done"
    assert ears(0) == []


def test_what_a_worker_began_ends_with_its_transaction(world: Twins) -> None:
    """What its session publishes afterwards was caused by nothing that it handled."""
    chain = "select coalesce(current_setting('gapless.chain', true), '')"
    world.conn.execute("select set_config('gapless.chain', '', false)")
    receipt = reserve(world, 1)
    try:
        with world.conn.transaction():
            xid = world.value("select gapless.begin_receipt(%s)", receipt)
            assert world.value(chain) == "open"
            world.value("select gapless.finish_units(%s, 1)", xid)
        assert world.value(chain) == ""
    finally:
        world.conn.execute("select set_config('gapless.chain', '', false)")
