"""What a step does with what it claimed: its commits, what goes on, and what is tried again with which care.

Claims, calls, and what the database says of a COMMIT, are as a test wants.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from typing import Any
from uuid import UUID

import psycopg
import pytest

import gapless
from gapless.consume import step as module
from gapless.consume.batch import Batch
from gapless.consume.job import Job, Redo, Step
from gapless.consume.read.claim import Claim, Wanted
from gapless.consume.session import TransactionBrokenError
from gapless.consume.step import step, step_alone
from gapless.consume.unit import Source, Unit, UnitRanges
from gapless.consume.user.handler import Handler
from gapless.consume.verdict.failure import Failure, UnitFailedError, crash_reason
from gapless.consume.verdict.policy import OnFailure, Policy, Verdict
from gapless.errors import HoleError
from gapless.features.filters.filtered import Kept, kept_spans
from gapless.keys import Assignment, Partition
from support.turn import turn

CONN: Any = "the session"
PLACE = Partition(group_id="g", topic="orders", topic_id=1, partition_id=3)
OURS = Assignment(partition=PLACE, epoch=5, token=UUID(int=1))
REFUSED = ValueError("no")
CONFLICT = psycopg.errors.SerializationFailure("conflict")
LATE = psycopg.errors.UniqueViolation("at COMMIT")
BEGUN = ["begin", "claim 10"]


class World:
    """A log from offset 11 on, of units of two events; what of it fails, and when COMMIT does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.story: list[Any] = []
        self.next_offset = 11
        self.log_units = 5
        self.at_once = 100  # events that one claim takes at most
        self.outcome: Any = "claimed"
        self.ahead: list[Any] = []
        self.failing: dict[int, BaseException] = {}
        self.knows_which = True
        self.commits: list[BaseException | None] = []
        self.claims: list[Exception] = []
        self.learns: list[bool] = []
        self.redone: list[Any] = []
        self.keeps: list[int] | None = None
        self.parked: set[int] = set()
        self.attempts: int | None = 1
        self.is_open = False
        self.pending = 0
        for name in (
            "transaction", "commit_and_begin", "allow_commit", "call", "call_each", "adapt",
            "isolate", "give_up", "with_settings_checked", "parking_for", "settle_parking", "record_attempt",
            "forget_attempt",
        ):  # fmt: skip
            monkeypatch.setattr(module, name, getattr(self, name))
        monkeypatch.setattr(module.Backlog, "ask", self.claim_alone)

    def job(
        self, on_failure: OnFailure = "dead-letter", *, batch: bool = False, **said: Any
    ) -> Job:
        made: Handler
        if batch:
            made = gapless.handler(topic="orders", batch=True)(_handle)
        else:
            made = gapless.handler(topic="orders")(_handle)
        policy = Policy(on_failure=on_failure, crashes_max=2)
        job = turn(CONN, OURS, made, policy=policy, batch_size=10, **said)
        backlog: Any = self
        return replace(job, backlog=backlog)

    def told(self) -> list[Any]:
        told, self.story = self.story, []
        return told

    # -- the session ------------------------------------------------------------------------------

    @contextmanager
    def transaction(self, conn: object, *, kept: bool = False) -> Iterator[None]:
        assert conn is CONN
        assert not self.is_open
        self.story.append("begin" if kept else "begin, looks")
        self.is_open = True
        try:
            yield
            self._commit()
        except BaseException:
            self.story.append("rollback")
            raise
        finally:
            self.is_open, self.pending = False, 0

    def _commit(self) -> None:
        error = self.commits.pop(0) if self.commits else None
        if error is not None:
            raise error
        self.next_offset += self.pending
        self.pending = 0
        self.story.append("commit")

    def commit_and_begin(self, conn: object, then: Callable[[], object]) -> None:
        self._commit()
        then()

    def allow_commit(self, conn: object, xid: str, calls: int) -> None:
        assert (conn, xid) == (CONN, f"xid {self.next_offset}")
        self.story.append(f"allow {calls}")

    # -- the log ----------------------------------------------------------------------------------

    units: Any = ()  # read ahead
    events = 0

    def _claimed(self, batch_size: int) -> tuple[Claim, Any]:
        end = 11 + 2 * self.log_units
        events = min(batch_size + batch_size % 2, end - self.next_offset, self.at_once)
        if self.outcome != "claimed" or not events:
            return Claim(outcome="idle" if self.outcome == "claimed" else self.outcome), ()
        first = self.next_offset
        ids = list(range(first, first + events))
        spans = UnitRanges(first, ids, [*range(2, events + 1, 2)])
        if self.keeps is not None:
            kept = [each for each in self.keeps if each in ids]
            spans = kept_spans(spans, Kept(ids=kept, offsets=kept))
        source = Source(PLACE, lambda _: [], 10)
        rows = [_row(n) for n in spans.wanted]
        self.pending = events
        at = f"xid {first}"
        claim = Claim(outcome="claimed", first_offset=first, claim_xid=at, spans=spans, rows=rows)
        return claim, spans.units(source, rows)

    def claim(self, conn: object, ours: object, terms: object, batch_size: int) -> Any:
        assert (conn, ours) == (CONN, OURS)
        self.story.append(f"claim {batch_size}")
        if self.claims:
            raise self.claims.pop(0)
        return self._claimed(batch_size)

    def claim_read(self, conn: object, ours: object, batch_size: int) -> Any:
        self.story.append(f"claim read {batch_size}")
        found = self.ahead.pop(0) if self.ahead else None
        if isinstance(found, Exception):
            raise found
        if not self.ahead:
            self.units = ()
        return self._claimed(batch_size) if found else None

    def forget(self) -> None:
        self.story.append("forget")

    def claim_alone(self, conn: object, ours: object, wanted: Wanted) -> Claim:
        assert (conn, ours) == (CONN, OURS)
        assert wanted == Wanted(1)
        return self._claimed(2)[0]

    # -- calls ------------------------------------------------------------------------------------

    def with_settings_checked(self, handler: object, units: Iterable[Any]) -> Iterable[Any]:
        self.story.append("with_settings_checked")
        return units

    def _call(self, at: int | None, unit: Unit) -> None:
        self.story.append(unit.first_offset)
        error = self.failing.get(unit.first_offset)
        if isinstance(error, psycopg.Error | TransactionBrokenError):
            raise error
        if error is not None:
            failed = UnitFailedError(error)
            failed.at = at if self.knows_which else None
            raise failed

    def call_each(self, handler: object, numbered: Iterable[Any], conn: object) -> None:
        assert conn is CONN
        for at, unit in numbered:
            self._call(at, unit)

    def call(self, handler: object, batch: Batch, conn: object) -> None:
        assert conn is CONN
        self.story.append("batch")
        for unit in batch:
            self._call(None, unit)

    def adapt(self, handler: object, error: object) -> bool:
        return self.learns.pop(0) if self.learns else False

    def isolate(self, job: Job, retry: Redo) -> Any:
        assert not self.is_open
        self.story.append(("isolate", retry.spans.first_offset, len(retry.spans), retry.failed))
        found = self.redone.pop(0) if self.redone else None
        return found or Step.after(retry.spans)

    def give_up(
        self, job: Job, spans: UnitRanges, failure: Failure, verdict: Verdict | None = None
    ) -> Step:
        self.story.append(("give up", spans.first_offset, len(spans), failure, verdict))
        return Step.after(spans, {"dead": 1})

    # -- what is parked ---------------------------------------------------------------------------

    def parking_for(self, job: Job, spans: UnitRanges) -> Any:
        self.story.append("parking?")
        return self if self.parked else None

    def numbered(self, units: Iterable[Unit]) -> Iterator[tuple[int, Unit]]:
        return (each for each in enumerate(units) if each[1].first_offset not in self.parked)

    def settle_parking(self, parking: object) -> dict[str, int]:
        assert parking is self
        self.story.append("settle")
        return {"parked": len(self.parked)}

    # -- attempts ---------------------------------------------------------------------------------

    def record_attempt(self, conn: object, ours: object) -> int | None:
        assert (conn, ours) == (CONN, OURS)
        self.story.append("recorded")
        return self.attempts

    def forget_attempt(self, conn: object, ours: object) -> None:
        assert (conn, ours) == (CONN, OURS)
        self.story.append("forgotten")
        raise psycopg.OperationalError("there is no connection")


def _handle(unit: object, conn: object) -> None: ...


def _row(number: int) -> Any:
    return (number,)


def _done(events: int, next_offset: int, units: int | None = None, **more: int) -> Step:
    units = events // 2 if units is None else units
    handled = units - more.get("parked", 0) - more.get("dead", 0)
    return Step(
        outcome="done", events=events, units=units, handled=handled, next_offset=next_offset, **more
    )


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


# What the world is given, and how the step is asked; what it comes to, and the story.
CALLS = [11, 13, 15, 17, 19]
AHEAD = {"at_once": 4, "units": [1], "ahead": [True, True]}
ON: dict[str, Any] = {"continue_while": lambda: True}
BLIND = {"failing": {17: REFUSED}, "knows_which": False}
PARKS = {"on_failure": "park-key"}
HISTORIES: dict[str, tuple[dict[str, Any], dict[str, Any], Step, list[Any]]] = {
    "all that was claimed": ({}, {}, _done(10, 21), [*BEGUN, *CALLS, "allow 5", "commit"]),
    "nothing is there": ({"log_units": 0}, {}, Step(outcome="idle"), [*BEGUN, "commit"]),
    "another owner": ({"outcome": "fenced"}, {}, Step(outcome="fenced"), [*BEGUN, "commit"]),
    "a batch is one call": ({}, {"batch": True}, _done(10, 21), [*BEGUN, "batch", *CALLS, "allow 1", "commit"]),
    "fewer are asked for": ({}, {"batch_size": 4}, _done(4, 15), ["begin", "claim 4", 11, 13, "allow 2", "commit"]),
    "not going on": (AHEAD, {}, _done(4, 15), [*BEGUN, 11, 13, "allow 2", "commit"]),
    "told not to go on": (AHEAD, {"continue_while": lambda: False}, _done(4, 15), [*BEGUN, 11, 13, "allow 2", "commit"]),
    "what was committed before a failure": (
        AHEAD | {"ahead": [True], "failing": {17: REFUSED}}, ON, _done(8, 19),
        [*BEGUN, 11, 13, "allow 2", "commit", "claim read 10", 15, 17, "rollback", ("isolate", 15, 2, 1)],
    ),
    "the first that failed": (
        {"failing": {15: REFUSED}}, {}, _done(10, 21), [*BEGUN, 11, 13, 15, "rollback", ("isolate", 11, 5, 2)],
    ),
    "which of many failed is found by halves": (
        BLIND, {"units_per_commit": 3}, _done(4, 15),
        [*BEGUN, 11, 13, 15, 17, "rollback", "begin", "claim 4", 11, 13, "allow 2", "commit"],
    ),
    "of few it is looked for one by one": (
        BLIND | {"next_offset": 15}, {"units_per_commit": 3}, _done(6, 21), [*BEGUN, 15, 17, "rollback", ("isolate", 15, 3, None)],
    ),
    "it ended the transaction": (
        {"failing": {13: TransactionBrokenError("ended")}}, {}, _done(10, 21), [*BEGUN, 11, 13, "rollback", ("isolate", 11, 5, None)],
    ),
    "a COMMIT that fails is somebody's fault": (
        {"commits": [LATE]}, {}, _done(10, 21), [*BEGUN, *CALLS, "allow 5", "rollback", ("isolate", 11, 5, None)],
    ),
    "one that passes, where it is known now how to call": (
        {"commits": [CONFLICT], "learns": [True]}, {}, _done(10, 21),
        [*BEGUN, *CALLS, "allow 5", "rollback", *BEGUN, *CALLS, "allow 5", "commit"],
    ),
    "what stands before a hole": (
        {"claims": [HoleError("lost", whole=4)], "units": [1], "ahead": [True]}, ON, _done(4, 15),
        [*BEGUN, "rollback", "forget", "begin", "claim 4", 11, 13, "allow 2", "commit"],
    ),
    "nothing is parked": ({}, PARKS, _done(10, 21), [*BEGUN, "parking?", *CALLS, "allow 5", "commit"]),
    "of a batch it is left out": (
        {"parked": {13}}, PARKS | {"batch": True}, _done(10, 21, parked=1),
        [*BEGUN, "parking?", "batch", 11, 15, 17, 19, "settle", "allow 1", "commit"],
    ),
    "of a batch all is parked": (
        {"parked": set(CALLS)}, PARKS | {"batch": True}, _done(10, 21, parked=5),
        [*BEGUN, "parking?", "settle", "allow 1", "commit"],
    ),
}  # fmt: skip


def _asked(world: World, given: dict[str, Any], options: dict[str, Any]) -> Step:
    for name, value in given.items():
        setattr(world, name, deepcopy(value))
    how = {name: options[name] for name in ("batch_size", "continue_while") if name in options}
    return step(world.job(**{name: options[name] for name in options.keys() - how.keys()}), **how)


@pytest.mark.parametrize("name", HISTORIES)
def test_a_step(world: World, name: str) -> None:
    given, options, done, story = HISTORIES[name]
    assert _asked(world, given, options) == done
    assert world.told() == story


# What is given, and the error that is raised.
RAISED: dict[str, tuple[dict[str, Any], BaseException]] = {
    "a later claim": (AHEAD | {"ahead": [CONFLICT]}, CONFLICT),
    "a claim": ({"claims": [LATE]}, LATE),
    "a claim, for now": ({"claims": [CONFLICT]}, CONFLICT),
    "a call's, of the database": ({"failing": {13: LATE}}, LATE),
    "a call's, for now": ({"failing": {13: CONFLICT}}, CONFLICT),
    "a COMMIT, for now": ({"commits": [CONFLICT]}, CONFLICT),
    "a COMMIT of a claim that keeps nothing": ({"keeps": [], "commits": [LATE]}, LATE),
    "a hole with nothing before it": ({"claims": [(hole := HoleError("lost"))]}, hole),
}


@pytest.mark.parametrize("name", RAISED)
def test_what_is_no_units_fault_is_raised(world: World, name: str) -> None:
    given, error = RAISED[name]
    with pytest.raises(type(error)):
        _asked(world, given, ON)
    assert world.told()[-1] == "rollback"


def test_who_publishes_late_is_claimed_alone(world: World) -> None:
    job = world.job()
    job.handler.habits.defers = True
    assert step(job) == _done(2, 13)
    assert world.told()[1] == "claim 1"


def test_what_is_read_between_the_calls_is_read_warily(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    claimed = world._claimed

    def one_by_one(batch_size: int) -> tuple[Claim, Any]:
        claim, units = claimed(batch_size)
        return replace(claim, rows=None), units

    monkeypatch.setattr(world, "_claimed", one_by_one)
    step(world.job())
    assert world.told() == [*BEGUN, "with_settings_checked", *CALLS, "allow 5", "commit"]


def test_what_was_read_ahead_follows_with_a_commit_each(world: World) -> None:
    world.at_once, world.units, world.ahead = 4, [1], [True, True]
    asked: list[int] = []
    done = step(world.job(), continue_while=lambda: asked.append(world.next_offset) or True)  # type: ignore[func-returns-value]
    assert done == _done(10, 21)
    assert world.told() == [
        *BEGUN, 11, 13, "allow 2", "commit", "claim read 10", 15, 17, "allow 2", "commit",
        "claim read 10", 19, "allow 1", "commit",
    ]  # fmt: skip
    assert asked == [11, 15], "after each batch, while there is more"


def test_what_failed_is_isolated_until_it_is_done(world: World) -> None:
    world.failing = {15: REFUSED}
    spans = UnitRanges(11, [11, 12, 13, 14], [2, 4])
    world.redone = [Redo(spans=spans, failed=1), Redo(spans=spans[1:], hopeless=REFUSED)]
    assert step(world.job()).dead == 1
    assert world.told()[-3:] == [
        ("isolate", 11, 5, 2), ("isolate", 11, 2, 1), ("give up", 13, 1, Failure(error=REFUSED), None),
    ]  # fmt: skip


# -- alone ----------------------------------------------------------------------------------------


def _alone(world: World, attempts: int | None = 1, on_failure: OnFailure = "dead-letter") -> Step:
    world.attempts = attempts
    # Its backlog is its own: what it claims, the fast path of a step claims.
    return step_alone(world.job(on_failure, former_end="killed"))


@pytest.fixture
def fast(world: World, monkeypatch: pytest.MonkeyPatch) -> Sequence[Any]:
    """The step that step_alone() takes; the backlog of its job is new."""
    steps: list[Any] = []

    def take(job: Job, *, batch_size: int) -> Step:
        assert not world.is_open
        assert job.backlog is not world
        world.story.append(f"step {batch_size}")
        if steps:
            raise steps.pop()
        return _done(2, 13)

    monkeypatch.setattr(module, "step", take)
    return steps


def test_one_alone_is_written_down_before(world: World, fast: list[Any]) -> None:
    assert _alone(world) == _done(2, 13)
    assert world.told() == ["begin, looks", "rollback", "recorded", "step 1"]
    fast.append(CONFLICT)
    with pytest.raises(psycopg.errors.SerializationFailure):
        _alone(world)
    assert world.told()[-2:] == ["step 1", "forgotten"]


def test_what_a_filter_passes_needs_no_attempt(world: World, fast: list[Any]) -> None:
    world.keeps = []
    _alone(world)
    assert world.told() == ["begin, looks", "rollback", "step 1"]


def test_what_too_many_died_of_is_given_up(world: World, fast: list[Any]) -> None:
    assert _alone(world, 2) == _done(2, 13)
    assert _alone(world, 3, "block") == _done(2, 13)
    assert _alone(world, 3).dead == 1
    failure = Failure(error=crash_reason(2, "killed"), attempts=2)
    assert world.told()[-1] == ("give up", 11, 1, failure, Verdict(state="dead"))
