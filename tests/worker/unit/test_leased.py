"""A partition in the hands of a worker, from waiting for it to letting go, turn by turn.

With a database and a driver that answer as a test wants, and a clock that stands still.
"""

import logging
import time
from collections.abc import Iterator
from functools import partial
from itertools import count
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import psycopg
import pytest

from gapless.consume.job import Step
from gapless.consume.verdict.policy import DEAD_LETTER
from gapless.errors import HoleError, UsageError
from gapless.keys import Assignment, Partition
from gapless.lease import hold
from gapless.settings import Settings
from gapless.worker import leased, service, states
from gapless.worker.board import Board
from gapless.worker.failure_backoff import BRAKE_S_MIN, BRAKE_UNITS
from gapless.worker.leased import Leased
from gapless.worker.service import Service, Shared
from gapless.worker.spec import ExitCode
from gapless.worker.states import (
    CAREFUL_BATCH,
    INSTALL_WAIT_MS,
    LOCK_POLL_S,
    LOCK_POLL_S_MAX,
    Working,
)

HERE = Partition(group_id="g", topic="t", topic_id=1, partition_id=0)
OURS = Assignment(partition=HERE, epoch=3, token=UUID(int=1))
LEASE_NO, SLOT, BATCH = 7, 1, 256


RETRY_S = 0.25


def _fail(retries: Any) -> float:
    """Count a failure; wait as long for each."""
    retries.failures += 1
    return RETRY_S


class World:
    """The clock, the database, the driver, and what was asked of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1000.0
        self.story: list[object] = []
        self.is_free = False
        self.held: Any = hold.Held(assignment=OURS, unclean=False)
        self.done: Step | Exception = Step(outcome="idle")
        self.going_on = False
        self.oldest_s: float | None = None
        self.waits_s, self.rests_s = 0.5, 0.0
        self.is_sound = True
        self.board = Board(2)
        for each in (leased, service, states):
            monkeypatch.setattr(each, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(time, "monotonic_ns", partial(self._tick, count()))
        say = self.story.append
        monkeypatch.setattr(hold, "try_take", self._try_take)
        monkeypatch.setattr(hold, "install", self._install)
        monkeypatch.setattr(hold, "announce", lambda *_: say("announce"))
        monkeypatch.setattr(hold, "unlock", lambda _conn, lease_no: say(("unlock", lease_no)))
        monkeypatch.setattr(hold, "release", lambda _conn, ours, no: say(("release", ours, no)))
        monkeypatch.setattr(hold, "report_error", lambda _conn, _ours, text: say(("report", text)))
        monkeypatch.setattr(service, "is_sound", lambda _conn: self.is_sound)
        monkeypatch.setattr("gapless.db.hidden.hidden_rows", lambda _conn: None)
        monkeypatch.setattr(service.Retries, "failed", _fail)
        monkeypatch.setattr(states, "Driver", lambda *_, **__: self)
        monkeypatch.setattr(states, "Job", lambda **said: said)
        monkeypatch.setattr(states, "owns", lambda _: None)
        monkeypatch.setattr(states, "failing_keys", lambda *_: (BRAKE_UNITS, 0.0))
        monkeypatch.setattr(leased, "has_turn", lambda _: None)
        monkeypatch.setattr(states, "in_use", [SimpleNamespace(happened=say)])
        spec: Any = SimpleNamespace(
            slot=SLOT, member_id=UUID(int=2), handler=None, former_end="", is_auto=False,
            settings=Settings(zombie_after_ms=5000, wait_period_ms=1000), terms=SimpleNamespace(batch_size=BATCH, policy=DEAD_LETTER),
        )  # fmt: skip
        conn: Any = SimpleNamespace(closed=False)
        wakeup: Any = SimpleNamespace(ring=None)
        self.conn = conn
        self.leased = Leased(Shared(spec, conn, self.board, wakeup), HERE, LEASE_NO)
        self.service: Service = self.leased._service

    def _tick(self, ticks: Iterator[int]) -> int:
        return int(self.now_s * 1e9) + next(ticks)

    def _try_take(self, _conn: object, lease_no: int, *_: object) -> Assignment | None:
        assert lease_no == LEASE_NO
        return OURS if self.is_free else None

    def _install(self, _conn: object, _ours: object, wait_ms: int) -> Any:
        assert wait_ms == INSTALL_WAIT_MS
        if isinstance(self.held, Exception):
            raise self.held
        return self.held

    # -- as a driver ------------------------------------------------------------------------------

    def turn(self, *, batch_size: int, alone: bool) -> Step:
        assert self.board.work_ms(SLOT) > 0
        self.story.append(("alone" if alone else "turn", batch_size))
        if isinstance(self.done, Exception):
            raise self.done
        return self.done

    def rest(self) -> Step:
        self.story.append("rest")
        assert isinstance(self.done, Step)
        return self.done

    def wait_s(self, _done: Step, _period_s: float) -> float:
        return self.waits_s

    def rest_s(self, _done: Step, _took_s: float) -> float:
        return self.rests_s

    # -- as a test ---------------------------------------------------------------------------------

    def take(self, *, unclean: bool = False) -> None:
        """Come to where the partition is worked on."""
        self.is_free, self.held = True, hold.Held(assignment=OURS, unclean=unclean)
        assert self.leased.turn() is self.leased.turn() is None
        assert isinstance(self.leased._state, Working)
        self.story.clear()

    def step(self, done: Step | Exception | None = None) -> list[object]:
        """Take a turn that comes to this; return what was asked for."""
        if done is not None:
            self.done = done
        self.story.clear()
        assert self.leased.turn() is None
        return self.story[:]

    @property
    def due_in_s(self) -> float:
        return round(self.leased.due_s - self.now_s, 6)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> World:
    caplog.set_level(logging.INFO, "gapless")
    return World(monkeypatch)


def test_it_looks_for_the_lock_ever_less_and_says_now_and_then_that_it_is_ready(
    world: World,
) -> None:
    assert world.due_in_s == 0
    assert (world.leased.is_owned, world.leased.driver) == (False, None)
    polls, announced = [], []
    for _ in range(12):
        announced.append("announce" in world.step())
        polls.append(world.due_in_s)
        world.now_s += polls[-1]
    assert polls[:3] == pytest.approx([LOCK_POLL_S, LOCK_POLL_S * 1.5, LOCK_POLL_S * 2.25])
    assert polls[-1] == LOCK_POLL_S_MAX
    assert announced.count(True) == 7, "once it polls as seldom as that, each time"
    assert announced[:2] == [True, False]


def test_the_fence_waits_for_a_late_owners_transaction(world: World) -> None:
    world.is_free, world.held = True, psycopg.errors.LockNotAvailable("busy")
    world.step()
    assert world.step() == []
    assert (world.due_in_s, world.leased.is_owned) == (LOCK_POLL_S, False)
    world.held = hold.Held(assignment=OURS, unclean=False)
    assert world.step() == ["takeover"]


# -- working --------------------------------------------------------------------------------------


def test_the_board_says_at_what_it_is_and_acquits_it_afterwards(world: World) -> None:
    world.take()
    world.step()
    assert (world.board.subject(SLOT), world.board.work_ms(SLOT)) == (0, 0)
    assert world.board.silence_ms(SLOT) > 0
    world.going_on = True
    world.step()
    assert world.board.subject(SLOT) == LEASE_NO, "calls are under way"
    world.going_on, world.conn.closed = False, True
    world.step()
    assert world.board.subject(SLOT) == LEASE_NO, "lost at work on it"


def _failing(failed: int = 1, **more: int) -> Step:
    return Step(outcome="done", events=failed, units=failed, waiting=failed, **more)


def test_batches_shrink_when_units_fail_and_grow_again(world: World) -> None:
    world.take()
    fine = Step(outcome="done", events=9, handled=9)
    assert world.step(_failing()) == [("turn", BATCH)]
    assert world.board.completed(SLOT) == 0
    assert world.step(Step(outcome="idle")) == [("turn", CAREFUL_BATCH)]
    assert world.step(fine) == [("turn", CAREFUL_BATCH)]
    assert world.board.completed(SLOT) == 1
    sizes = [world.step(fine) for _ in range(4)]
    assert sizes == [[("turn", size)] for size in (128, 256, 256, 256)]


def test_while_calls_are_under_way_the_brake_lets_them_end(world: World) -> None:
    world.take()
    world.going_on, world.waits_s = True, 0.1
    world.step(_failing(BRAKE_UNITS))
    assert world.due_in_s == 0.1, "they are to be looked after"
    world.leased.wake()
    assert world.due_in_s == 0
    assert world.step(Step(outcome="idle")) == ["rest"]
    world.now_s += BRAKE_S_MIN
    assert world.step() == [("turn", 1)]


def test_after_a_death_units_are_tried_alone_for_a_batch(world: World) -> None:
    world.take(unclean=True)
    assert world.step(Step(outcome="done", events=BATCH - 1)) == [("alone", BATCH)]
    assert world.step(Step(outcome="idle")) == [("alone", BATCH)]
    assert world.step() == [("turn", BATCH)]
    world.done = Step(outcome="done", events=1)
    assert world.step() == [("turn", BATCH)]


def test_it_rests_between_batches_whatever_it_is_notified_of(world: World) -> None:
    world.take()
    world.rests_s = 0.2
    world.step()
    assert world.due_in_s == 0.5
    world.leased.wake()
    assert world.due_in_s == pytest.approx(0.2)
    world.now_s += 0.1
    world.leased.wake()
    assert world.due_in_s == pytest.approx(0.1)
    world.now_s += 0.3
    due_s = world.leased.due_s
    world.leased.wake()
    assert world.leased.due_s == due_s, "it is due already"


# -- trouble --------------------------------------------------------------------------------------

TRANSIENT = psycopg.errors.SerializationFailure("busy")
HOLE = HoleError.__new__(HoleError)
Exception.__init__(HOLE, "a hole")


def test_what_passes_is_tried_again_and_told_in_the_lease_the_third_time(
    world: World, caplog: Any
) -> None:
    world.take()
    caplog.clear()
    reports, lines = [], []
    for _ in range(31):
        asked = world.step(TRANSIENT)
        reports.append(len(asked) - 1)
        lines.append(len(caplog.messages))
        assert world.due_in_s == RETRY_S
    assert [at + 1 for at, said in enumerate(reports) if said] == [3]
    assert lines[:4] == [1, 1, 2, 2]
    assert (lines[8], lines[9], lines[28], lines[29], lines[30]) == (2, 3, 3, 4, 4)
    world.leased.wake()
    assert world.due_in_s == RETRY_S, "a notification does not hasten it"
    assert world.step(Step(outcome="idle")) == [("turn", BATCH), ("report", None)]
    assert world.step() == [("turn", BATCH)], "told once"
    world.leased.wake()
    assert world.due_in_s == 0


@pytest.mark.parametrize("error", [TRANSIENT, HOLE, UsageError("no"), ZeroDivisionError("bug")])
def test_with_the_session_all_is_lost(world: World, error: Exception) -> None:
    world.take()
    world.done, world.is_sound = error, False
    with pytest.raises(psycopg.OperationalError):
        world.leased.turn()


@pytest.mark.parametrize(
    ("error", "in_full"),
    [
        (UsageError("no"), False),
        (psycopg.errors.UndefinedTable("gone"), True),
        (ZeroDivisionError("bug"), True),
    ],
)
def test_what_does_not_pass_ends_its_service_and_frees_the_lock(
    world: World, caplog: Any, error: Exception, in_full: bool
) -> None:
    world.take()
    caplog.clear()
    world.done = error
    assert world.leased.turn() == ExitCode.CRASHED
    assert world.story[-1] == ("unlock", LEASE_NO)
    [record] = caplog.records
    assert bool(record.exc_info) == in_full


def test_dropped_with_calls_under_way_it_lets_them_end_and_begins_none(world: World) -> None:
    world.take()
    world.going_on, world.oldest_s = True, 990.0
    assert (world.leased.going_on, world.leased.oldest_s) == (True, 990.0)
    world.leased.drop()
    assert world.step() == ["rest"]
    world.going_on = False
    assert world.leased.turn() == ExitCode.DRAINED
