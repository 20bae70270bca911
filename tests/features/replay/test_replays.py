"""Replays: planned, tried, run, continued, removed."""

from typing import Any

import psycopg
import pytest
from psycopg import Connection

import gapless
from gapless import ops
from gapless.errors import GaplessError, RefusedError, UsageError
from gapless.log.sequence import sequence
from gapless.ops import GroupPlace, Point, ReplayRange
from gapless.settings import Settings
from support.records import Command, known, value


@gapless.handler(topic="orders", group="billing", on_failure="block")
def bill(unit: gapless.Unit, conn: Connection[Any]) -> None:
    for event in unit:
        conn.execute("insert into handled (c_offset) values (%s)", [event.offset])
        if event.offset == 7:
            raise ValueError("seven")


@pytest.fixture(autouse=True)
def handled(conn: Connection, orders: None) -> None:
    conn.execute("create table handled (c_offset bigint)")


TERMS = ops.replay_terms(bill, Settings())


def test_terms() -> None:
    assert (TERMS.topic, TERMS.policy.on_failure) == ("orders", "dead-letter")
    mail = gapless.handler(topic="orders", delivery="at-least-once")(lambda unit: None)
    with pytest.raises(UsageError, match="would send it all again"):
        ops.replay_terms(mail, Settings())


def test_plan(conn: Connection) -> None:
    wanted = ReplayRange(topic="orders", begin=Point(offset=3), stop=Point(offset=6))
    plan = ops.plan_replay(conn, wanted, bill, TERMS)
    assert (plan.events, plan.delivery, plan.database) == (3, "exactly-once", conn.info.dbname)
    (part,) = plan.partitions
    assert (part.partition, part.first_offset, part.last_offset, part.events) == (0, 3, 5, 3)
    assert ops.list_replays(conn) == []
    assert value(conn, "select count(*) from handled") == 0


def test_try(conn: Connection, dsn: str) -> None:
    told: list[int] = []
    wanted = ReplayRange(topic="orders")
    tried = ops.try_replay(conn, wanted, bill, TERMS, progress=told.append)
    assert (tried.events, tried.handled, tried.failed) == (10, 9, 1)
    assert [(each.offset, each.error) for each in tried.failures] == [(7, "ValueError: seven")]
    assert told[-1] == 10
    assert value(conn, "select count(*) from handled") == 0
    assert (ops.list_replays(conn), conn.autocommit) == ([], True)
    with psycopg.connect(dsn) as held, pytest.raises(UsageError, match="autocommit"):
        ops.try_replay(held, wanted, bill, TERMS)


def test_run(conn: Connection, command: Command) -> None:
    """What fails is dead in the scratch group, which stays for it; group billing does not move."""
    wanted = ReplayRange(topic="orders", name="again")
    assert ops.create_replay(conn, wanted) == 10
    assert known(ops.list_replays(conn)) == command("replay", "--list")
    told: list[int] = []
    result = ops.run_replay(conn, "again", bill, TERMS, progress=told.append)
    assert (result.events, result.done, result.dead_units, result.dead_events) == (10, 10, 1, 1)
    assert (result.finished, result.kept, sum(told)) == (True, True, 10)
    assert value(conn, "select count(*) from handled") == 9
    assert ops.show_group(conn, GroupPlace(group="billing"))[0].current_offset == 1
    assert ops.find_replay(conn, "again").dead_letters == 1
    assert ops.remove_replay(conn, "again").dead_letters == 1
    with pytest.raises(RefusedError, match='there is no replay "again"'):
        ops.remove_replay(conn, "again")


@pytest.mark.parametrize("keep", [False, True])
def test_a_replay_without_failures(conn: Connection, keep: bool) -> None:
    wanted = ReplayRange(topic="orders", stop=Point(offset=5))
    ops.create_replay(conn, wanted)
    assert ops.run_replay(conn, wanted.name, bill, TERMS, keep=keep).kept is keep
    assert [each.name for each in ops.list_replays(conn)] == ([wanted.name] if keep else [])


def test_a_replay_that_is_paused_or_gone(conn: Connection) -> None:
    wanted = ReplayRange(topic="orders")
    ops.create_replay(conn, wanted)
    ops.pause(conn, GroupPlace(group=wanted.name))
    with pytest.raises(GaplessError, match="is paused"):
        ops.run_replay(conn, wanted.name, bill, TERMS)
    assert ops.replay_progress(conn, wanted.name).done == 0
    conn.execute("select pg_advisory_unlock_all()")
    ops.remove_replay(conn, wanted.name)
    with pytest.raises(GaplessError, match="somebody removed it"):
        ops.run_replay(conn, wanted.name, bill, TERMS)


class TestFilters:
    """A replay of a handler that says a filter: of the range what matches, and nothing behind it."""

    @pytest.fixture(autouse=True)
    def kinds(self, conn: Connection, orders: None) -> None:
        """Behind the ten without a type: offsets 11 to 40, every third of them is `paid`."""
        events = [
            gapless.NewEvent(payload=n, event_type="paid" if n % 3 == 0 else "sent", key="a")
            for n in range(11, 41)
        ]
        for each in events:
            gapless.publish(conn, "orders", each)
        sequence(conn)

    @staticmethod
    def handler(*, batch: bool) -> Any:
        def note(units: Any, conn: Connection[Any]) -> None:
            assert units
            for unit in units if batch else [units]:
                for event in unit:
                    conn.execute("insert into handled (c_offset) values (%s)", [event.offset])

        says = gapless.handler(
            topic="orders", group="billing", event_types=["pa*"], where="$ < $max",
            params={"max": 1000}, batch=batch, batch_size=3,
        )  # fmt: skip
        return says(note)

    @pytest.mark.parametrize("batch", [False, True])
    def test_run(self, conn: Connection, batch: bool) -> None:
        handler = self.handler(batch=batch)
        terms = ops.replay_terms(handler, Settings())
        wanted = ReplayRange(topic="orders", begin=Point(offset=5), stop=Point(offset=22))
        plan = ops.plan_replay(conn, wanted, handler, terms)
        assert (plan.events, plan.takes) == (17, "pa* where $ < $max")
        told: list[int] = []
        tried = ops.try_replay(conn, wanted, handler, terms, progress=told.append)
        assert (tried.events, tried.handled, tried.failed) == (17, 4, 0)
        assert value(conn, "select count(*) from handled") == 0
        ops.create_replay(conn, wanted)
        told = []
        done = ops.run_replay(conn, wanted.name, handler, terms, progress=told.append)
        assert (done.events, done.done, done.finished, sum(told)) == (17, 17, True, 17)
        assert value(conn, "select array_agg(c_offset order by c_offset) from handled") == [
            12, 15, 18, 21,
        ]  # fmt: skip

    def test_the_one_that_an_operator_set_is_not_asked(self, conn: Connection) -> None:
        ops.set_filter(conn, GroupPlace(group="billing"), event_types=["sent"])
        wanted = ReplayRange(topic="orders", begin=Point(offset=30))
        ops.create_replay(conn, wanted)
        ops.run_replay(conn, wanted.name, bill, TERMS)
        assert value(conn, "select count(*) from handled") == 11

    def test_one_that_is_no_filter_is_refused(self, conn: Connection) -> None:
        wrong = gapless.handler(topic="orders", group="billing", where="$ < $max")
        handler = wrong(lambda unit, conn: None)
        terms = ops.replay_terms(handler, Settings())
        wanted = ReplayRange(topic="orders")
        with pytest.raises(RefusedError, match=r"no value for \$max"):
            ops.try_replay(conn, wanted, handler, terms)
        ops.create_replay(conn, wanted)
        with pytest.raises(RefusedError, match=r"no value for \$max"):
            ops.run_replay(conn, wanted.name, handler, terms)
