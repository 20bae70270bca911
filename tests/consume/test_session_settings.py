"""What a handler sets on its session reaches neither our own statements nor the next unit (I8)."""

from contextlib import suppress
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from gapless.consume.unit import Unit
from gapless.consume.verdict.policy import Policy
from gapless.log.topics import ensure_topic
from support.world import Group, World, make_handler

FORCE = "select gapless.settings_in_force()"
SETTINGS = {
    "statement_timeout": "set statement_timeout = 60",
    "SET LOCAL": "set local statement_timeout = 60",
    "lock_timeout": "set lock_timeout = 1",
    "idle_in_transaction": "set idle_in_transaction_session_timeout = '20s'",
    "search_path": "set search_path = nowhere",
    "role": "set role pg_monitor",
    "session_authorization": "set session authorization pg_monitor",
    "read only from now on": "set default_transaction_read_only = on",
    "isolation": "set default_transaction_isolation = 'repeatable read'",
    "client_encoding": "set client_encoding = 'latin1'",
    "time zone": "set time zone 'Asia/Tokyo'",
    "no triggers": "set session_replication_role = replica",
    "row_security": "set row_security = off",
    "RESET ALL": "reset all",
    "set_config": "select set_config('statement_timeout', '60', false)",
}


@pytest.fixture
def world(shared_world: World) -> World:
    shared_world.conn.execute(
        "create table if not exists public.seen (group_id text, c_offset bigint, settings text)"
    )
    return shared_world.another_topic()


def in_force(conn: Connection[Any]) -> str:
    row = conn.execute(FORCE).fetchone()
    assert row is not None
    return str(row[0])


def setter(group: Group, statement: str, only: set[int] | None = None) -> Any:
    """Make a handler that writes down what is in force, and changes it at the end of its unit."""

    def handle(unit: Unit, conn: Connection[Any]) -> None:
        group.record(unit, conn)
        conn.execute(
            "insert into public.seen values (%s, %s, gapless.settings_in_force())",
            [group.name, unit.first_offset],
        )
        if only is None or unit.first_offset in only:
            conn.execute(statement)  # type: ignore[call-overload]

    return make_handler(handle)


@pytest.mark.few(5)
@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("failing", [set(), {4}], ids=["fast path", "careful path"])
def test_the_next_unit_sees_nothing_of_it(
    world: World, group: Group, name: str, failing: set[int]
) -> None:
    world.units(*[1] * 12)
    group.conn.execute("set idle_in_transaction_session_timeout = '77s'")
    before = in_force(group.conn)
    group.failing = set(failing)
    handler = setter(group, SETTINGS[name])
    group.drain(handler, batch_size=5)
    group.assert_all_once(12)
    assert set(group.letters()) == failing
    seen = dict(
        world.rows("select c_offset, settings from public.seen where group_id = %s", group.name)
    )
    assert set(seen) == set(range(1, 13)) - failing
    assert set(seen.values()) == {before}
    assert in_force(group.conn) == before
    assert handler.habits.sets


@pytest.mark.long
@pytest.mark.parametrize(
    "statement", ["set statement_timeout = 40", "set local statement_timeout = 40"]
)
@pytest.mark.parametrize("first", ["", "another fails"])
def test_a_large_unit_is_set_aside_although_a_neighbour_left_little_time(
    world: World, group: Group, statement: str, first: str
) -> None:
    """What is read, and what is written down, takes longer than a unit before it allowed."""
    large = 20_000
    world.units(*([1] if first else []), 1, large, 1)
    base = 1 if first else 0
    group.failing = {2 + base} | ({1} if first else set())
    group.drain(setter(group, statement, only={1 + base}), batch_size=large)
    group.assert_all_once(large + 2 + base)
    assert len(group.letters()) == large + base


@pytest.mark.long
def test_a_large_unit_is_set_aside_whatever_statements_of_handlers_may_take(
    world: World, group: Group
) -> None:
    large = 20_000
    world.units(large, 1)
    group.failing = {1}
    group.conn.execute("set statement_timeout = 60")
    for _ in range(20):  # a claim may be too slow now and then, and is tried again; a letter always
        with suppress(psycopg.errors.QueryCanceled):
            group.drain(make_handler(lambda unit, conn: group.refuse(unit)))
            break
    assert len(group.letters()) == large
    assert group.next_offset() == large + 2


def test_one_that_changes_nothing_is_called_once(world: World, group: Group) -> None:
    world.units(*[1] * 10)
    handler = group.handler
    group.drain(handler, batch_size=5)
    assert group.calls == list(range(1, 11))
    assert not handler.habits.sets


def test_it_is_learned_once(world: World, group: Group) -> None:
    world.units(*[1] * 20)
    handler = setter(group, "set local time zone 'Asia/Tokyo'")
    group.drain(handler, batch_size=5)
    assert group.calls == [*range(1, 6), *range(1, 21)]


def test_a_batch_handler(world: World, group: Group) -> None:
    world.units(*[1] * 10)
    before = in_force(group.conn)

    def handle(batch: Any, conn: Connection[Any]) -> None:
        assert in_force(conn) == before
        for unit in batch:
            group.record(unit, conn)
        conn.execute("set search_path = nowhere")

    group.drain(make_handler(handle, batch=True), batch_size=5)
    group.assert_all_once(10)
    assert group.letters() == {}
    assert in_force(group.conn) == before


@pytest.mark.long
def test_a_unit_that_was_set_aside(world: World, group: Group) -> None:
    world.units(1, 1, 1)
    before = in_force(group.conn)

    def handle(unit: Unit, conn: Connection[Any]) -> None:
        assert in_force(conn) == before
        group.record(unit, conn)
        if unit.attempt == 1:
            raise ValueError("not yet")
        conn.execute("set statement_timeout = 60")
        conn.execute("set role pg_monitor")

    policy = Policy(on_failure="retry", retry_delays_s=(0,))
    group.drive(make_handler(handle), policy=policy, until_s=1)
    group.assert_all_once(3)
    assert group.letters() == {}
    assert in_force(group.conn) == before


def test_what_it_publishes_has_its_cause_all_the_same(world: World, group: Group) -> None:
    """RESET ALL would also forget our own marks (I10)."""
    ensure_topic(world.conn, "answers", partitions=1)
    world.units(*[1] * 6)

    def handle(unit: Unit, conn: Connection[Any]) -> None:
        group.record(unit, conn)
        conn.execute("set local time zone 'Asia/Tokyo'")
        conn.execute("select gapless.publish('answers', '{}')")

    group.drain(make_handler(handle), batch_size=3)
    causes = world.rows(
        "select cause from gapless.outbox_message_t where cause like %s order by id",
        f"{group.name}/%",
    )
    assert [cause.partition("@")[2] for (cause,) in causes] == ["1", "2", "3", "4", "5", "6"]


def test_one_that_ends_its_transaction_first_is_refused_as_ever(world: World, group: Group) -> None:
    world.units(1, 1)

    def handle(unit: Unit, conn: Connection[Any]) -> None:
        group.record(unit, conn)
        if unit.first_offset == 1:
            conn.execute("rollback")
            conn.execute("set statement_timeout = 60")

    group.drain(make_handler(handle))
    assert set(group.letters()) == {1}
    group.assert_all_once(2)
    assert group.conn.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
