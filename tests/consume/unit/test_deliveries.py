"""At least once, turn by turn: what is written down when calls begin and end, and what becomes of each unit.

What was read ahead, and how calls end, is as a test wants; what a note says is compared.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from uuid import UUID

import psycopg
import pytest

import gapless
from gapless.consume.aside.parking import BEHIND
from gapless.consume.job import Job, Step
from gapless.consume.outside import delivery as module
from gapless.consume.outside.calls import Ended
from gapless.consume.outside.delivery import AtLeastOnce
from gapless.consume.outside.window import Window
from gapless.consume.unit import Span
from gapless.consume.user.handler import Handler
from gapless.consume.verdict.failure import Failure, crash_reason
from gapless.consume.verdict.policy import OnFailure, Policy, Verdict
from gapless.errors import BlockedError, HoleError
from gapless.keys import Assignment, Partition
from support.turn import turn as make_turn

CONN: Any = "the session"
PLACE = Partition(group_id="g", topic="orders", topic_id=1, partition_id=3)
OURS = Assignment(partition=PLACE, epoch=5, token=UUID(int=1))
IDLE, FENCED = Step(outcome="idle"), Step(outcome="fenced")
REFUSED = Failure(error=ValueError("no"))


class Sieve:
    """Which units are to be parked, and whose keys are held."""

    def __init__(self) -> None:
        self.parked: set[int] = set()
        self.held: list[int] = []

    def stops(self, first: int) -> bool:
        return first in self.parked

    def hold(self, first: int) -> None:
        self.held.append(first)


class Ahead:
    """Stands for Lookahead: a real window, of which all that is ready is chosen."""

    def __init__(self, world: World) -> None:
        world.aheads.append(self)
        self.world = world
        self.window = Window()
        self.suspects: dict[int, int] = {}
        self.sieve = Sieve()
        self.outcome = "claimed"
        self.wait_s = 0.7

    def look(self, job: Job) -> str:
        self.world.story.append("look")
        return self.outcome

    def choose(self, job: Job, in_hand: Collection[int]) -> list[Span]:
        chosen: list[Span] = []
        while (span := self.window.take()) is not None:
            chosen.append(span)
        return chosen


class World:
    """How calls end, what notes are answered, and what there is to read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.story: list[Any] = []
        self.notes: list[dict[str, Any]] = []
        self.refusals: list[Any] = []
        self.attempts: dict[int, int] = {}
        self.aheads: list[Ahead] = []
        self.under_way: dict[int, int] = {}
        self.ends: list[tuple[int, Ended]] = []
        self.ends_at_last: list[tuple[int, Ended]] = []
        self.unreadable: dict[int, Exception] = {}
        self.verdicts: list[Any] = []
        self.made = 0
        self.committed = False
        for name in ("run", "run_and_commit", "set_aside", "settle_parked", "read_apart"):
            monkeypatch.setattr(module, name, getattr(self, name))
        monkeypatch.setattr(module, "transaction", self._transaction)
        monkeypatch.setattr(module, "Calls", self._calls)
        monkeypatch.setattr(module, "Lookahead", lambda: Ahead(self))
        monkeypatch.setattr(module.spans, "verdict", lambda *told: self.verdicts.append(told))

    def outside(
        self, on_failure: OnFailure = "dead-letter", *, waits: bool = False, **said: Any
    ) -> AtLeastOnce:
        made: Handler = gapless.handler(topic="orders", delivery="at-least-once")(_handle)
        policy = Policy(on_failure=on_failure, retry_delays_s=(3.0,), crashes_max=2)
        self.job = make_turn(CONN, OURS, made, policy=policy, concurrency=6, worker="w", **said)
        return AtLeastOnce(self.job, None if waits else str)

    @property
    def ahead(self) -> Ahead:
        return self.aheads[-1]

    def read(self, *keys: str, first: int = 11, finished: Collection[int] = ()) -> None:
        """Have units of two events each in the window, with these keys."""
        places = [first + 2 * n for n in range(len(keys))]
        self.ahead.window.extend(
            [Span(at, [at, at + 1]) for at in places],
            {at: {key.encode()} for at, key in zip(places, keys, strict=True)},
            finished,
        )

    def told(self) -> list[Any]:
        told, self.story = self.story, []
        return told

    @contextmanager
    def _transaction(self, conn: object) -> Iterator[None]:
        assert conn is CONN
        self.committed = False
        yield
        self.committed = True

    # -- Calls ------------------------------------------------------------------------------------

    oldest_s = 6.0

    def _calls(self, handler: Handler, concurrency: int, wake: Callable[[], None]) -> World:
        assert (handler, concurrency) == (self.job.handler, 6) if hasattr(self, "job") else True
        wake()
        self.made += 1
        self.under_way = {}
        return self

    def __len__(self) -> int:
        return len(self.under_way)

    def begin(self, unit: Any, conn: object) -> None:
        assert conn is CONN
        self.story.append(("call", *unit))
        self.under_way[unit[0]] = unit[1]

    def collect(self, *, wait: bool) -> Iterator[tuple[int, Ended]]:
        found, self.ends = self.ends, []
        if wait:
            self.story.append("wait")
            found, self.ends_at_last = found or self.ends_at_last, []
        for first, end in found:
            del self.under_way[first]
            yield first, end

    def elsewhere(self, fetch: Any) -> Any:
        raise AssertionError

    def abandon(self) -> None:
        self.story.append("abandoned")

    # -- what is written down ---------------------------------------------------------------------

    def run(self, conn: object, name: str, params: dict[str, Any]) -> list[Any]:
        if name == "forget_deliveries":
            assert params is OURS.params
            self.story.append(name)
            return []
        assert (conn, name) == (CONN, "note_deliveries")
        assert params.items() >= OURS.params.items()
        self.notes.append({k: v for k, v in params.items() if k not in OURS.params})
        if self.refusals:
            refusal = self.refusals.pop(0)
            if refusal is None:
                return [(None, None, None)]
            raise refusal
        return [(first, self.attempts.get(first, 1), None) for first in params["begun"]]

    def run_and_commit(self, conn: object, name: str, params: Any) -> Any:
        with self._transaction(conn):
            return self.run(conn, name, params)

    def set_aside(self, job: Job, span: Span, failure: Failure, verdict: Verdict) -> None:
        assert job is self.job
        self.story.append(("aside", span.first_offset, failure, verdict))

    def settle_parked(self, conn: object, partition: Partition, firsts: Sequence[int]) -> None:
        assert (conn, partition) == (CONN, PLACE)
        self.story.append(("settled", list(firsts)))

    def read_apart(
        self, conn: object, partition: Partition, begun: Sequence[Span], terms: object, *,
        attempts: dict[int, int], through: object,
    ) -> Iterator[tuple[int, int]]:  # fmt: skip
        assert (conn, partition, terms, through) == (CONN, PLACE, self.job.terms, self.elsewhere)
        for span in begun:
            if span.first_offset in self.unreadable:
                raise self.unreadable[span.first_offset]
            yield span.first_offset, attempts[span.first_offset]

    def note(self) -> dict[str, Any]:
        """The last note, which is the only one since the one before was asked for."""
        (note,) = self.notes
        self.notes.clear()
        return note


def _handle(unit: object) -> None: ...


def _noted(expected: int, ended: list[int], done: list[int], begun: list[int], upto: int) -> Any:
    return {
        "expected": expected, "ended": ended, "done": done, "begun": begun,
        "begun_last": [first + 1 for first in begun], "upto": upto,
    }  # fmt: skip


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def _going_on(world: World, *keys: str, on_failure: OnFailure = "dead-letter") -> AtLeastOnce:
    """Calls of units with these keys, from offset 11 on; those that can be are under way."""
    outside = world.outside(on_failure)
    world.read(*keys)
    outside.turn(world.job)
    world.told()
    world.notes.clear()
    return outside


# -- begin and end --------------------------------------------------------------------------------


def test_what_begins_is_written_down_before(world: World) -> None:
    outside = world.outside()
    assert not outside.going_on
    assert not outside.has_attempt
    assert (outside.oldest_s, outside.wait_s) == (6.0, 0.7)
    world.read("a", "b", "a")
    world.attempts = {13: 4}
    assert outside.turn(world.job) == Step(outcome="done", next_offset=11)
    assert world.committed
    assert world.note() == _noted(11, [], [], [11, 13], 11)
    assert world.told() == ["look", ("call", 11, 1), ("call", 13, 4)]
    assert outside.going_on
    assert outside.has_attempt
    assert outside.turn(world.job) == IDLE
    assert world.notes == []


def test_the_offset_moves_over_what_is_finished_from_the_begin_on(world: World) -> None:
    outside = _going_on(world, "a", "b", "a")
    world.ends = [(13, None)]
    assert outside.turn(world.job) == Step(outcome="done", handled=1, next_offset=11)
    assert world.note() == _noted(11, [13], [13], [], 11)
    world.ends = [(11, None)]
    done = outside.turn(world.job)
    assert world.note() == _noted(11, [11], [11], [], 15)
    assert done == Step(outcome="done", events=4, units=2, handled=1, next_offset=15)
    outside.turn(world.job)
    assert world.note() == _noted(15, [], [], [15], 15)
    assert world.told()[-1] == ("call", 15, 1)
    assert not world.ahead.window.open
    world.ends = [(15, None)]
    assert outside.turn(world.job).next_offset == 17
    assert not outside.going_on
    assert not outside.has_attempt
    assert outside.turn(world.job) == IDLE


def test_what_others_finished_is_passed(world: World) -> None:
    outside = world.outside()
    world.read("a", "b", finished=[11, 13])
    assert outside.turn(world.job) == Step(outcome="done", events=4, units=2, next_offset=15)
    assert world.note() == _noted(11, [], [], [], 15)


@pytest.mark.parametrize("waits", [True, False])
def test_what_others_finished_is_reason_enough_for_a_note(world: World, *, waits: bool) -> None:
    outside = world.outside(waits=waits)
    world.read("a", finished=[11])
    assert outside.turn(world.job) == Step(outcome="done", events=2, units=1, next_offset=13)
    assert world.told() == ["look"], "and nobody waits"


def test_that_calls_were_begun_is_forgotten_in_a_transaction(world: World) -> None:
    module.forget_deliveries(CONN, OURS)
    assert world.told() == ["forget_deliveries"]
    assert world.committed


def test_who_is_no_suspect_has_killed_nobody(world: World) -> None:
    outside = world.outside()
    strict = replace(world.job.terms, policy=Policy(crashes_max=1))
    world.job = replace(world.job, terms=strict)
    world.read("a")
    outside.turn(world.job)
    assert world.told()[-1] == ("call", 11, 1)


def test_to_rest_begins_nothing_and_notes_what_ended(world: World) -> None:
    outside = _going_on(world, "a", "b", "a")
    assert outside.turn(world.job, rests=True) == IDLE
    world.ends = [(11, None)]
    assert outside.turn(world.job, rests=True).handled == 1
    assert world.note() == _noted(11, [11], [11], [], 13)
    assert world.told() == []


def test_a_paused_group_begins_nothing(world: World) -> None:
    outside = _going_on(world, "a", "a")
    world.ahead.outcome = "idle"
    world.ends = [(11, None)]
    outside.turn(world.job)
    assert world.note()["begun"] == []


def test_another_owner_ends_it_all(world: World) -> None:
    outside = _going_on(world, "a")
    world.ahead.outcome = "fenced"
    assert outside.turn(world.job) == FENCED
    assert world.told() == ["look", "abandoned"]
    assert len(world.aheads) == 2, "it is read anew"
    assert not outside.going_on


def test_who_moved_the_offset_ends_it_all(world: World) -> None:
    outside = _going_on(world, "a")
    world.ends, world.refusals = [(11, None)], [None]
    assert outside.turn(world.job) == IDLE, "the next claim tells whether it is fenced"
    assert not world.committed
    assert world.told() == ["look", "abandoned"]
    assert not outside.going_on
    assert not outside.has_attempt


def test_what_cannot_be_noted_begins_later(world: World) -> None:
    outside = world.outside()
    world.read("a", "b")
    world.refusals = [psycopg.OperationalError("lost")]
    with pytest.raises(psycopg.OperationalError):
        outside.turn(world.job)
    assert world.told() == ["look"]
    assert world.ahead.window.open == 2
    assert outside.has_attempt, "it may be written down all the same"
    assert not outside.going_on
    outside.turn(world.job)
    assert world.told() == ["look", ("call", 11, 1), ("call", 13, 1)]
    assert outside.going_on


def test_what_cannot_be_read_was_not_called(world: World) -> None:
    outside = world.outside()
    world.read("a", "b", "c")
    world.unreadable = {13: HoleError("lost")}
    outside.turn(world.job)
    world.note()
    assert world.told() == ["look", ("call", 11, 1)]
    world.unreadable = {}
    outside.turn(world.job)
    assert world.note() == _noted(11, [13, 15], [], [], 11)
    assert world.ahead.window.open == 2, "they are to be called again"
    assert world.told() == [], "but nothing begins before it is told"
    world.ends = [(11, None)]
    outside.turn(world.job)
    with pytest.raises(HoleError):
        outside.turn(world.job)
    outside.turn(world.job)
    assert world.told()[-2:] == [("call", 13, 1), ("call", 15, 1)]


def test_without_a_wake_a_turn_waits(world: World) -> None:
    outside = world.outside(waits=True)
    world.read("a")
    outside.turn(world.job)
    assert "wait" not in world.told()
    world.ends_at_last = [(11, None)]
    assert outside.turn(world.job).handled == 1
    assert world.told() == ["look", "wait"]
    patient = _going_on(world, "a")
    patient.turn(world.job)
    assert "wait" not in world.told()


# -- what failed ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("on_failure", "failure", "fate", "done"),
    [
        ("dead-letter", REFUSED, Verdict(state="dead"), {"dead": 1}),
        (
            "retry", REFUSED,
            Verdict(state="waiting", retry_after_s=3.0), {"waiting": 1},
        ),
        (
            "park-key", REFUSED,
            Verdict(state="waiting", retry_after_s=3.0), {"waiting": 1},
        ),
        ("retry", replace(REFUSED, attempts=2), Verdict(state="dead"), {"dead": 1}),
        (
            "retry", replace(REFUSED, attempts=0),
            Verdict(state="waiting", retry_after_s=3.0), {"waiting": 1},
        ),
        (
            "dead-letter", Failure(error=gapless.Retry(after=2.0)),
            Verdict(state="waiting", retry_after_s=2.0), {"waiting": 1, "asked": 1},
        ),
        (
            "dead-letter", replace(REFUSED, only=frozenset({1})),
            Verdict(state="dead"), {"dead": 1, "asked": 1},
        ),
    ],
)  # fmt: skip
def test_what_failed_is_set_aside_as_the_policy_says(
    world: World, on_failure: OnFailure, failure: Failure, fate: Verdict, done: Any
) -> None:
    outside = _going_on(world, "a", on_failure=on_failure)
    world.ends = [(11, failure)]
    assert outside.turn(world.job) == Step(
        outcome="done", events=2, units=1, next_offset=13, **done
    )
    assert world.note() == _noted(11, [11], [11], [], 13)
    assert world.told() == ["look", ("aside", 11, failure, fate)]
    assert world.ahead.sieve.held == [11] * (on_failure == "park-key")
    assert world.verdicts == [], "set_aside() tells"


def test_what_is_to_be_skipped_counts_as_handled(world: World) -> None:
    outside = _going_on(world, "a")
    skip = Failure(error=gapless.Skip("of no use"))
    world.ends = [(11, skip)]
    assert outside.turn(world.job).handled == 1
    assert world.note()["done"] == [11]
    assert world.told() == ["look"]
    assert world.verdicts == [(skip.error, "skip", 1)]


def test_what_blocks_is_told_when_all_have_ended_and_called_again(world: World) -> None:
    outside = _going_on(world, "a", "b", on_failure="block")
    world.ends = [(11, REFUSED)]
    assert outside.turn(world.job) == Step(outcome="done", next_offset=11)
    assert world.note() == _noted(11, [11], [], [], 11)
    assert world.verdicts == [(REFUSED.error, "block", 1)]
    assert outside.turn(world.job) == IDLE, "the other goes on, nothing begins"
    world.ends = [(13, None)]
    outside.turn(world.job)
    with pytest.raises(BlockedError, match=r"g/orders/3@11: ValueError: no"):
        outside.turn(world.job)
    assert len(world.aheads) == 1
    world.told()
    outside.turn(world.job)
    assert world.told() == ["look", ("call", 11, 1)]


def test_an_error_of_the_environment_is_no_failure(world: World) -> None:
    outside = _going_on(world, "a", "b")
    world.ends = [(11, ConnectionError("first")), (13, KeyError("second"))]
    outside.turn(world.job)
    assert world.note() == _noted(11, [11, 13], [], [], 11)
    with pytest.raises(ConnectionError):
        outside.turn(world.job)
    assert len(world.aheads) == 1
    outside.turn(world.job)
    assert world.note()["begun"] == [11, 13]


def test_after_a_conflict_it_reads_anew(world: World) -> None:
    outside = _going_on(world, "a")
    world.ends = [(11, psycopg.errors.SerializationFailure("conflict"))]
    outside.turn(world.job)
    with pytest.raises(psycopg.errors.SerializationFailure):
        outside.turn(world.job)
    assert len(world.aheads) == 2


# -- what is not called ---------------------------------------------------------------------------


def test_what_touches_a_held_key_is_parked(world: World) -> None:
    outside = world.outside("park-key")
    world.read("a", "b", "c")
    world.ahead.sieve.parked = {11, 15}
    done = outside.turn(world.job)
    assert done == Step(outcome="done", events=2, units=1, parked=2, next_offset=13)
    parked = Verdict(state="parked")
    assert world.told() == [
        "look", ("aside", 11, BEHIND, parked), ("aside", 15, BEHIND, parked),
        ("settled", [11, 15]), ("call", 13, 1),
    ]  # fmt: skip
    assert world.note() == _noted(11, [], [11, 15], [13], 13)
    assert world.ahead.sieve.held == [], "it holds its keys already"


def test_a_policy_that_parks_none_asks_no_sieve(world: World) -> None:
    outside = world.outside("retry")
    world.read("a")
    world.ahead.sieve.parked = {11}
    outside.turn(world.job)
    assert world.told() == ["look", ("call", 11, 1)]


@pytest.mark.parametrize(
    ("crashes", "on_failure", "is_called"),
    [(1, "dead-letter", True), (2, "dead-letter", False), (2, "block", True), (3, "retry", False)],
)
def test_what_too_many_died_of_is_dead(
    world: World, crashes: int, on_failure: OnFailure, *, is_called: bool
) -> None:
    outside = world.outside(on_failure)
    world.job = replace(world.job, former_end="killed by a signal")
    world.read("a")
    world.ahead.suspects = {11: crashes}
    done = outside.turn(world.job)
    assert done.dead == (not is_called)
    if is_called:
        assert world.told()[-1] == ("call", 11, 1)
        world.ends = [(11, None)]
        outside.turn(world.job)
        assert world.ahead.suspects == {}
    else:
        reason = crash_reason(crashes, "killed by a signal")
        assert world.told() == [
            "look",
            (
                "aside",
                11,
                Failure(error=reason, attempts=crashes),
                Verdict(state="dead"),
            ),
        ]
        assert world.note() == _noted(11, [], [11], [], 13)
