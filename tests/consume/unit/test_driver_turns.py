"""What a driver does turn by turn: the log, what was set aside, calls beside; what it raises and forgives.

With a clock that stands still; steps, calls and looks are answered as a test wants.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

import gapless
from gapless.consume import drive as module
from gapless.consume.agenda import ASIDES_EVERY_S, DOZE_S, LOOK_BUSY_S
from gapless.consume.drive import GOES_ON_S, Driver
from gapless.consume.job import Job, Step
from gapless.consume.read.claim import UnsettledError
from gapless.consume.user.handler import Handler
from gapless.consume.verdict.policy import OnFailure, Policy
from gapless.errors import BeyondError, HoleError, OverrunError
from gapless.keys import Assignment, Partition
from support.turn import turn as make_turn

CONN: Any = "the session"
OTHER: Any = "another session"
PLACE = Partition(group_id="g", topic="orders", topic_id=1, partition_id=3)
OURS = Assignment(partition=PLACE, epoch=5, token=UUID(int=1))
IDLE, FENCED = Step(outcome="idle"), Step(outcome="fenced")
DONE = Step(outcome="done", events=500, units=500, handled=500)
FEW = Step(outcome="done", events=3, units=3, handled=3)


class Calls:
    """Stands for AtLeastOnce and for ConcurrentRetries: what they are asked, and what they answer."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.going_on = False
        self.has_attempt = False
        self.oldest_s: float | None = None
        self.wait_s = 0.3
        self.answers: list[Step] = []

    def turn(self, job: Job, due: Sequence[int] = (), *, rests: bool = False) -> Step:
        asked: Any = job.terms.batch_size if self.name == "outside" else list(due)
        self.world.story.append((self.name, asked, *["rests"] * rests))
        return self.answers.pop(0) if self.answers else IDLE

    def abandon(self) -> None:
        self.world.story.append("abandoned")

    def forgive(self, conn: object, job: Job) -> None:
        assert job.assignment is OURS
        self.world.story.append(("beside is forgiven", conn))


class World:
    """The clock, and what steps, units that were set aside and looks find next."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1000.0
        self.step_s = 0.0
        self.story: list[Any] = []
        self.steps: list[Step | Exception] = []
        self.outcomes: list[Any] = []
        self.due: list[tuple[list[int], float | None]] = []
        self.holds_keys = False
        self.lost: int | None = 7
        self.went_on: list[bool] = []
        self.jobs: list[Job] = []
        self.outside, self.beside = Calls(self, "outside"), Calls(self, "beside")
        self.attempt: Callable[[], bool] = lambda: False
        for name in (
            "step", "step_alone", "retry_aside", "due_asides",
            "skip_overrun", "stop_beyond", "forget_try", "forget_attempt", "forget_deliveries",
        ):  # fmt: skip
            monkeypatch.setattr(module, name, getattr(self, name))
        monkeypatch.setattr(module, "holds_keys", self.asked_for_keys)
        monkeypatch.setattr(module, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(module, "hidden_rows", lambda _conn: None)
        monkeypatch.setattr(module, "AtLeastOnce", lambda *_: self.outside)
        monkeypatch.setattr(module, "ConcurrentRetries", lambda *_: self.beside)

    def driver(
        self,
        *,
        on_failure: OnFailure = "dead-letter",
        asides_beside: bool = False,
        outside: bool = False,
        **said: Any,
    ) -> Driver:
        made: Handler = gapless.handler(topic="orders")(_exactly_once)
        if outside:
            made = gapless.handler(topic="orders", delivery="at-least-once")(_at_least_once)
        made = replace(made, asides_beside=asides_beside)
        said["policy"] = Policy(on_failure=on_failure)
        driver = Driver(make_turn(CONN, OURS, made, batch_size=10, **said))
        self.attempt = lambda: driver.has_attempt
        return driver

    def told(self) -> list[Any]:
        told, self.story = self.story, []
        return told

    def _next(self) -> Step:
        self.now_s += self.step_s
        found = self.steps.pop(0) if self.steps else IDLE
        if isinstance(found, Exception):
            raise found
        return found

    def step(self, job: Job, *, batch_size: int | None, continue_while: Callable[[], bool]) -> Step:
        assert not self.attempt()
        self.jobs.append(job)
        self.story.append(("step", batch_size))
        self.went_on.append(continue_while())
        now_s, self.now_s = self.now_s, self.now_s + GOES_ON_S
        self.went_on.append(continue_while())
        self.now_s = now_s
        return self._next()

    def step_alone(self, job: Job) -> Step:
        assert self.attempt()
        self.story.append("alone")
        return self._next()

    def retry_aside(self, job: Job, first_offset: int) -> Any:
        assert self.attempt()
        self.story.append(("aside", first_offset))
        found = self.outcomes.pop(0) if self.outcomes else "handled"
        if isinstance(found, Exception):
            raise found
        return found

    def due_asides(self, job: Job) -> tuple[list[int], float | None]:
        self.story.append("look")
        return self.due.pop(0) if self.due else ([], None)

    def asked_for_keys(self, job: Job) -> bool:
        self.story.append("keys?")
        return self.holds_keys

    def skip_overrun(self, conn: object, ours: object, goal: str) -> int | None:
        assert (conn, ours) == (CONN, OURS)
        self.story.append(("skipped", goal))
        return self.lost

    def stop_beyond(self, conn: object, ours: object, log_end: int) -> None:
        assert (conn, ours) == (CONN, OURS)
        self.story.append(("beyond", log_end))

    def forget_try(self, conn: object, ours: object, first_offset: int) -> None:
        assert ours is OURS
        self.story.append(("try forgotten", conn, first_offset))

    def forget_attempt(self, conn: object, ours: object) -> None:
        assert ours is OURS
        self.story.append(("attempt forgotten", conn))

    def forget_deliveries(self, conn: object, ours: object) -> None:
        assert ours is OURS
        self.story.append(("deliveries forgotten", conn))


def _exactly_once(unit: object, conn: object) -> None: ...
def _at_least_once(unit: object) -> None: ...


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


# -- the log and what was set aside ---------------------------------------------------------------


def test_a_turn_takes_from_the_log_what_there_is(world: World) -> None:
    driver = world.driver()
    world.steps = [DONE, DONE]
    assert driver.turn() is DONE
    assert world.told() == ["keys?", "look", ("step", None)]
    assert driver.turn(batch_size=4) is DONE
    assert world.told() == [("step", 4)]
    assert world.went_on == [True, False] * 2, "batch after batch, but not for long"
    assert driver.wait_s(DONE, 1.0) == 0.0


def test_one_alone_has_an_attempt_until_its_turn_ends(world: World) -> None:
    driver = world.driver()
    world.steps = [FEW]
    assert driver.turn(alone=True) is FEW
    assert world.told()[-1] == "alone"
    assert not driver.has_attempt
    assert driver.wait_s(FEW, 1.0) == 0.0, "of one unit nothing is known of those behind it"
    world.steps = [ConnectionError()]
    with pytest.raises(ConnectionError):
        driver.turn(alone=True)
    assert driver.has_attempt
    driver.forgive(OTHER)
    assert world.told()[-1] == ("attempt forgotten", OTHER)
    world.steps = [FEW]
    driver.turn()
    assert not driver.has_attempt


def test_what_is_due_and_the_log_take_turns(world: World) -> None:
    driver = world.driver()
    world.due = [([7, 9], None)]
    world.steps = [DONE, DONE]
    world.outcomes = ["waiting", "dead"]
    assert driver.turn() == Step(outcome="done", waiting=1)
    assert world.told()[-1] == ("aside", 7)
    assert driver.turn() is DONE
    assert driver.turn() == Step(outcome="done", dead=1)
    assert world.told() == [("step", None), ("aside", 9)]
    driver.turn()
    assert world.told() == ["look", ("step", None)], "there may be more than one look finds"
    world.due = [([11, 13, 15], None)]
    world.now_s += LOOK_BUSY_S
    assert driver.turn() == Step(outcome="done", handled=1)
    assert driver.turn().handled == 1, "the log is idle"
    assert world.told() == ["look", ("aside", 11), ("step", None), ("aside", 13)]
    assert driver.has_due()
    world.outcomes = ["fenced"]
    assert driver.turn() == FENCED


def test_what_the_log_set_aside_just_now_is_looked_for_at_once(world: World) -> None:
    driver = world.driver()
    world.steps = [Step(outcome="done", events=9, waiting=1), DONE]
    driver.turn()
    world.told()
    driver.turn()
    assert world.told() == ["look", ("step", None)]
    driver.turn()
    assert world.told() == [("step", None)]


def test_what_was_set_aside_and_loses_its_session_is_forgiven_until_the_log_has_a_turn(
    world: World,
) -> None:
    driver = world.driver()
    world.due = [([7], None)]
    world.outcomes = [ConnectionError()]
    with pytest.raises(ConnectionError):
        driver.turn()
    assert driver.has_attempt
    world.told()
    driver.forgive(OTHER)
    assert world.told() == [("try forgotten", OTHER, 7)]
    assert driver.turn().outcome == "done"
    assert not driver.has_attempt
    driver.turn()
    world.told()
    driver.forgive(OTHER)
    assert world.told() == [("attempt forgotten", OTHER)]


def test_whether_anything_is_due_is_looked_for_at_once(world: World) -> None:
    driver = world.driver()
    driver.turn()
    world.told()
    world.due = [([], 3.0), ([8], None)]
    assert not driver.has_due()
    assert driver.has_due()
    assert driver.has_due()
    assert world.told() == ["look", "look"]


# -- how long it sleeps ---------------------------------------------------------------------------


def test_an_idle_one_sleeps_until_something_is_due(world: World) -> None:
    driver = world.driver()
    world.due = [([], 0.5)]
    assert driver.wait_s(driver.turn(), 1.0) == 0.5
    assert world.driver().wait_s(IDLE, 1.0) == 1.0
    assert world.driver().wait_s(IDLE, 2.5) == 2.5
    busy = world.driver(outside=True)
    world.outside.going_on = True
    assert busy.wait_s(IDLE, 1.0) == 0.3
    world.outside.wait_s = 7.0
    assert busy.wait_s(IDLE, 1.0) == 1.0
    world.outside.going_on, world.outside.wait_s = False, 0.1
    assert busy.wait_s(IDLE, 1.0) == 1.0


@pytest.mark.parametrize(
    ("done", "doze_s"),
    [
        (FEW, DOZE_S),
        (Step(outcome="done", events=9, dead=1), 0.0),
        (Step(outcome="done", events=9, waiting=1), 0.0),
        (Step(outcome="done", events=9), DOZE_S),
        (Step(outcome="done", events=1), DOZE_S),
        (Step(outcome="done", events=10), 0.0),
        (Step(outcome="done", events=0), 0.0),
    ],
)
def test_after_all_there_was_it_dozes(world: World, done: Step, doze_s: float) -> None:
    driver = world.driver()
    world.steps = [done, Step(outcome="done", events=10), Step(outcome="done", events=3)]
    assert driver.wait_s(driver.turn(), 1.0) == doze_s
    driver.turn(batch_size=11)
    assert driver.wait_s(DONE, 1.0) == DOZE_S
    driver.turn(batch_size=3)
    assert driver.wait_s(DONE, 1.0) == 0.0


def test_outside_a_note_says_nothing_of_the_end(world: World) -> None:
    driver = world.driver(outside=True)
    world.outside.answers = [FEW]
    assert driver.wait_s(driver.turn(), 1.0) == 0.0


def test_a_stream_rests(world: World) -> None:
    driver = world.driver()
    world.steps = [Step(outcome="done", events=9)] * 2
    assert driver.rest_s(driver.turn(), 0.001) == 0.0
    assert driver.rest_s(driver.turn(), 0.001) == 0.003


def test_who_is_woken_in_vain_looks_at_what_is_due(world: World) -> None:
    driver = world.driver()
    driver.wait_s(driver.turn(), 1.0)
    world.told()
    world.now_s += 0.5
    world.due = [([8], None)]
    assert driver.turn() == Step(outcome="done", handled=1), "in this very turn"
    assert world.told() == [("step", None), "look", ("aside", 8)]
    driver.wait_s(driver.turn(), 1.0)
    world.told()
    world.now_s += 0.95
    driver.turn()
    assert world.told() == [("step", None)], "it slept as long as it had meant to"
    driver.wait_s(IDLE, 1.0)
    world.now_s += 0.5
    world.steps = [DONE]
    driver.turn()
    assert world.told() == [("step", None)], "it was the log"


# -- calls outside --------------------------------------------------------------------------------


def test_what_is_due_leaves_the_calls_time(world: World) -> None:
    driver = world.driver(outside=True)
    world.due = [([7, 9], None)]
    world.outside.answers = [DONE] * 3
    driver.turn()
    driver.turn()
    driver.turn()
    world.now_s += ASIDES_EVERY_S
    driver.turn()
    assert world.told()[2:] == [("aside", 7), *[("outside", 10)] * 2, ("aside", 9)]


def test_calls_under_way_are_what_goes_on(world: World) -> None:
    driver = world.driver(outside=True, asides_beside=True)
    assert not driver.going_on
    world.outside.going_on, world.outside.oldest_s = True, 20.0
    assert driver.going_on
    assert driver.oldest_s == 20.0
    assert not driver.has_attempt
    world.beside.oldest_s = 10.0
    assert driver.oldest_s == 10.0
    world.outside.going_on, world.beside.going_on = False, True
    assert driver.going_on
    assert driver.has_attempt
    world.beside.going_on, world.outside.has_attempt = False, True
    assert driver.has_attempt
    world.told()
    driver.forgive(OTHER)
    assert world.told() == [("deliveries forgotten", OTHER), ("beside is forgiven", OTHER)]


# -- beside the log -------------------------------------------------------------------------------


def test_beside_the_log_both_have_their_turn(world: World) -> None:
    driver = world.driver(outside=True, asides_beside=True)
    world.due = [([7, 9], None)]
    dead = Step(outcome="done", dead=1)
    world.beside.answers, world.outside.answers = [dead], [FEW]
    both = driver.turn(batch_size=5)
    assert (both.dead, both.events) == (1, 3)
    assert world.told() == ["keys?", "look", ("beside", [7, 9]), ("outside", 5)]
    assert not driver.has_due()
    world.told()
    world.outside.answers = [FEW]
    assert driver.turn() is FEW
    assert world.told() == [("outside", 10)], "nothing is due, and nothing is under way"
    world.beside.going_on, world.beside.answers = True, [dead]
    assert driver.turn() is dead
    assert world.told() == [("beside", []), ("outside", 10)]


@pytest.mark.parametrize("by_log", [True, False])
def test_whoever_finds_that_the_partition_is_anothers_ends_both(
    world: World, *, by_log: bool
) -> None:
    driver = world.driver(outside=True, asides_beside=True)
    world.beside.going_on = True
    if by_log:
        world.outside.answers = [FENCED]
        assert driver.turn() == FENCED
        assert world.told()[2:] == [("beside", []), ("outside", 10), "abandoned"]
    else:
        world.beside.answers = [FENCED]
        assert driver.turn() == FENCED
        assert world.told()[2:] == [("beside", [])]


def test_to_rest_begins_nothing(world: World) -> None:
    driver = world.driver(outside=True, asides_beside=True)
    world.outside.answers = [FEW]
    assert driver.rest() is FEW
    assert world.told() == [("outside", 10, "rests")]
    world.beside.going_on = True
    dead = Step(outcome="done", dead=1)
    world.outside.answers, world.beside.answers = [FEW], [dead]
    both = driver.rest()
    assert (both.dead, both.events) == (1, 3)
    assert world.told() == [("beside", []), ("outside", 10, "rests")]
    world.outside.answers, world.beside.answers = [FEW], [IDLE]
    assert driver.rest() is FEW


# -- what keeps the group from continuing ---------------------------------------------------------


def _overrun(world: World, goal: Any) -> Driver:
    world.steps = [OverrunError("offsets 3 to 5 were dropped")]
    return world.driver(auto_offset_reset=goal)


def test_what_was_dropped_is_skipped_if_the_group_says_so(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, "gapless.worker"):
        assert _overrun(world, "latest").turn() == Step(outcome="done")
    assert world.told()[-1] == ("skipped", "latest")
    assert caplog.messages == [
        "g/orders/3: 7 offsets lost, continues at latest: offsets 3 to 5 were dropped"
    ]
    world.lost = None
    assert _overrun(world, "earliest").turn() == FENCED
    with pytest.raises(OverrunError):
        _overrun(world, "error").turn()
    assert world.told()[-1] == ("step", None)


def test_what_was_dropped_is_nobodys_fault(world: World) -> None:
    for goal in ("earliest", "error"):
        driver = _overrun(world, goal)
        try:
            driver.turn(alone=True)
        except OverrunError:
            assert goal == "error"
        assert not driver.has_attempt


class SettledOnceError(UnsettledError):
    """The first time it can be settled, then another owner has the partition."""

    settled = 0

    def settle(self, conn: object, assignment: object) -> bool:
        assert (conn, assignment) == (CONN, OURS)
        self.settled += 1
        return self.settled == 1


def test_what_is_to_be_settled_first_is_settled(world: World) -> None:
    driver, error = world.driver(), SettledOnceError()
    world.steps = [error, error]
    assert driver.turn(alone=True) == Step(outcome="done")
    assert not driver.has_attempt
    assert driver.turn() == FENCED


def test_beyond_the_end_the_group_is_stopped(world: World) -> None:
    driver = world.driver()
    world.steps = [BeyondError("beyond", log_end=44)]
    with pytest.raises(BeyondError):
        driver.turn()
    assert world.told()[-1] == ("beyond", 44)


def test_a_hole_says_what_continues_without_it(world: World) -> None:
    driver = world.driver()
    world.steps = [HoleError("lost", first_offset=12), HoleError("lost")]
    with pytest.raises(HoleError, match=r"^lost; gapless skip g/orders/3@12 continues without"):
        driver.turn()
    with pytest.raises(HoleError, match=r"^lost$"):
        driver.turn()
