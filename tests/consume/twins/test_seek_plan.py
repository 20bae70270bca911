"""seek_plan(): what a seek would do in each partition, to each kind of target."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from psycopg import Connection

from consume.twins.seeking import set_aside
from gapless.db.connect import connect
from support.twins import Twins

PLAN = (
    "select partition_no, next_offset, new_offset, again, skipped, letters"
    " from gapless.seek_plan(%(group)s, 'orders', {target})"
)
Plan = list[tuple[int, int, int, int, int, int]]
# Where the group is: at 1, 9 and 4; a unit of three events at 4; letters at 3, in partition 1 at 4 too.
PLANS: dict[str, Plan] = {
    "to_end => 'earliest'": [(0, 1, 1, 0, 0, 1), (1, 9, 1, 8, 0, 4), (2, 4, 1, 3, 0, 1)],
    "to_end => 'latest'": [(0, 1, 10, 0, 9, 0), (1, 9, 9, 0, 0, 0), (2, 4, 9, 0, 5, 0)],
    "to_offset => 5": [(0, 1, 4, 0, 3, 0), (1, 9, 4, 5, 0, 3), (2, 4, 4, 0, 0, 0)],
    "to_offset => 3": [(0, 1, 3, 0, 2, 1), (1, 9, 3, 6, 0, 4), (2, 4, 3, 1, 0, 1)],
    "to_offset => 9": [(0, 1, 9, 0, 8, 0), (1, 9, 9, 0, 0, 0), (2, 4, 9, 0, 5, 0)],
    "to_offset => 9, partition_id => 2": [(2, 4, 9, 0, 5, 0)],
    "to_time => '2020-01-01Z'": [(0, 1, 1, 0, 0, 1), (1, 9, 1, 8, 0, 4), (2, 4, 1, 3, 0, 1)],
    "to_transaction => {late}": [(0, 1, 9, 0, 8, 0), (1, 9, 9, 0, 0, 0), (2, 4, 4, 0, 0, 0)],
    "to_transaction => {wide}": [(0, 1, 4, 0, 3, 0), (1, 9, 4, 5, 0, 3), (2, 4, 4, 0, 0, 0)],
}


def plan(twins: Twins, target: str) -> list[tuple[Any, ...]]:
    read = "(select transaction_id from gapless.read('orders', {}, {}, {}))"
    words = {"late": read.format(0, 9, 9), "wide": read.format(1, 5, 5)}
    statement = PLAN.format(target=target.format(**words))
    return twins.conn.execute(statement, {"group": "billing"}).fetchall()  # type: ignore[arg-type]


@pytest.fixture
def placed(twins: Twins) -> Twins:
    twins.seek(8)
    for partition, next_offset in enumerate((1, 9, 4)):
        twins.seek(next_offset, twins.here(partition=partition))
    set_aside(twins, 3, 3, "true")
    set_aside(twins, 4, 6, twins.here())
    return twins


@pytest.mark.parametrize("target", PLANS)
def test_where_a_group_would_go(placed: Twins, target: str) -> None:
    assert plan(placed, target) == PLANS[target]


def test_what_is_beyond_the_end(placed: Twins) -> None:
    """Nobody handled what is not there."""
    placed.seek(20, placed.here())
    assert plan(placed, "to_offset => 7, partition_id => 1") == [(1, 20, 7, 2, 0, 0)]


def test_units_that_were_set_aside_as_one(placed: Twins) -> None:
    """They are handled again as one, or not at all; of another place they do not count."""
    placed.conn.execute("delete from gapless.dead_letter")
    set_aside(placed, 1, 3, placed.here())
    topic_id = placed.topic_ids["orders"]
    set_aside(placed, 1, 6, f"(group_id, topic_id) <> ('billing', {topic_id})")
    target = "to_offset => {}, partition_id => {}"
    for partition, offset, goal in (
        (1, 3, 1), (1, 2, 1), (1, 4, 4), (0, 3, 3), (2, 3, 3), (1, 1, 1),
    ):  # fmt: skip
        assert plan(placed, target.format(offset, partition))[0][2] == goal
    set_aside(placed, 4, 7, placed.here())
    assert plan(placed, target.format(7, 1))[0][2] == 4


def test_units_of_which_the_beginning_is_gone(placed: Twins) -> None:
    placed.conn.execute("delete from gapless.dead_letter")
    set_aside(placed, 1, 6, placed.here())
    gone = placed.value("select transaction_id from gapless.read('orders', 1, 1, 1)")
    placed.conn.execute(
        "insert into gapless.log_start select topic_id, p, 3, '-infinity' from gapless.topic,"
        " generate_series(0, 2) p"
    )
    found = [row[2] for row in plan(placed, "to_end => 'earliest'")]
    assert found == [3, 7, 3]
    state, text = placed.refused(
        "select * from gapless.seek_plan('billing', 'orders', 1, to_transaction => %s)",
        [gone],
    )
    at_goal = placed.conn.execute(
        "select new_offset from gapless.seek_plan('billing', 'orders', 0, to_transaction => %s)",
        [gone],
    ).fetchall()
    assert at_goal == [(1,)], "it is there already"
    set_aside(placed, 1, 2, placed.here(partition=0))
    found = placed.conn.execute(
        "select new_offset from gapless.seek_plan('billing', 'orders', 0, to_transaction => %s)",
        [gone],
    ).fetchall()
    assert found == [(1,)], "and so is what was set aside there"
    expected = f"transaction {gone} is not in orders/1 any more: the earliest offset is 3"
    assert (state, text) == ("GL400", expected)


def test_a_transaction_that_says_its_id_of_some_of_its_events(placed: Twins) -> None:
    """It begins with the first of all of them."""
    wide = placed.value("select transaction_id from gapless.read('orders', 2, 5, 5)")
    placed.conn.execute(
        "update gapless.outbox_message_t o set transaction_id = %s from gapless.log_segment s"
        " where o.id = s.message_ids[2] and s.base_offset = 7",
        [wide],
    )
    assert plan(placed, f"to_transaction => '{wide}', partition_id => 2")[0][2] == 4


class TestWorker:
    """Who has a partition in hand is told by its lock, of this database, in another session."""

    LOOK = "select partition_no from gapless.seek_plan('billing', 'orders', to_end => 'latest') where worker"

    def found(self, twins: Twins) -> list[int]:
        return [row[0] for row in twins.conn.execute(self.LOOK).fetchall()]

    def test_of_another_session(self, twins: Twins, module_dsn: str) -> None:
        lease = twins.leases["billing", "orders", 1]
        with connect(module_dsn, role="test") as other:
            for group, topic in (("mail", "orders"), ("billing", "other")):
                beside = twins.leases[group, topic, 1]
                other.execute("select pg_advisory_lock(7427003, %s)", [beside])
            assert self.found(twins) == []
            other.execute("select pg_advisory_lock(7427003, %s)", [lease])
            assert self.found(twins) == [1]

    @pytest.mark.parametrize(
        "lock",
        ["pg_advisory_lock(7427004, {0})", "pg_advisory_lock((7427003::bigint << 32) + {0})"],
        ids=["another lock", "one of one number"],
    )
    def test_of_something_else(self, twins: Twins, module_dsn: str, lock: str) -> None:
        with connect(module_dsn, role="test") as other:
            locks = lock.format(twins.leases["billing", "orders", 1])
            other.execute(f"select {locks}")  # type: ignore[arg-type]
            assert self.found(twins) == []

    def test_of_another_database(self, twins: Twins, server_dsn: str) -> None:
        with connect(server_dsn, role="test") as other:
            lease = twins.leases["billing", "orders", 1]
            other.execute("select pg_advisory_lock(7427003, %s)", [lease])
            assert self.found(twins) == []

    def test_of_who_asks_and_of_who_waits(self, twins: Twins, module_dsn: str) -> None:
        lease = twins.leases["billing", "orders", 1]
        twins.conn.execute("select pg_advisory_xact_lock(7427003, %s)", [lease])
        assert self.found(twins) == []
        with connect(module_dsn, role="test") as other, waiting(twins.conn, other, lease):
            assert self.found(twins) == []


@contextmanager
def waiting(conn: Connection[Any], other: Connection[Any], lease: int) -> Iterator[None]:
    """Let the other session wait for a lock that this one has."""
    other.pgconn.send_query(f"select pg_advisory_lock(7427003, {lease})".encode())
    give_up = time.monotonic() + 60
    waits = "select 1 from pg_locks where pid = %s and not granted"
    pid = other.pgconn.backend_pid
    try:
        while not conn.execute(waits, [pid]).fetchall():
            assert time.monotonic() < give_up, "it does not wait"
        yield
    finally:
        conn.execute("select pg_cancel_backend(%s)", [pid])
        while other.pgconn.get_result() is not None:
            pass
