"""What was set aside, when the number of partitions changes: nobody is forgotten."""

from collections.abc import Iterator

import pytest

from gapless.consume.verdict.policy import Policy
from gapless.log.event import NewEvent
from support.world import Group, World

LEASES = "select partition_id from gapless.lease where group_id = %s order by 1"


@pytest.fixture
def two(world: World) -> World:
    world.conn.execute("select gapless.set_partitions(%s, 2)", [world.topic.name])
    return world


@pytest.fixture
def last(two: World) -> Iterator[Group]:
    """A group that works on partition 1 of 2."""
    made = two.group(1)
    yield made
    made.conn.close()


def _key(world: World) -> str:
    names = (f"k{n}" for n in range(100))
    return next(k for k in names if world.value("select gapless.partition_of(%s, 2)", k) == 1)


def test_a_partition_is_not_retired_while_something_waits_in_it(two: World, last: Group) -> None:
    two.events([NewEvent(payload={}, key=_key(two))])
    last.failing = {1}
    last.drive(policy=Policy(on_failure="retry", retry_delays_s=(3600,)))
    assert last.states() == {1: "waiting"}
    two.conn.execute("select gapless.set_partitions(%s, 1)", [two.topic.name])
    retire = "select gapless.retire(%s, %s)"
    assert two.value(retire, last.name, two.topic.topic_id) == 0
    two.conn.execute("update gapless.dead_letter set next_attempt_ts = now()")
    last.drive()
    assert last.states() == {1: "dead"}
    assert two.value(retire, last.name, two.topic.topic_id) == 1
    assert two.rows(LEASES, last.name) == [(0,)]

    redrive = "select gapless.redrive_letter(%s, %s, 1, 1)"
    assert two.value(redrive, last.name, two.topic.name) == "asked"
    assert two.rows(LEASES, last.name) == [(0,), (1,)], "it is back: somebody must do it"
    assert two.value(retire, last.name, two.topic.topic_id) == 0
