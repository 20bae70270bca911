"""Which rows are locked when a filter is set or a place is made, and for whom nobody waits."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from gapless.db.connect import connect
from support.twins import Twins
from support.waiting import in_thread, until_waiting

FILTERS = """
select gapless.set_filter(g, t, '{a}') from unnest('{billing,mail}'::text[]) g, unnest('{other,orders}'::text[]) t;
select gapless.create_group('crm', 'orders');
select gapless.subscribe('crm', 'orders', 'a', condition => '$.n > 1');
select gapless.unsubscribe('crm', 'orders', 'a');
"""
FREE = {
    "consumer_group": "select g.group_id, g.topic_id from gapless.consumer_group g for {} skip locked",
    "group_filter": "select f.group_id, f.topic_id from gapless.group_filter f for update skip locked",
    "consumer_offsets": "select c.group_id, c.topic_id, c.partition_id from gapless.consumer_offsets c"
    " for update skip locked",
}
GROUP = {("billing", "orders")}
PLACES = {("billing", "orders", n) for n in range(3)}
NEW_PLACE = (
    "insert into gapless.consumer_offsets (group_id, topic_id, partition_id)"
    " select 'billing', topic_id, 7 from gapless.topic where name = 'orders'"
)
# What is called, how far the group's row is free still, and what is not free
LOCKS: dict[str, tuple[str, str, dict[str, set[Any]]]] = {
    "another filter": (
        "select gapless.set_filter('billing', 'orders', '{b}')", "no key update",
        {"consumer_group": GROUP, "group_filter": GROUP, "consumer_offsets": PLACES},
    ),
    "no filter": (
        "select gapless.clear_filter('billing', 'orders')", "no key update",
        {"consumer_group": GROUP, "group_filter": GROUP, "consumer_offsets": PLACES},
    ),
    # A filter that is set meanwhile would pass it by, for good.
    "a new place": (
        NEW_PLACE, "no key update",
        {"consumer_group": GROUP},
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def shared(module_dsn: str) -> Iterator[Twins]:
    """Two groups have filters of both topics, and one had a subscription."""
    with connect(module_dsn, role="test") as conn:
        twins = Twins(conn)
        conn.execute(FILTERS)
        yield twins


@pytest.mark.parametrize("name", LOCKS)
def test_what_is_locked(twins: Twins, module_dsn: str, name: str) -> None:
    statement, strength, locked = LOCKS[name]
    names = {topic_id: topic for topic, topic_id in twins.topic_ids.items()}
    twins.conn.execute(statement)
    with connect(module_dsn, role="test") as conn, conn.transaction(force_rollback=True):
        for table, query in FREE.items():
            every = conn.execute(query.format(strength).partition(" for ")[0]).fetchall()
            free = conn.execute(query.format(strength)).fetchall()
            held = {(group, names[topic], *more) for group, topic, *more in set(every) - set(free)}
            assert held == locked.get(table, set()), table


def test_a_subscription_that_is_being_made_is_seen(twins: Twins, module_dsn: str) -> None:
    """Else the group would have it, and no filter that asks it."""
    with connect(module_dsn, role="test") as conn:
        try:
            conn.execute("begin")
            conn.execute("select gapless.subscribe('crm', 'orders', 'b', condition => '$.n > 1')")
            call = "select gapless.clear_filter('crm', 'orders')"
            with in_thread(lambda: twins.conn.execute(call)) as done:
                until_waiting(conn, "transactionid")
                conn.execute("commit")
                with pytest.raises(
                    psycopg.Error, match="takes the events that its subscriptions match"
                ):
                    done.result()
        finally:
            conn.execute("rollback")
            conn.execute("select gapless.unsubscribe('crm', 'orders', 'b')")


def test_who_gets_its_places_back_waits_for_no_batch(twins: Twins, module_dsn: str) -> None:
    """One is being handled in a partition that was not lost."""
    twins.conn.execute(f"delete from gapless.consumer_offsets where {twins.here()}")
    twins.conn.execute("set local lock_timeout = '200ms'")
    with connect(module_dsn, role="test") as conn, conn.transaction(force_rollback=True):
        conn.execute(
            f"update gapless.consumer_offsets set next_offset = 3 where {twins.here(partition=0)}"
        )
        assert twins.value("select gapless.restore_offsets('billing', 'orders')") == 1


@pytest.mark.parametrize(
    "call",
    [
        "pause('nobody')",
        "resume('nobody')",
        "resume('billing', 'orders', 7)",
        "resume('billing', 'no')",
    ],
)
def test_what_is_not_there_is_not_paused(twins: Twins, call: str) -> None:
    assert twins.refused(f"select gapless.{call}")[0] == "GL404"
