"""Effects and offset are one commit (I6), which a former owner cannot make any more (I7)."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import Connection

from gapless import failpoints
from gapless.consume.isolate import isolate
from gapless.consume.read.place import forget_attempt, record_attempt
from gapless.consume.step import Step
from gapless.consume.unit import Unit
from gapless.db.connect import connect
from gapless.errors import UnplacedError
from gapless.keys import Assignment
from gapless.lease import hold
from support.blocked import until_blocked
from support.turn import one_step
from support.world import Group, World, make_handler

WAIT_S = 10.0


@pytest.fixture
def world(shared_world: World) -> World:
    return shared_world.another_topic()


@pytest.fixture
def other(world: World) -> Iterator[Connection[Any]]:
    """The session of the next owner."""
    with connect(world.dsn, role="worker") as conn:
        yield conn


class Pause:
    """Runs a step in a thread, stopped in the middle of its handler as SIGSTOP would."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.inside = threading.Event()
        self.go_on = threading.Event()

    def record(self, unit: Unit, conn: Connection[Any]) -> None:
        self.group.record(unit, conn)
        self.inside.set()
        assert self.go_on.wait(WAIT_S)

    @contextmanager
    def step(self) -> Iterator[Future[Step]]:
        with ThreadPoolExecutor(1) as pool:
            future = pool.submit(self.group.step, make_handler(self.record))
            try:
                assert self.inside.wait(WAIT_S)
                yield future
            finally:
                self.go_on.set()


@pytest.mark.invariant("I6")
class TestOneCommit:
    POINTS = ("step.claimed", "step.fetched", "step.handled")

    @pytest.mark.parametrize("point", POINTS)
    def test_an_exception_anywhere_leaves_neither(
        self, world: World, group: Group, point: str
    ) -> None:
        world.units(2, 1)
        failpoints.arm({point: "raise@1"})
        with pytest.raises(RuntimeError, match=f"failpoint {point}"):
            group.step()
        assert (group.next_offset(), group.effects(), group.letters()) == (1, [], {})
        group.drain()
        group.assert_all_once(3)

    def test_an_exception_after_the_commit_leaves_both(self, world: World, group: Group) -> None:
        world.units(2, 1)
        failpoints.arm({"step.committed": "raise@1"})
        with pytest.raises(RuntimeError):
            group.step()
        group.assert_all_once(3)
        assert group.step().outcome == "idle"

    @pytest.mark.parametrize("point", POINTS)
    def test_a_session_lost_anywhere_leaves_neither(
        self, world: World, group: Group, point: str
    ) -> None:
        world.units(2, 1)
        end = "select pg_terminate_backend(%s, 5000)"
        pid = group.conn.info.backend_pid
        failpoints.arm({point: lambda _: world.conn.execute(end, [pid])})
        with pytest.raises(psycopg.OperationalError):
            group.step()
        assert (group.next_offset(), group.effects(), group.letters()) == (1, [], {})

    def test_what_the_handler_wrote_is_seen_by_it_at_once(self, world: World, group: Group) -> None:
        world.units(1, 1, 1)
        seen: list[object] = []

        def count(unit: Unit, conn: Connection[Any]) -> None:
            group.record(unit, conn)
            seen.append(
                conn.execute(
                    "select count(*) from effect where group_id = %s", [group.name]
                ).fetchone()
            )

        group.step(make_handler(count))
        assert seen == [(1,), (2,), (3,)]

    def test_nobody_else_sees_it_before_the_commit(self, world: World, group: Group) -> None:
        world.units(1)
        with Pause(group).step():
            assert (group.effects(), group.next_offset()) == ([], 1)
        group.assert_all_once(1)


@pytest.mark.invariant("I7")
class TestOneOwner:
    def test_a_former_owner_is_fenced(
        self, world: World, group: Group, other: Connection[Any]
    ) -> None:
        world.units(1, 1)
        group.step(batch_size=1)
        assert hold.install(other, group.successor(other)) is not None
        for turn in (group.step, group.step_alone):
            assert turn().outcome == "fenced"
        assert (group.next_offset(), group.effects()) == (2, [1])
        assert record_attempt(group.conn, group.assignment) is None

    def test_fenced_while_it_waits_for_the_row(
        self, world: World, group: Group, other: Connection[Any]
    ) -> None:
        """It saw its own epoch, queued behind the new fence, and must look again then."""
        world.units(1)
        successor = group.successor(other)
        with ThreadPoolExecutor(1) as pool:
            with other.transaction():
                assert hold.install(other, successor) is not None
                future = pool.submit(group.step)
                until_blocked(world.conn, group.conn, future)
            assert future.result(WAIT_S).outcome == "fenced"
        assert (group.calls, group.next_offset()) == ([], 1)

    def test_fenced_between_a_failure_and_the_second_try(
        self,
        world: World,
        group: Group,
        other: Connection[Any],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        world.units(1, 1)
        group.failing = {1}

        def usurped(*args: Any) -> Any:
            assert hold.install(other, group.successor(other)) is not None
            return isolate(*args)

        monkeypatch.setattr("gapless.consume.step.isolate", usurped)
        assert group.step().outcome == "fenced"
        assert (group.calls, group.letters(), group.next_offset()) == ([1], {}, 1)

    def test_moved_between_a_failure_and_the_second_try(
        self, world: World, group: Group, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Somebody set the offset by hand: begin anew from there, with nothing done."""
        world.units(1, 1, 1)
        group.failing = {1}

        def moved(*args: Any) -> Any:
            monkeypatch.undo()
            world.conn.execute(
                "select set_config('gapless.seeking', pg_current_xact_id()::text, true);"
                f"update gapless.consumer_offsets set next_offset = 2 where group_id = '{group.name}'"
            )
            return isolate(*args)

        monkeypatch.setattr("gapless.consume.step.isolate", moved)
        assert group.step().outcome == "idle"
        assert (group.letters(), group.next_offset()) == ({}, 2)
        group.drain()
        assert group.effects() == [2, 3]

    def test_a_paused_owner_holds_the_fence_up_and_then_loses(
        self, world: World, group: Group, other: Connection[Any]
    ) -> None:
        """The new fence waits for the open batch; it then starts where that batch ended."""
        world.units(2, 2)
        with Pause(group).step() as running:
            successor = group.successor(other)
            with pytest.raises(psycopg.errors.LockNotAvailable):
                hold.install(other, successor)
            assert not running.done()
        assert running.result(WAIT_S).outcome == "done"
        held = hold.install(other, successor)
        assert held is not None
        assert held.unclean, "the former owner never released"
        assert group.step().outcome == "fenced"
        assert one_step(other, successor, group.handler).outcome == "idle"
        group.assert_all_once(4)

    def test_a_paused_owner_whose_session_is_ended_has_committed_nothing(
        self, world: World, group: Group, other: Connection[Any]
    ) -> None:
        world.units(2, 2)
        with Pause(group).step() as running:
            successor = group.successor(other)
            other.execute("select pg_terminate_backend(%s, 5000)", [group.conn.info.backend_pid])
            assert hold.install(other, successor) is not None
            assert one_step(other, successor, group.handler).events == 4
        with pytest.raises(psycopg.OperationalError):
            running.result(WAIT_S)
        group.assert_all_once(4)

    @pytest.mark.parametrize(
        "wrong",
        [
            lambda a: replace(a, epoch=a.epoch - 1),
            lambda a: replace(a, epoch=a.epoch + 1),
            lambda a: replace(a, token=uuid4()),
        ],
        ids=["older epoch", "newer epoch", "other token"],
    )
    def test_only_the_very_owner_may_claim(
        self, world: World, group: Group, wrong: Callable[[Assignment], Assignment]
    ) -> None:
        stranger = wrong(group.assignment)
        assert one_step(group.conn, stranger, group.handler).outcome == "fenced"
        world.units(1)
        assert one_step(group.conn, stranger, group.handler).outcome == "fenced"
        assert record_attempt(group.conn, stranger) is None
        forget_attempt(group.conn, stranger)
        assert (group.calls, group.next_offset()) == ([], 1)

    @pytest.mark.parametrize("wrong", [{"partition_id": 9}, {"group_id": "stranger"}], ids=str)
    def test_where_there_is_no_offset_nobody_may(
        self, world: World, group: Group, wrong: dict[str, Any]
    ) -> None:
        assignment = group.assignment
        stranger = replace(assignment, partition=replace(assignment.partition, **wrong))
        world.units(1)
        with pytest.raises(UnplacedError, match="the group has lost its offset"):
            one_step(group.conn, stranger, group.handler)
        assert record_attempt(group.conn, stranger) is None
        forget_attempt(group.conn, stranger)
        assert (group.calls, group.next_offset()) == ([], 1)

    def test_an_older_fence_is_not_put_in_again(
        self, world: World, group: Group, other: Connection[Any]
    ) -> None:
        first, second = group.successor(group.conn), group.successor(other)
        assert hold.install(other, second) is not None
        assert hold.install(group.conn, first) is None
        same_epoch = replace(second, token=uuid4())
        assert hold.install(group.conn, same_epoch) is None
        assert hold.install(other, second) is not None, "installing twice is harmless"

    def test_a_clean_release_is_told_to_the_successor(
        self, world: World, group: Group, other: Connection[Any]
    ) -> None:
        (lease,) = group.member.leases()
        world.units(1)
        group.drain()
        hold.release(group.conn, group.assignment, lease.lease_no)
        assert hold.lock(other, lease.lease_no)
        held = hold.install(other, group.successor(other))
        assert held is not None
        assert not held.unclean

    def test_a_late_release_of_a_former_owner_changes_nothing(
        self, world: World, group: Group, other: Connection[Any]
    ) -> None:
        (lease,) = group.member.leases()
        successor = group.successor(other)
        assert hold.install(other, successor) is not None
        hold.release(group.conn, group.assignment, lease.lease_no)
        world.units(1)
        assert one_step(other, successor, group.handler).outcome == "done"
        assert world.value(
            "select owner is not null from gapless.lease where group_id = %s", group.name
        )

    def test_two_at_once_with_one_assignment_handle_each_event_once(
        self, world: World, group: Group, other: Connection[Any]
    ) -> None:
        """It must not happen, and does no harm: the offset's row is locked by the first."""
        world.units(*[1] * 40)

        def work(conn: Connection[Any]) -> None:
            while group.next_offset() <= 40:
                one_step(conn, group.assignment, group.handler, batch_size=3)

        with ThreadPoolExecutor(2) as pool:
            for future in [pool.submit(work, group.conn), pool.submit(work, other)]:
                future.result(WAIT_S)
        group.assert_all_once(40)
