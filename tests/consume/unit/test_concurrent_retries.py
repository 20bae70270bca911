"""Units that were set aside, called beside the log: which begin, how they end, which is alone, what is forgiven.

What is written down of tries, and how calls end, is as a test wants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest

import gapless
from gapless.consume.aside.retry import ClaimedAside
from gapless.consume.job import Job, Step
from gapless.consume.outside import concurrent_retries as module
from gapless.consume.outside.calls import Ended
from gapless.consume.outside.concurrent_retries import AT_A_TIME, ConcurrentRetries
from gapless.consume.user.handler import Handler
from gapless.consume.verdict.failure import Failure
from gapless.consume.verdict.policy import Policy
from gapless.keys import Assignment, Partition
from support.turn import turn as make_turn

CONN: Any = "the session"
PLACE = Partition(group_id="g", topic="orders", topic_id=1, partition_id=3)
OURS = Assignment(partition=PLACE, epoch=5, token=UUID(int=1))
IDLE, FENCED = Step(outcome="idle"), Step(outcome="fenced")
REFUSED = Failure(error=ValueError("no"))


class World:
    """How often tries of units had no end, what their claims say, and how their calls end."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.story: list[Any] = []
        self.tries: dict[int, int | None] = {}
        self.claims: dict[int, Any] = {}
        self.under_way: set[int] = set()
        self.ends: dict[int, Ended] = {}
        self.ends_at_last: list[tuple[int, Ended]] = []
        self.outcomes: dict[int, Any] = {}
        for name in ("record_try", "end_deadly", "end_outside", "forget_try", "look_outside"):
            monkeypatch.setattr(module, name, getattr(self, name))
        monkeypatch.setattr(module, "Calls", self._calls)
        made: Handler = gapless.handler(topic="orders", delivery="at-least-once")(_handle)
        self.job = make_turn(CONN, OURS, made, policy=Policy(crashes_max=3))

    def beside(self, *, waits: bool = False) -> ConcurrentRetries:
        return ConcurrentRetries(self.job, None if waits else str)

    def told(self) -> list[Any]:
        told, self.story = self.story, []
        return told

    # -- Calls ------------------------------------------------------------------------------------

    oldest_s = 6.0

    def _calls(self, handler: Handler, concurrency: int, wake: Callable[[], None]) -> World:
        assert (handler, concurrency) == (self.job.handler, AT_A_TIME)
        wake()
        return self

    def __len__(self) -> int:
        return len(self.under_way)

    def begin(self, unit: Any, conn: object) -> None:
        assert conn is CONN
        self.story.append(("call", unit))
        self.under_way.add(unit)

    def collect(self, *, wait: bool) -> Iterator[tuple[int, Ended]]:
        found = list(self.ends.items())
        self.ends.clear()
        if wait and self.ends_at_last:
            self.story.append("wait")
            found.append(self.ends_at_last.pop(0))
        for first, end in found:
            self.under_way.discard(first)
            yield first, end

    def elsewhere(self, fetch: Any) -> Any:
        raise AssertionError

    def abandon(self) -> None:
        self.story.append("abandoned")
        self.under_way.clear()

    # -- what is written down ---------------------------------------------------------------------

    def record_try(self, job: Job, first: int) -> int | None:
        assert job is self.job
        self.story.append(("try", first))
        return self.tries.get(first, 1)

    def forget_try(self, conn: object, ours: object, first: int) -> None:
        assert ours is OURS
        self.story.append(("forget", conn, first))

    def end_deadly(self, job: Job, first: int, tries: int) -> Any:
        self.story.append(("deadly", first, tries))
        return "dead"

    def look_outside(self, job: Job, first: int, through: object) -> Any:
        assert through == self.elsewhere
        said = self.claims.get(first, "claimed")
        claimed = ClaimedAside(said, "7", first, 0, False, None)
        return claimed, first if said == "claimed" else None

    def end_outside(self, job: Job, first: int, claimed: ClaimedAside, end: Any) -> Any:
        assert claimed.last_offset == first
        self.story.append(("end", first, end))
        found = self.outcomes.get(first, "handled")
        if isinstance(found, Exception):
            raise found
        return found


def _handle(unit: object) -> None: ...


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def test_what_is_due_begins_and_its_end_is_noted(world: World) -> None:
    beside = world.beside()
    assert not beside.going_on
    assert beside.oldest_s == 6.0
    assert beside.turn(world.job) == IDLE
    assert beside.turn(world.job, [4, 7]) == IDLE, "none has ended"
    assert world.told() == [("try", 4), ("call", 4), ("try", 7), ("call", 7)]
    assert beside.going_on
    world.ends = {7: None}
    assert beside.turn(world.job, [4, 7]) == Step(outcome="done", handled=1)
    assert world.told() == [("end", 7, None)], "those in hand are not begun again"
    assert beside.going_on
    world.ends, world.outcomes = {4: REFUSED}, {4: "waiting"}
    assert beside.turn(world.job) == Step(outcome="done", waiting=1, asked=1)
    assert world.told() == [("end", 4, REFUSED)]
    assert not beside.going_on


def test_only_so_many_at_a_time(world: World) -> None:
    beside = world.beside()
    beside.turn(world.job, range(1, AT_A_TIME + 5))
    assert world.under_way == set(range(1, AT_A_TIME + 1))
    world.told()
    world.ends = {2: None}
    beside.turn(world.job, [30])
    assert world.told() == [("end", 2, None)], "it was full when the turn began"
    beside.turn(world.job, [30])
    assert world.told() == [("try", 30), ("call", 30)]


def test_what_had_no_end_before_is_alone(world: World) -> None:
    beside = world.beside()
    world.tries = {5: 2, 6: 2}
    assert beside.turn(world.job, [4, 5, 6]) == IDLE
    assert world.told() == [("try", 4), ("call", 4), ("try", 5), ("forget", CONN, 5)]
    beside.turn(world.job, [5, 6])
    assert world.told() == [], "what is in hand ends first"
    world.ends = {4: None}
    beside.turn(world.job, [5, 6])
    world.told()
    beside.turn(world.job, [5, 6])
    assert world.told() == [("try", 5), ("call", 5)]
    beside.turn(world.job, [6, 7])
    assert world.told() == []
    world.ends = {5: None}
    beside.turn(world.job)
    world.told()
    beside.turn(world.job, [7, 8])
    assert world.told() == [("try", 7), ("call", 7), ("try", 8), ("call", 8)]


def test_what_too_many_died_of_is_called_no_more(world: World) -> None:
    beside = world.beside()
    world.tries = {4: 4, 5: 3}
    assert beside.turn(world.job, [4]) == Step(outcome="done", dead=1)
    assert world.told() == [("try", 4), ("deadly", 4, 4)]
    assert not beside.going_on
    beside.turn(world.job, [5])
    assert world.told() == [("try", 5), ("call", 5)]


@pytest.mark.parametrize("by", ["claim", "try", "end"])
def test_another_owner_ends_it_all(world: World, by: str) -> None:
    beside = world.beside()
    beside.turn(world.job, [4, 8])
    world.ends = {4: REFUSED}
    if by == "claim":
        world.claims = {9: "fenced"}
    elif by == "try":
        world.tries = {9: None}
    else:
        world.outcomes = {4: "fenced"}
    assert beside.turn(world.job, [9]) == FENCED
    assert "abandoned" in world.told()
    assert not beside.going_on
    assert beside.turn(world.job) == IDLE


def test_an_error_of_the_environment_is_no_attempt(world: World) -> None:
    beside = world.beside()
    beside.turn(world.job, [4, 5])
    world.told()
    world.ends = {4: ConnectionError("lost"), 5: None}
    with pytest.raises(ConnectionError):
        beside.turn(world.job)
    assert world.told() == [("forget", CONN, 4)]
    assert beside.going_on
    assert beside.turn(world.job) == Step(outcome="done", handled=1)
    assert world.told() == [("end", 5, None)]
    assert not beside.going_on


def test_what_ended_and_is_anothers_is_forgotten(world: World) -> None:
    beside = world.beside()
    beside.turn(world.job, [4, 5])
    world.ends = {4: ConnectionError("lost"), 5: None}
    with pytest.raises(ConnectionError):
        beside.turn(world.job)
    beside.abandon()
    assert not beside.going_on
    world.told()
    assert beside.turn(world.job) == IDLE
    assert world.told() == []


def test_without_a_wake_a_turn_waits_until_all_have_ended(world: World) -> None:
    beside = world.beside(waits=True)
    world.ends_at_last = [(4, None), (5, REFUSED)]
    world.outcomes = {5: "dead"}
    assert beside.turn(world.job, [4, 5]) == Step(outcome="done", handled=1, dead=1)
    assert world.told()[4:] == ["wait", "wait", ("end", 4, None), ("end", 5, REFUSED)]
    patient = world.beside()
    world.ends_at_last = [(4, None)]
    assert patient.turn(world.job, [4]) == IDLE
    assert "wait" not in world.told()


def test_all_in_hand_is_forgiven_from_a_new_session(world: World) -> None:
    beside = world.beside()
    beside.turn(world.job, [4, 5])
    world.told()
    new: Any = "another session"
    beside.forgive(new, world.job)
    assert world.told() == [("forget", new, 4), ("forget", new, 5)]
