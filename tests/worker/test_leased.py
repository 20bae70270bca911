"""A partition in a worker's hands, from waiting for it to letting go, turn by turn, on a server."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from time import monotonic
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from gapless.consume.batch import Batch
from gapless.consume.outside.lookahead import LOOK_AT_END_S
from gapless.consume.unit import Unit
from gapless.db.connect import connect
from gapless.db.listen import heard, listen
from gapless.errors import UsageError
from gapless.lease import hold
from gapless.log.event import NewEvent
from gapless.worker.failure_backoff import BRAKE_S_MIN, BRAKE_UNITS
from gapless.worker.leased import Leased
from gapless.worker.spec import ExitCode
from gapless.worker.states import CAREFUL_BATCH, LOCK_POLL_S, LOCK_POLL_S_MAX
from support.leased import lease_no, shared
from support.servers import until
from support.world import Group, World, make_handler
from support.worlds import shared_world

__all__ = ["shared_world"]

SLOT, BATCH = 0, 256
TRANSIENT = psycopg.errors.SerializationFailure("busy")


class Hand:
    """A partition in a worker's hand; `act` is what its handler does with a unit."""

    def __init__(self, group: Group, **said: Any) -> None:
        self.group, self.world = group, group.world
        self.act: Callable[[Unit], object] = lambda _unit: None
        self.calls: list[int] = []
        self.sizes: list[int] = []  # of the batches of which it was given units
        worker = make_handler(self._take, **said.pop("handler", {}))
        self.shared = shared(group, worker, **{"batch_size": BATCH, **said})
        self.board = self.shared.board
        self.leased = Leased(self.shared, group.assignment.partition, lease_no(group))

    def _take(self, units: Unit | Batch, *_: object) -> None:
        whole = units if isinstance(units, Batch) else [units]
        self.sizes.append(len(whole))
        for unit in whole:
            self.calls.append(unit.first_offset)
            self.act(unit)

    def free(self) -> None:
        """Let the former owner go."""
        hold.release(self.group.conn, self.group.assignment, lease_no(self.group))

    def take(self) -> Hand:
        """Come to where the partition is worked on."""
        self.free()
        self.own()
        return self

    def own(self) -> None:
        assert until(lambda: self.leased.turn() is None and self.leased.is_owned)

    def step(self, *sizes: int) -> list[int]:
        """Publish units of these sizes, take a turn, and return the sizes of its batches."""
        if sizes:
            self.world.units(*sizes)
        self.sizes.clear()
        assert self.leased.turn() is None
        return self.sizes[:]

    def turn_when_due(self) -> None:
        assert until(lambda: self.leased.due_s <= monotonic())
        self.step()

    @property
    def due_in_s(self) -> float:
        return self.leased.due_s - monotonic()

    @property
    def error(self) -> str | None:
        found: str | None = self.world.value(
            "select error from gapless.lease where group_id = %s", self.group.name
        )
        return found

    def fail(self, _unit: Unit) -> None:
        raise ValueError("refused")


@pytest.fixture
def group(shared_world: World, caplog: pytest.LogCaptureFixture) -> Iterator[Group]:
    caplog.set_level(logging.INFO, "gapless")
    made = shared_world.another_topic().group()
    yield made
    made.conn.close()


def test_it_looks_for_the_lock_ever_less_and_says_now_and_then_that_it_is_ready(
    group: Group,
) -> None:
    hand = Hand(group)
    with connect(group.world.dsn, role="test") as conn, connect(group.world.dsn, role="test") as me:
        where = "select 'gapless_g_' || group_no from gapless.consumer_group where group_id = %s"
        listen(conn, group.world.value(where, group.name))
        leased = Leased(replace(hand.shared, conn=me), group.assignment.partition, lease_no(group))
        assert leased.due_s <= monotonic()
        looks_s, poll_s = [monotonic()], LOCK_POLL_S
        for _ in range(20):
            assert leased.turn() is None
            looks_s.append(monotonic())
            assert looks_s[-2] <= leased.due_s - poll_s <= looks_s[-1]
            poll_s = min(poll_s * 1.5, LOCK_POLL_S_MAX)
        most = 1 + (looks_s[-1] - looks_s[0]) * 1000 // hold.READY_EVERY_MS
        said: list[object] = []
        assert until(lambda: said.extend(heard(conn)) or said), "it may come a moment later"
        assert len(said) <= most
        assert until(lambda: leased.turn() is None and heard(conn) != []), "and again"
        assert (leased.is_owned, leased.driver) == (False, None)
        hand.free()
        assert until(lambda: leased.turn() is None and leased.is_owned)


def test_the_fence_waits_for_a_late_owners_transaction(group: Group) -> None:
    hand = Hand(group)
    hand.free()
    with connect(group.world.dsn, role="test") as late:
        late.execute("begin")
        late.execute(
            "select from gapless.consumer_offsets where group_id = %s for update", [group.name]
        )
        hand.step()
        hand.step()
        assert 0 < hand.due_in_s <= LOCK_POLL_S
        assert not hand.leased.is_owned
        late.execute("rollback")
    hand.step()
    assert hand.leased.is_owned


# -- working --------------------------------------------------------------------------------------


def test_the_board_says_at_what_it_is_and_acquits_it_afterwards(group: Group) -> None:
    hand = Hand(group).take()
    board, seen = hand.board, []
    hand.act = lambda _unit: seen.append((board.subject(SLOT), board.work_ms(SLOT) > 0))
    hand.step(1)
    assert seen == [(lease_no(group), True)]
    assert (board.subject(SLOT), board.work_ms(SLOT)) == (0, 0)
    assert board.silence_ms(SLOT) > 0
    assert board.completed(SLOT) == 1


def test_batches_shrink_when_units_fail_and_grow_again(group: Group) -> None:
    hand = Hand(group, handler={"batch": True}).take()
    hand.act = hand.fail
    hand.step(1)
    assert hand.board.completed(SLOT) == 0
    hand.act = lambda _unit: None
    assert hand.step() == []
    more = [1] * (BATCH + 1)
    assert hand.step(*more)[0] == CAREFUL_BATCH
    assert max(hand.step(*more)) <= 2 * CAREFUL_BATCH
    assert until(lambda: max(hand.step(*more)) == BATCH)
    assert hand.board.completed(SLOT) > 2


def test_after_a_death_units_are_tried_alone_for_a_batch(group: Group) -> None:
    world = group.world
    pid = group.conn.info.backend_pid
    group.conn.close()
    assert until(
        lambda: not world.value("select exists (select from pg_stat_activity where pid = %s)", pid)
    )
    group.conn = connect(world.dsn, role="worker")
    hand = Hand(group, batch_size=4)
    hand.own()
    world.units(1, 2)
    assert [len(hand.step()) for _ in range(3)] == [1, 1, 0]
    hand.step(1, 1, 1)
    assert hand.calls == [1, 2, 4, 5, 6], "all in one turn: the look counted as well"


def test_it_rests_between_batches_of_a_stream_whatever_it_is_notified_of(group: Group) -> None:
    hand = Hand(group).take()
    hand.act = lambda _unit: group.conn.execute("select pg_sleep(0.001)")

    def rests() -> bool:
        hand.step(*[1] * 5)
        hand.leased.wake()
        return hand.due_in_s > 0

    assert not rests(), "one batch is no stream"
    assert until(rests)
    assert until(lambda: hand.due_in_s <= 0)
    due_s = hand.leased.due_s
    hand.leased.wake()
    assert hand.leased.due_s == due_s, "it is due already"


class Calls(Hand):
    """At-least-once calls, each of which lasts until it is told to end."""

    def __init__(self, group: Group) -> None:
        super().__init__(group, handler={"delivery": "at-least-once", "concurrency": 2})
        self.may_end = threading.Event()
        self.began_s: list[float] = []
        self.act = self.wait

    def wait(self, unit: Unit) -> None:
        self.began_s.append(monotonic())
        if unit.first_offset == 1:
            assert self.may_end.wait(60)
        raise ValueError("refused")


def keys(world: World, count: int) -> None:
    world.events(NewEvent(payload={}, key=f"k{n}", transaction_id=uuid4()) for n in range(count))


def test_while_all_fail_it_tries_one_unit_after_each_rest(group: Group) -> None:
    hand = Hand(group, handler={"batch": True}).take()
    hand.act = hand.fail
    keys(group.world, BRAKE_UNITS)
    hand.step()
    assert "slowed down" in (hand.error or "")
    due_s = hand.leased.due_s
    hand.leased.wake()
    assert hand.leased.due_s == due_s, "a notification does not hasten it"
    hand.calls.clear()
    assert until(lambda: hand.step(1, 1)[:1] == [1])
    assert set(hand.calls) == {BRAKE_UNITS + 1}


def test_while_calls_are_under_way_the_brake_lets_them_end(group: Group) -> None:
    hand, began_s = Calls(group), 0.0
    hand.take()
    keys(group.world, BRAKE_UNITS + 10)

    def is_braked() -> bool:
        nonlocal began_s
        began_s = monotonic()
        hand.step()
        return "slowed down" in (hand.error or "")

    assert until(is_braked)
    ended_s, rests_until_s = monotonic(), began_s + BRAKE_S_MIN
    assert (hand.leased.going_on, hand.board.subject(SLOT)) == (True, lease_no(group))
    hand.leased.wake()
    assert hand.due_in_s <= 0, "they are to be looked after"
    assert until(lambda: hand.step() is not None and monotonic() > rests_until_s)
    early = [each for each in hand.began_s if ended_s < each < rests_until_s]
    assert len(early) <= 1, "begins none, but for the one that its last turn began"
    called = len(hand.calls)
    hand.may_end.set()
    assert until(lambda: hand.step() is not None and len(hand.calls) > called), "after a rest"


def test_dropped_with_calls_under_way_it_lets_them_end_and_begins_none(group: Group) -> None:
    hand = Calls(group)
    hand.take()
    keys(group.world, 1)
    assert until(lambda: hand.step() is not None and hand.leased.going_on)
    assert monotonic() - 60 < (hand.leased.oldest_s or 0) < monotonic()
    hand.leased.drop()
    keys(group.world, 9)
    looks_until_s = monotonic() + 5 * LOOK_AT_END_S
    assert until(lambda: hand.step() is not None and monotonic() > looks_until_s)
    assert (hand.leased.is_owned, hand.calls) == (False, [1])
    hand.may_end.set()
    assert until(lambda: hand.leased.turn() == ExitCode.DRAINED)
    assert hand.calls == [1]
    assert (
        group.world.value("select owner from gapless.lease where group_id = %s", group.name) is None
    )


# -- trouble --------------------------------------------------------------------------------------


def test_what_passes_is_tried_again_and_told_in_the_lease_the_third_time(
    group: Group, caplog: pytest.LogCaptureFixture
) -> None:
    hand = Hand(group).take()

    def busy(_unit: Unit) -> None:
        raise TRANSIENT

    hand.act = busy
    group.world.units(1)
    caplog.clear()
    told, lines = [], []
    for attempt in range(1, 32):
        hand.step()
        told.append(hand.error)
        lines.append(len(caplog.messages))
        assert hand.due_in_s <= min(0.05 * 2**attempt, 10)
    assert (told[1], len(set(told[2:]))) == (None, 1)
    assert (told[2] or "").startswith("retrying: ")
    assert (told[2] or "").endswith("(attempt 3)")
    assert [at + 1 for at in range(31) if lines[at] > ([0, *lines])[at]] == [1, 3, 10, 30]
    due_s = hand.leased.due_s
    hand.leased.wake()
    assert hand.leased.due_s == due_s, "a notification does not hasten it"
    hand.act = lambda _unit: None
    hand.step()
    assert hand.error is None
    hand.leased.wake()
    assert hand.due_in_s <= 0
    hand.act = busy
    group.world.units(1)
    for _ in range(3):
        hand.step()
    assert (hand.error or "").startswith("retrying: ")
    filters = "select gapless.set_filter(%s, %s, '{other}')"
    assert group.world.value(filters, group.name, group.world.topic.name)
    hand.step()
    assert hand.error is None, "its filter has passed the unit"


class Broken:
    """A handler of which nothing can be asked."""

    def __init__(self, error: Exception, before: Callable[[], object] = lambda: None) -> None:
        self._error, self._before = error, before

    def __getattr__(self, name: str) -> Any:
        self._before()
        raise self._error


def broken(group: Group, worker: Any) -> Leased:
    hand = Hand(group)
    hand.free()
    on = replace(hand.shared, spec=replace(hand.shared.spec, handler=worker))
    leased = Leased(on, group.assignment.partition, lease_no(group))
    assert leased.turn() is None
    return leased


@pytest.mark.parametrize("error", [TRANSIENT, UsageError("no"), ZeroDivisionError("bug")])
def test_with_the_session_all_is_lost(group: Group, error: Exception) -> None:
    leased = broken(group, Broken(error, before=group.conn.close))
    with pytest.raises(psycopg.OperationalError):
        leased.turn()


def test_a_session_lost_at_work_is_blamed_on_it(group: Group) -> None:
    hand = Hand(group).take()
    kill = "select pg_terminate_backend(%s, 60000)"
    hand.act = lambda _unit: group.world.value(kill, group.conn.info.backend_pid)
    group.world.units(1)
    with pytest.raises(psycopg.OperationalError):
        hand.leased.turn()
    assert hand.board.subject(SLOT) == lease_no(group)


@pytest.mark.parametrize(
    ("error", "in_full"),
    [
        (UsageError("no"), False),
        (psycopg.errors.UndefinedTable("gone"), True),
        (ZeroDivisionError("bug"), True),
    ],
)
def test_what_does_not_pass_ends_its_service_and_frees_the_lock(
    group: Group, caplog: pytest.LogCaptureFixture, error: Exception, in_full: bool
) -> None:
    leased = broken(group, Broken(error))
    caplog.clear()
    assert leased.turn() == ExitCode.CRASHED
    assert bool(caplog.records[-1].exc_info) == in_full
    with connect(group.world.dsn, role="test") as other:
        assert hold.try_lock(other, lease_no(group))
