"""Retention is taken in steps: each until nothing is left of it, and none waits for what is locked."""

from typing import Any

import psycopg
import pytest

from features.retention.world import FOR_EVER, World
from gapless.db.connect import connect
from gapless.errors import RefusedError
from gapless.features.retention import chunks as retention
from gapless.features.retention.chunks import (
    HistoryRetention,
    Retention,
    apply_retention,
    find_retention,
    plan_retention,
    set_retention,
)

CLOSED = "select closed_upto from gapless.retention_state"
Taken = list[tuple[str, dict[str, object], Any]]


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Taken:
    """The steps that were taken: name, parameters, and what came of each."""
    steps: Taken = []
    take = retention._try

    def listed(conn: Any, name: str, **params: object) -> Any:
        steps.append((name, params, take(conn, name, **params)))
        return steps[-1][2]

    monkeypatch.setattr(retention, "_try", listed)
    return steps


def names(taken: Taken) -> list[str]:
    return [name for name, _, _ in taken]


ALL = [
    "close_chunks", "drop_chunk", "forget_segments", "empty_default_chunk", "drop_emptied_chunks",
    "turn_dedupe_slots", "purge_history",
]  # fmt: skip


def test_where_nothing_is_to_be_done_each_step_is_tried_once(world: World, taken: Taken) -> None:
    assert apply_retention(world.conn, HistoryRetention(letters_s=5, audit_s=7)) == []
    assert names(taken) == ALL
    said = {name: params for name, params, _ in taken}
    assert said["purge_history"] == {"letters_s": 5, "audit_s": 7}
    assert said["drop_emptied_chunks"] == {"patient": False}


def test_each_step_is_taken_until_nothing_is_left(world: World, taken: Taken) -> None:
    world.history()
    world.expire()
    assert len(apply_retention(world.conn, FOR_EVER)) == 3
    assert [found for name, _, found in taken if name == "close_chunks"] == [3, 0]
    dropped = [found for name, _, found in taken if name == "drop_chunk"]
    assert [bool(each) for each in dropped] == [True, True, True, False]
    forgotten = [found for name, _, found in taken if name == "forget_segments"]
    assert [found > 0 for found in forgotten] == [True, False]
    assert [found for name, _, found in taken if name == "drop_emptied_chunks"] == [3]
    assert list(dict.fromkeys(names(taken))) == ALL


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


def test_emptied_chunks_are_taken_out_with_patience_only_if_they_have_to(
    world: World, taken: Taken
) -> None:
    world.history()
    world.expire()
    with connect(world.dsn, role="publisher") as other:
        with other.transaction():
            other.execute("lock table only gapless.outbox_message_t in row exclusive mode")
            assert len(apply_retention(world.conn, FOR_EVER)) == 3
        tried = [step[1:] for step in taken if step[0] == "drop_emptied_chunks"]
        assert tried == [({"patient": False}, None), ({"patient": True}, None)]
        assert names(taken)[-2:] == ALL[-2:], "the others are taken all the same"
    taken.clear()
    assert apply_retention(world.conn, FOR_EVER) == []
    tried = [step[1:] for step in taken if step[0] == "drop_emptied_chunks"]
    assert tried == [({"patient": False}, 3)]


def test_what_is_locked_is_left_for_the_next_time(world: World) -> None:
    world.history()
    world.expire()
    with connect(world.dsn, role="other") as other, other.transaction():
        other.execute("lock table gapless.retention_state in access exclusive mode")
        world.conn.execute("set lock_timeout = '50ms'")
        assert apply_retention(world.conn, FOR_EVER) == []
    world.conn.execute("set lock_timeout = 0")
    assert len(apply_retention(world.conn, FOR_EVER)) == 3


def test_another_error_than_a_lock_is_raised(world: World) -> None:
    world.conn.execute("begin isolation level repeatable read")
    with pytest.raises(psycopg.Error, match="needs READ COMMITTED"):
        apply_retention(world.conn, FOR_EVER)
    world.conn.execute("rollback")


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
