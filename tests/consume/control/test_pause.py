"""gapless.pause() and resume(): nothing of what is paused is claimed, by any driver of the step."""

import pytest

from gapless.consume.user.handler import handler
from gapless.log.topics import require_topic
from support.group import owner
from support.turn import one_step, one_step_alone
from support.two_partitions import World


@handler(topic="orders", group="billing")
def nothing(unit: object, conn: object) -> None:
    pass


def test_nothing_is_claimed_whoever_drives_the_step(world: World) -> None:
    world.publish(0)
    world.publish(1)
    with owner(world.dsn, "billing", require_topic(world.conn, "orders")) as held:
        world.conn.execute("select gapless.pause('billing', 'orders', 0)")
        done = [one_step(held.conn, each, nothing).outcome for each in held.assignments]
        assert done == ["idle", "done"]
        world.conn.execute("select gapless.resume('billing')")
        assert one_step(held.conn, held.assignments[0], nothing).outcome == "done"


@pytest.mark.parametrize("scope", ["'billing'", "'billing', 'orders'", "'billing', 'orders', 0"])
def test_a_pause_of_the_whole_stops_each_part(world: World, scope: str) -> None:
    world.publish(0)
    with owner(world.dsn, "billing", require_topic(world.conn, "orders")) as held:
        world.conn.execute(f"select gapless.pause({scope})")
        for step in (one_step, one_step_alone):
            assert step(held.conn, held.assignments[0], nothing).outcome == "idle"
        assert world.next_offsets() == [1, 1]
        world.conn.execute(f"select gapless.resume({scope})")
        assert one_step(held.conn, held.assignments[0], nothing).outcome == "done"
