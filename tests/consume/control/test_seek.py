"""gapless.seek(): where to, what is refused, what happens to letters, and to a worker at work."""

from dataclasses import replace
from typing import Any

import psycopg
import pytest
from psycopg.rows import tuple_row

from gapless.consume.user.handler import handler
from gapless.db.connect import connect
from gapless.log.sequence import sequence
from gapless.log.topics import require_topic
from support.group import owner
from support.turn import one_step
from support.two_partitions import World


def seek(world: World, **to: object) -> list[tuple[Any, ...]]:
    words = ", ".join(f"{name} => %({name})s" for name in to)
    with world.conn.cursor(row_factory=tuple_row) as cursor:
        return cursor.execute(
            f"select partition_no, next_offset, new_offset, again, skipped"
            f" from gapless.seek('billing', {words})",
            to,
        ).fetchall()


@pytest.mark.long
def test_to_an_offset_never_cuts_a_unit(world: World) -> None:
    """I5, also for a unit that spans segments of 200."""
    world.publish()
    world.publish(events=450)
    world.publish()
    world.drain()
    for offset, start in (
        (1, 1),
        (2, 2),
        (3, 2),
        (201, 2),
        (402, 2),
        (451, 2),
        (452, 452),
        (453, 453),
    ):
        assert seek(world, to_offset=offset, partition_id=0)[0][2] == start


def test_to_a_time(world: World) -> None:
    """The first event published then or later, in every partition by itself."""
    for _ in range(5):
        world.publish(0)
        world.publish(1)
    world.drain()
    for c_offset in range(1, 6):
        at = world.value(
            "select created_ts from gapless.read('orders', 0, %s, %s)", c_offset, c_offset
        )
        assert seek(world, to_time=at)[0][2] == c_offset
    assert seek(world, to_time=world.value("select now()"))[0][2] == 6
    assert seek(world, to_time="2020-01-01Z")[1][2] == 1


def test_a_late_commit_is_found_by_its_time(world: World, dsn: str) -> None:
    """It was published before the others and sequenced after them: its own time counts."""
    with psycopg.connect(dsn) as late:
        late.execute("select gapless.publish('orders', '1', %s)", [world.keys[0]])
        before = world.value("select clock_timestamp()")
        world.publish()
        late.commit()
    world.publish()
    world.drain()
    assert seek(world, to_time="2020-01-01Z", partition_id=0)[0][2] == 1
    assert seek(world, to_time=before, partition_id=0)[0][2] == 1
    last = world.value("select created_ts from gapless.read('orders', 0, 3, 3)")
    assert seek(world, to_time=last, partition_id=0)[0][2] == 3


def test_letters_of_what_is_handled_again_are_gone(world: World) -> None:
    """I9: nothing is both handled and dead; letters before the place stay."""
    for payload in ("refuse", 1, "refuse", 2):
        world.publish(payload=payload)
    assert world.drain().dead == 2
    assert world.letters() == [(0, 1, "dead"), (0, 3, "dead")]
    world.conn.execute("select gapless.discard_letter('billing', 'orders', 0, 3, 'known')")
    plan = world.conn.execute(
        "select letters from gapless.seek_plan('billing', to_offset => 2, partition_id => 0)"
    ).fetchall()
    assert plan == [(1,)]
    seek(world, to_offset=2, partition_id=0)
    assert world.letters() == [(0, 1, "dead")]
    assert world.value("select count(*) from gapless.dead_letter_event") == 1
    detail = world.value("select detail from gapless.audit where action = 'seek'")
    assert detail["letters"]["discarded"] == 1
    assert detail["letters"]["discards"][0]["reason"] == "known"
    assert (detail["from"], detail["to"]) == (5, 2)
    assert world.drain().dead == 1
    assert world.handled() == [2, 4, 2, 4]


def test_refused_while_a_worker_owns_the_partition(world: World) -> None:
    world.publish()
    with owner(world.dsn, "billing", require_topic(world.conn, "orders")) as held:
        assert held.consume() == ["None"]
        state, text = world.refused("select * from gapless.seek('billing', to_end => 'earliest')")
        assert state == "GL423"
        assert text.startswith("a worker owns billing/orders/0: pause the group first")
    assert world.next_offsets() == [2, 1]
    assert seek(world, to_end="earliest") == [(0, 2, 1, 1, 0), (1, 1, 1, 0, 0)]


def test_a_former_owner_cannot_commit_at_the_old_place(world: World) -> None:
    """I7: its lock is gone (a pooler, a lost session that was not), its fence is still the newest."""
    world.publish()
    world.publish()

    @handler(topic="orders", group="billing")
    def nothing(unit: object, conn: object) -> None:
        pass

    with owner(world.dsn, "billing", require_topic(world.conn, "orders")) as held:
        first = held.assignments[0]
        assert one_step(held.conn, first, nothing, batch_size=1).outcome == "done"
        held.conn.execute("select pg_advisory_unlock_all()")
        seek(world, to_end="earliest", partition_id=0)
        assert one_step(held.conn, first, nothing).outcome == "fenced"
    assert world.next_offsets() == [1, 1]


def test_all_or_nothing(world: World, dsn: str) -> None:
    """A partition that cannot go there keeps all others where they are."""
    world.publish(0)
    world.publish(0)
    world.drain()
    assert world.refused("select * from gapless.seek('billing', to_offset => 2)")[0] == "GL400"
    assert world.next_offsets() == [3, 1]
    with connect(dsn, role="test") as other, pytest.raises(ZeroDivisionError), other.transaction():
        other.execute("select gapless.seek('billing', to_end => 'earliest')")
        raise ZeroDivisionError
    assert world.next_offsets() == [3, 1]


@pytest.mark.long
def test_a_retired_partition_comes_back(world: World) -> None:
    """Its topic has fewer partitions now: what it had is handled again, and before what followed."""
    world.publish(1)
    world.drain()
    world.conn.execute("select gapless.set_partitions('orders', 1)")
    sequence(world.conn)
    world.publish(1)
    world.drain()
    with owner(world.dsn, "billing", replace(require_topic(world.conn, "orders"), partitions=1)):
        pass
    retired = "select array_agg(partition_id order by 1) from gapless.lease"
    assert world.value(retired) == [0]
    seek(world, to_end="earliest")
    assert world.value(retired) == [0, 1]
    assert world.value("select array_agg(passed) from gapless.consumer_offsets") == [0, 0]
    world.conn.execute("truncate handled")
    world.drain()
    world.drain()
    rows = world.conn.execute("select partition_id, c_offset from handled order by n").fetchall()
    assert rows == [(1, 1), (0, 1)]
