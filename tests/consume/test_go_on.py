"""A step that is behind goes on with what it has read ahead: a commit a batch, in one round trip."""

from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from gapless.consume.drive import Driver
from gapless.consume.session import commit_and_begin, run
from gapless.consume.step import step
from gapless.consume.unit import Unit
from gapless.consume.user.handler import Handler
from gapless.db.connect import connect
from gapless.errors import HoleError
from gapless.lease import hold
from support.turn import turn
from support.world import Group, Reader, World, make_handler

BATCH = 10
EVENTS = 100


@pytest.fixture
def world(shared_world: World) -> World:
    return shared_world.another_topic()


class Behind(Reader):
    """Of a group of 100 units of one event each, that has handled ten and read ahead the others."""

    def at(self, offset: int, act: Callable[[Connection[Any]], object]) -> Handler:
        """The group's handler; once, in the unit at `offset`, it does something else as well."""
        acts = [act]

        def handle(unit: Unit, conn: Connection[Any]) -> None:
            self.group.record(unit, conn)
            if unit.first_offset == offset and acts:
                acts.pop()(conn)

        return make_handler(handle)


@pytest.fixture
def behind(world: World, group: Group, monkeypatch: pytest.MonkeyPatch) -> Behind:
    world.units(*[1] * EVENTS)
    made = Behind(group)
    assert made.step().events == BATCH
    return made


def commits(group: Group) -> list[int]:
    """How many effects each transaction has, in the order of the log."""
    return [
        row[0]
        for row in group.world.rows(
            "select count(*) from effect where group_id = %s group by top_xid order by min(n)",
            group.name,
        )
    ]


def test_a_commit_a_batch(behind: Behind) -> None:
    done = behind.step()
    assert (done.events, done.units, done.next_offset) == (90, 90, EVENTS + 1)
    assert commits(behind.group) == [BATCH] * 10
    behind.group.assert_all_once(EVENTS)
    assert behind.step().outcome == "idle"


def test_whoever_takes_the_step_says_how_long_it_goes_on(behind: Behind) -> None:
    """A drain, an order, another partition of the worker wait for it; a step has no clock."""
    taken = turn(behind.group.conn, behind.group.assignment, behind.group.handler, behind.ahead)
    assert [step(taken, batch_size=BATCH).events for _ in range(2)] == [BATCH] * 2
    asked = iter([True, True, False])
    done = step(taken, batch_size=BATCH, continue_while=lambda: next(asked))
    assert done.events == 3 * BATCH
    assert commits(behind.group) == [BATCH] * 6


def test_a_driver_goes_on_for_a_limited_time(
    behind: Behind, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = behind.group
    driver = Driver(turn(group.conn, group.assignment, group.handler, batch_size=BATCH))
    assert driver.turn().events == BATCH
    clock = iter(range(1000))
    monkeypatch.setattr("gapless.consume.drive.monotonic", lambda: next(clock))
    monkeypatch.setattr("gapless.consume.drive.GOES_ON_S", 3.0)
    assert driver.turn().events == 3 * BATCH


@pytest.mark.parametrize("failing", [{15}, {45}, {41, 50}, {11, 100}])
def test_a_unit_that_fails_is_set_aside_and_what_came_before_is_kept(
    behind: Behind, failing: set[int]
) -> None:
    group = behind.group
    group.failing |= failing
    done = behind.step()
    assert group.next_offset() == done.next_offset
    assert done.dead >= 1
    while behind.step().outcome == "done":
        pass
    assert set(group.letters()) == failing
    group.assert_all_once(EVENTS)
    first = min(failing)
    assert group.calls.count(first) == 2
    assert group.calls.count(first - 1) <= 2


@pytest.mark.parametrize("statement", ["commit", "rollback", "rollback; begin", "commit and chain"])
def test_a_handler_that_ends_the_transaction(behind: Behind, statement: str) -> None:
    """I6: its unit is dead, the batches before are committed, those after are not harmed."""
    group = behind.group
    poison = make_handler(
        lambda unit, conn: (
            conn.execute(statement) if unit.first_offset == 45 else group.record(unit, conn)
        )
    )
    with suppress(psycopg.OperationalError):  # psycopg deallocates what is prepared: once
        behind.step(what=poison)
    assert group.next_offset() >= 41
    while behind.step(what=poison).outcome == "done":
        pass
    assert set(group.letters()) == {45}
    group.assert_all_once(EVENTS)


def test_a_block_of_psycopg_that_was_left_open(behind: Behind) -> None:
    with ExitStack() as stack:
        leave = behind.at(50, lambda conn: stack.enter_context(conn.transaction()))
        with pytest.raises(psycopg.OperationalError, match="left a transaction block open"):
            behind.step(what=leave)
    assert behind.group.next_offset() == 41
    assert behind.group.effects() == list(range(1, 41))


@pytest.mark.parametrize("at", [45, 50])
def test_a_session_lost(world: World, behind: Behind, at: int) -> None:
    end = "select pg_terminate_backend(%s, 5000)"
    lose = behind.at(at, lambda conn: world.conn.execute(end, [conn.info.backend_pid]))
    with pytest.raises(psycopg.OperationalError):
        behind.step(what=lose)
    assert behind.group.next_offset() == 41
    assert behind.group.effects() == list(range(1, 41))


def test_a_pause_holds_for_the_next_batch(world: World, behind: Behind) -> None:
    pause = "select gapless.pause(%s)"
    stop = behind.at(45, lambda _: world.conn.execute(pause, [behind.group.name]))
    assert behind.step(what=stop).next_offset == 51
    assert behind.step().outcome == "idle"
    assert behind.group.effects() == list(range(1, 51))


def before_claim_ahead(
    monkeypatch: pytest.MonkeyPatch, act: Callable[[Connection[Any]], None]
) -> None:
    """Act when a batch is about to be committed, and the next one claimed; once."""
    acts = [act]

    def acting(conn: Connection[Any], then: Callable[[], object]) -> None:
        commit_and_begin(conn, then)
        if acts:
            acts.pop()(conn)

    monkeypatch.setattr("gapless.consume.step.commit_and_begin", acting)


def test_a_former_owner_is_fenced_between_two_batches(
    world: World, behind: Behind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I7: a successor that waits for the row may get it right behind a COMMIT."""
    group = behind.group

    def depose(conn: Connection[Any]) -> None:
        run(conn, "check_unit", {"settings": None})  # takes the COMMIT along
        with connect(world.dsn, role="worker") as other:
            hold.install(other, group.successor(other))

    before_claim_ahead(monkeypatch, depose)
    assert behind.step().next_offset == 21
    assert behind.step().outcome == "fenced"
    assert group.effects() == list(range(1, 21))


def test_what_is_committed_counts_whatever_comes_next(
    world: World, behind: Behind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody seeks right behind a COMMIT, to where segments are missing."""
    group = behind.group

    def seek(conn: Connection[Any]) -> None:
        run(conn, "check_unit", {"settings": None})  # takes the COMMIT along
        with connect(world.dsn, role="seeker") as other, other.transaction():
            other.execute("select set_config('gapless.seeking', pg_current_xact_id()::text, true)")
            other.execute(
                "update gapless.consumer_offsets set next_offset = 50 where group_id = %s",
                [group.name],
            )
            other.execute(
                "update gapless.log_segment"
                " set base_offset = base_offset + 60, last_offset = last_offset + 60"
                " where topic_id = %s",
                [group.assignment.partition.topic_id],
            )

    before_claim_ahead(monkeypatch, seek)
    done = behind.step()
    assert (done.events, done.next_offset) == (10, 21)
    with pytest.raises(HoleError):
        behind.step()


def test_an_error_behind_the_commit_is_not_the_batchs(
    behind: Behind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing that is committed is tried again, or set aside, whatever the error is."""
    group = behind.group

    def fail(conn: Connection[Any]) -> None:
        wrong = {"token": "not a uuid", "first_offset": 21, "last_offset": 30, "place": None}
        run(conn, "claim_ahead", {**group.assignment.params, **wrong})

    before_claim_ahead(monkeypatch, fail)
    with pytest.raises(psycopg.errors.InvalidTextRepresentation):
        behind.step()
    assert group.next_offset() == 21
    assert group.calls == list(range(1, 21))
    while behind.step().outcome == "done":
        pass
    group.assert_all_once(EVENTS)
