"""Groups and topics: the records, what the commands print of them, what is refused."""

from dataclasses import replace
from secrets import token_hex

import psycopg
import pytest
from psycopg import Connection

from gapless import ops
from gapless.errors import RefusedError, UsageError
from gapless.log.publish import publish
from gapless.log.sequence import sequence
from gapless.log.topics import ensure_topic
from gapless.ops import GroupPlace, Point
from support.records import Command, known


def test_list_and_show_groups(conn: Connection, orders: None, command: Command) -> None:
    (group,) = ops.list_groups(conn)
    assert (group.group, group.topic, group.state, group.lag) == ("billing", "orders", "Empty", 10)
    assert known([group]) == command("groups")
    found = ops.show_group(conn, GroupPlace.parse("billing/orders"))
    assert known(found) == command("groups", "show", "billing")
    assert (found[0].current_offset, found[0].log_end_offset) == (1, 11)


def test_create_a_group(conn: Connection, orders: None) -> None:
    made = ops.create_group(conn, "late", "orders", start=Point(offset=4))
    assert (made.created, made.start) == (True, Point(offset=4))
    again = ops.create_group(conn, "late", "orders")
    assert (again.created, again.start) == (False, None)
    (partition,) = ops.show_group(conn, GroupPlace(group="late"))
    assert partition.current_offset == 4


def test_a_group_that_cannot_be_is_not_half_made(conn: Connection, orders: None) -> None:
    with pytest.raises(UsageError, match='"a b" is not a group name'):
        ops.create_group(conn, "a b", "orders")
    with pytest.raises(UsageError, match='topic "order" does not exist; did you mean'):
        ops.create_group(conn, "late", "order")
    with pytest.raises(RefusedError, match="beyond the end"):
        ops.create_group(conn, "late", "orders", start=Point(offset=99))
    assert [group.group for group in ops.list_groups(conn)] == ["billing"]


def test_remove_a_group(conn: Connection, refused: None, command: Command) -> None:
    plan = ops.remove_group(conn, "billing", dry_run=True)
    assert (plan.topics, plan.dead_letters, plan.removed) == (["orders"], 2, False)
    assert known(plan) == command("groups", "remove", "billing")
    assert ops.remove_group(conn, "billing") == replace(plan, removed=True)
    assert ops.list_groups(conn) == []
    with pytest.raises(RefusedError, match='there is no group "billing"'):
        ops.remove_group(conn, "billing")


def test_list_and_show_topics(conn: Connection, orders: None, command: Command) -> None:
    (topic,) = ops.list_topics(conn)
    assert (topic.topic, topic.partitions, topic.events, topic.groups) == ("orders", 1, 10, 1)
    assert known([topic]) == command("topics")
    assert known(ops.show_topic(conn, "orders")) == command("topics", "show", "orders")
    with pytest.raises(RefusedError, match='topic "x" does not exist') as caught:
        ops.show_topic(conn, "x")
    assert caught.value.sqlstate == "GL404"
    with pytest.raises(RefusedError, match="1 to 4096"):
        ops.alter_topic(conn, "orders", partitions=5000)


def test_the_size_of_a_topic_is_estimated_by_its_newest_events(conn: Connection) -> None:
    """Topics share the chunks; each has its own part of them. A payload counts as it is stored."""
    sizes = {"small": 10, "large": 3_000, "none": 0}
    for name, characters in sizes.items():
        ensure_topic(conn, name, partitions=3)
        for n in range(60 if characters else 0):
            publish(conn, name, {"n": n, "text": token_hex(characters // 2)})
    sequence(conn)
    found = {name: sum(each.about_bytes for each in ops.show_topic(conn, name)) for name in sizes}
    assert found["none"] == 0
    for name in ("small", "large"):
        events = 60 * sizes[name]
        assert events < found[name] < events + 60 * 150, name


def test_alter_a_topic(conn: Connection, orders: None, command: Command) -> None:
    kept = replace(ops.find_retention(conn, "orders"), keep_s=3600, overrun=["billing"])
    done = ops.alter_topic(conn, "orders", partitions=4, retention=kept, dedupe_window_s=600)
    assert (done.partitions_before, done.partitions, done.retention) == (1, 4, kept)
    (change,) = done.changes
    assert (change.group, change.unfinished, change.events) == ("billing", [0], 10)
    assert ops.list_changes(conn) == [change]
    assert ops.list_changes(conn, "other") == []
    assert command("topics", "alter", "orders", "--dedupe-window", "10m") == {
        "topic": "orders",
        "dedupe_window_s": 600,
    }


def test_alter_nothing(conn: Connection, orders: None, dsn: str) -> None:
    with pytest.raises(UsageError, match="what is to change"):
        ops.alter_topic(conn, "orders")
    with psycopg.connect(dsn) as held, pytest.raises(UsageError, match="autocommit"):
        ops.alter_topic(held, "orders", partitions=2)


def test_events_of_an_id_that_nobody_made(conn: Connection, orders: None, command: Command) -> None:
    conn.execute("insert into gapless.outbox_message_t (topic_id, payload) values (77, '{}')")
    sequence(conn)
    (stray,) = ops.list_unrouted(conn)
    assert (stray.topic_id, stray.events) == (77, 1)
    assert known([stray]) == command("topics", "unrouted")
    topic, events = ops.adopt_topic(conn, 77, "bills", partitions=2)
    assert (topic.topic_id, topic.name, events) == (77, "bills", 1)
    conn.execute("insert into gapless.outbox_message_t (topic_id, payload) values (78, '{}')")
    sequence(conn)
    assert ops.discard_unrouted(conn, 78) == 1
    assert ops.list_unrouted(conn) == []


def test_rows_of_another_kind_are_no_matter(conn: Connection, orders: None) -> None:
    """A gateway may have set a row factory; it stays as it is."""
    publish(conn, "orders", 1, key="a")
    conn.row_factory = psycopg.rows.dict_row  # type: ignore[assignment]
    assert ops.pause(conn, GroupPlace(group="billing")).new_pauses == 1
    assert ops.list_units(conn, ops.DlqFilter(group="billing")) == []
    assert conn.row_factory is psycopg.rows.dict_row
