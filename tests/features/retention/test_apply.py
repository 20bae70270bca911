"""Retention is taken in steps: each until nothing is left of it, and none waits for what is locked."""

import pytest

from features.retention.world import FOR_EVER, World
from gapless.db.connect import connect
from gapless.errors import RefusedError
from gapless.features.retention.chunks import (
    Retention,
    apply_retention,
    find_retention,
    plan_retention,
    set_retention,
)

CLOSED = "select closed_upto from gapless.retention_state"


def test_the_chunks_that_were_dropped_are_named(world: World) -> None:
    world.history()
    world.expire()
    plan = plan_retention(world.conn)
    assert [chunk.goes for chunk in plan[:4]] == [True, True, True, False]
    assert apply_retention(world.conn, FOR_EVER) == [chunk.chunk for chunk in plan[:3]]


def test_a_look_counts_in_what_was_completed(world: World) -> None:
    world.history(1)
    before = world.value(CLOSED)
    (oldest, *_) = plan_retention(world.conn)
    assert world.value(CLOSED) == oldest.upto > before
    assert (oldest.events, oldest.goes, oldest.is_behind) == (8, False, False)
    assert oldest.bytes > 0
    assert oldest.newest is not None


def test_what_is_locked_is_left_for_the_next_time(world: World) -> None:
    world.history()
    world.expire()
    with connect(world.dsn, role="other") as other, other.transaction():
        other.execute("lock table gapless.retention_state in access exclusive mode")
        world.conn.execute("set lock_timeout = '50ms'")
        assert apply_retention(world.conn, FOR_EVER) == []
    world.conn.execute("set lock_timeout = 0")
    assert len(apply_retention(world.conn, FOR_EVER)) == 3


def test_a_topics_retention_is_what_was_said(world: World) -> None:
    world.group()
    world.conn.execute("select gapless.create_topic('other', 1)")
    assert find_retention(world.conn, "orders") == Retention(overrun=[])
    wanted = Retention(keep_s=90.5, overrun=["billing"])
    set_retention(world.conn, "orders", wanted)
    assert find_retention(world.conn, "orders") == wanted
    assert find_retention(world.conn, "other") == Retention(overrun=[])
    set_retention(world.conn, "orders", Retention())
    assert find_retention(world.conn, "orders") == Retention(overrun=[])


def test_a_topic_that_is_not_there_has_none(world: World) -> None:
    for ask in (
        lambda: find_retention(world.conn, "nowhere"),
        lambda: set_retention(world.conn, "nowhere", Retention(keep_s=1)),
    ):
        with pytest.raises(RefusedError) as caught:
            ask()
        assert caught.value.sqlstate == "GL404"
