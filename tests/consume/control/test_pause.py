"""gapless.pause() and resume(): what is claimed, taken, planned; whose pause is whose."""

import pytest
from psycopg import Connection

from gapless.consume.user.handler import handler
from gapless.lease import hold
from gapless.log.topics import Topic, require_topic
from support.cast import Cast
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


def test_no_letter_is_tried_again_meanwhile(world: World) -> None:
    world.publish(payload="refuse")
    world.drain()
    with owner(world.dsn, "billing", require_topic(world.conn, "orders")) as held:
        world.conn.execute("select gapless.redrive_letter('billing', 'orders', 0, 1)")
        due = "select count(*) from gapless.letters_due('billing', %s, 0)"
        topic_id = require_topic(world.conn, "orders").topic_id
        assert world.value(due, topic_id) == 1
        world.conn.execute("select gapless.pause('billing')")
        assert world.value(due, topic_id) == 0
        params = [*held.assignments[0].params.values(), 1]
        names = "%s, %s, %s, %s, %s, %s"
        assert world.value(f"select gapless.record_try({names})", *params) == 0
        world.conn.execute("select gapless.resume('billing')")
        assert world.value(f"select gapless.record_try({names})", *params) == 1


def test_a_paused_partition_cannot_be_taken(dsn: str, conn: Connection, topic: Topic) -> None:
    with Cast(dsn, conn, topic).closing() as cast:
        member = cast.member()
        member.sync()
        session = cast.session("worker")
        assert hold.lock(session, cast.lease_no(0))
        conn.execute("select gapless.pause('g')")
        assert [lease.is_paused for lease in member.leases()] == [True] * 4
        assert hold.take(session, cast.partition(0), member.member_id) is None
        conn.execute("select gapless.resume('g')")
        assert hold.take(session, cast.partition(0), member.member_id) is not None
