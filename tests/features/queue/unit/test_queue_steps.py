"""What a step of a queue does, exactly once: commits, what it takes again with which care, and reserved events.

What is taken, how calls end, and what the database says of a COMMIT, are as a test wants.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

import gapless
from gapless.consume.isolate import BlockedHereError
from gapless.consume.job import Job, Step
from gapless.consume.session import TransactionBrokenError
from gapless.consume.unit import Source, Span, Unit
from gapless.consume.user.handler import Handler
from gapless.consume.verdict.failure import Failure, UnitFailedError, crash_reason
from gapless.consume.verdict.patience import Patience
from gapless.consume.verdict.policy import Policy, Verdict
from gapless.errors import BlockedError, ReceiptError
from gapless.features.queue import alone, once
from gapless.features.queue.alone import step_reserved
from gapless.features.queue.once import step_place
from gapless.features.queue.place import Queue, QueuePlace
from gapless.features.queue.receipts import Reserved
from gapless.features.queue.take import Taken
from support.turn import terms

REFUSED = ValueError("no")
CONFLICT = psycopg.errors.SerializationFailure("conflict")
LATE = psycopg.errors.UniqueViolation("at COMMIT")
NO_TABLE = psycopg.errors.UndefinedTable("no such table")
DEAD = Verdict(state="dead")
IDLE = Step(outcome="idle")


class World:
    """Events from offset 11 to 20, open unless in `gone`; what fails, and when COMMIT does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.story: list[Any] = []
        self.open = list(range(11, 21))
        self.outcome: Any = None
        self.failing: dict[int, BaseException] = {}
        self.knows_which = True
        self.commits: list[BaseException | None] = []
        self.learns: list[bool] = []
        self.pending: list[int] = []
        self.handled: list[int] = []
        self.begins: list[Exception] = []
        self.lost = False
        for name in (
            "transaction", "take_next", "commit_and_begin", "allow_commit", "call_each", "adapt",
            "handle_apart", "put_aside",
        ):  # fmt: skip
            monkeypatch.setattr(once, name, getattr(self, name))
        for name in (
            "transaction", "allow_commit", "call", "adapt", "begin_reserved", "acknowledge", "fail",
            "give_back",
        ):  # fmt: skip
            monkeypatch.setattr(alone, name, getattr(self, name))
        self.session: Any = SimpleNamespace(closed=False)
        made: Handler = gapless.handler(topic="orders", mode="queue", group="g")(_handle)
        self.place = self._place(made, None)

    def _place(self, made: Handler, patience: Patience | None) -> QueuePlace:
        policy = Policy(on_failure="retry", retry_delays_s=(3.0,), crashes_max=2)
        queue = Queue(
            conn=self.session, handler=made, terms=terms(made, policy=policy), group_id="g",
            topics={"orders": 1}, worker="w", reserve_s=60.0, patience=patience,
            holds=lambda *held: self.story.append(("holds", *held)),
        )  # fmt: skip
        return QueuePlace(queue, queue.job("orders", 0), 7, 64, 10, hint=11)

    def patient(self) -> None:
        """Have patience with a database that is not ready."""
        self.place = self._place(self.place.queue.handler, Patience())

    def care(self, units_per_commit: int) -> None:
        """So many units share a commit after one failed."""
        job = self.place.job
        self.place.job = replace(job, terms=replace(job.terms, units_per_commit=units_per_commit))

    def step(
        self, batch_size: int = 4, continue_while: Callable[[], bool] = lambda: False
    ) -> tuple[Step, str]:
        return step_place(self.place, batch_size=batch_size, continue_while=continue_while)

    def told(self) -> list[Any]:
        told, self.story = self.story, []
        return told

    @property
    def held(self) -> Any:
        """What it said last that it has in hand."""
        return self.of("holds")[-1][1:]

    def of(self, *kinds: str) -> list[Any]:
        """What it told of these kinds."""
        return [each for each in self.story if isinstance(each, tuple) and each[0] in kinds]

    # -- the session ------------------------------------------------------------------------------

    @contextmanager
    def transaction(self, conn: object, *, kept: bool = False) -> Iterator[None]:
        assert conn is self.session
        self.story.append("begin" if kept else "begin, with savepoints")
        try:
            yield
            self._commit()
        except BaseException:
            self.story.append("rollback")
            raise
        finally:
            self.pending = []

    def _commit(self) -> None:
        error = self.commits.pop(0) if self.commits else None
        if error is not None:
            raise error
        self.handled += self.pending
        self.open = [each for each in self.open if each not in self.pending]
        self.pending = []
        self.story.append("commit")

    def commit_and_begin(self, conn: object, then: Callable[[], object]) -> None:
        self._commit()
        then()

    def allow_commit(self, conn: object, xid: str, calls: int) -> None:
        assert (conn, xid) == (self.session, "xid")
        self.story.append(f"allow {calls}")

    # -- what is taken, and called ----------------------------------------------------------------

    def take_next(self, place: QueuePlace, batch_size: int, hint: int | None) -> Taken:
        assert place is self.place
        self.story.append(("take", batch_size, hint))
        if self.outcome is not None:
            return Taken(outcome=self.outcome, units=[])
        found = [each for each in self.open if each >= (hint or 0)][:batch_size]
        if not found:
            return Taken(outcome="idle", units=[])
        self.pending = found
        return Taken(outcome="claimed", claim_xid="xid", units=[_unit(n) for n in found])

    def call_each(self, handler: object, numbered: Iterable[Any], conn: object) -> None:
        assert conn is self.session
        for at, unit in numbered:
            self._call(unit, at)

    def call(self, handler: object, unit: Unit, conn: object) -> None:
        assert conn is self.session
        self._call(unit, None)

    def _call(self, unit: Unit, at: int | None) -> None:
        self.story.append(unit.first_offset)
        error = self.failing.get(unit.first_offset)
        if isinstance(error, psycopg.Error | TransactionBrokenError):
            raise error
        if error is not None:
            failed = UnitFailedError(error)
            failed.at = at if self.knows_which else None
            raise failed

    def adapt(self, handler: object, error: object) -> bool:
        return self.learns.pop(0) if self.learns else False

    def handle_apart(
        self, job: Job, numbered: Iterable[tuple[int, Unit]], aside: Counter[str]
    ) -> None:
        assert job == self.place.job
        for at, unit in numbered:
            self.story.append(("alone", unit.first_offset))
            error = self.failing.get(unit.first_offset)
            if isinstance(error, TransactionBrokenError | BlockedHereError):
                error.at = at
            if isinstance(error, TransactionBrokenError | BlockedHereError | psycopg.Error):
                raise error
            aside["dead"] += error is not None

    def put_aside(
        self, job: Job, span: Span, failure: Failure, verdict: Verdict, aside: Counter[str]
    ) -> None:
        assert job is self.place.job
        self.story.append(("aside", span.first_offset, failure.error, verdict.state))
        aside[verdict.state] += 1

    # -- receipts ---------------------------------------------------------------------------------

    def begin_reserved(self, queue: Queue, reserved: Reserved) -> str:
        assert queue is self.place.queue
        self.story.append("counts as handled")
        if self.begins:
            raise self.begins.pop(0)
        return "xid"

    def acknowledge(self, queue: Queue, handled: Sequence[Reserved]) -> list[Reserved]:
        self.story.append(("acknowledge", *(each.receipt for each in handled)))
        return []

    def fail(self, queue: Queue, reserved: Reserved, failure: Failure, verdict: Verdict) -> None:
        assert queue is self.place.queue
        self.story.append(("fail", reserved.receipt, failure.error, failure.attempts, verdict))
        if self.lost:
            raise ReceiptError("lost")

    def give_back(self, queue: Queue, reserved: Reserved) -> None:
        assert queue is self.place.queue
        self.story.append(("give back", reserved.receipt))


def _handle(unit: object, conn: object) -> None: ...


def _unit(number: int) -> Unit:
    place: Any = "orders"
    row: Any = (number,)
    return Unit(Source(place, lambda _: [], 1), number, [row])


def _done(events: int, **more: int) -> Step:
    handled = events - more.get("dead", 0) - more.get("waiting", 0)
    return Step(outcome="done", events=events, units=events, handled=handled, **more)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


# -- all is well ----------------------------------------------------------------------------------


def test_what_is_taken_is_called_and_committed(world: World) -> None:
    assert world.step() == (_done(4), "claimed")
    assert world.told() == [
        "begin", ("take", 4, 11), ("holds", 7, 11, 14), 11, 12, 13, 14, "allow 4", "commit",
        ("holds", 0, 0, 0),
    ]  # fmt: skip
    assert (world.place.hint, world.place.open, world.place.claims) == (15, 6, 1)


def test_full_batches_follow_as_long_as_it_goes_on(world: World) -> None:
    asked: list[int] = []
    world.place.open = 5
    done = world.step(continue_while=lambda: asked.append(len(world.handled)) or True)  # type: ignore[func-returns-value]
    assert done == (_done(10), "claimed")
    assert asked == [0, 4], "not after one that was not full"
    assert world.told()[8:12] == [
        "commit",
        ("holds", 0, 0, 0),
        ("take", 4, 15),
        ("holds", 7, 15, 18),
    ]
    assert (world.place.hint, world.place.open, world.place.claims) == (21, 0, 3)
    world.open = [31, 32]
    assert world.step(2, continue_while=lambda: True) == (_done(2), "idle")
    assert world.place.hint == 33


@pytest.mark.parametrize("outcome", ["idle", "noted", "moved", "busy"])
def test_where_nothing_can_be_taken_that_is_told(world: World, outcome: str) -> None:
    world.outcome = outcome
    assert world.step() == (IDLE, outcome)
    assert world.told() == ["begin", ("take", 4, 11), "commit"]
    assert (world.place.hint, world.place.open, world.place.claims) == (11, 10, 0)


def test_who_defers_has_a_commit_for_each(world: World) -> None:
    world.place.job.handler.habits.defers = True
    assert world.step() == (_done(1), "claimed")


# -- what fails -----------------------------------------------------------------------------------


def test_one_that_failed_is_set_aside_and_the_others_commit(world: World) -> None:
    world.failing = {12: REFUSED}
    assert world.step() == (_done(4, dead=1), "claimed")
    assert world.told() == [
        "begin", ("take", 4, 11), ("holds", 7, 11, 14), 11, 12, "rollback", ("holds", 0, 0, 0),
        "begin, with savepoints", ("take", 4, 11), ("holds", 7, 11, 14),
        *(("alone", n) for n in (11, 12, 13, 14)), "allow 4", "commit", ("holds", 0, 0, 0),
    ]  # fmt: skip
    assert world.place.hint == 15


def test_so_many_share_a_commit_and_what_others_took_is_left(world: World) -> None:
    world.care(2)
    world.failing = {12: REFUSED}
    assert world.step()[0] == _done(2, dead=1)
    assert world.place.hint == 13
    world.open, world.failing, world.place.hint = [13], {13: REFUSED}, None
    world.knows_which = True
    world.step(1)
    assert ("take", 1, 13) in world.told()


def test_what_others_took_meanwhile_is_nobodys(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.failing = {12: REFUSED}
    take = world.take_next

    def once_only(place: QueuePlace, batch_size: int, hint: int | None) -> Taken:
        taken = take(place, batch_size, hint)
        world.outcome = "busy"
        return taken

    monkeypatch.setattr(once, "take_next", once_only)
    done, _ = world.step()
    assert (done.events, done.outcome) == (0, "done")
    assert world.place.hint is None
    assert world.held == (0, 0, 0)


def test_what_is_learned_is_tried_at_once_and_as_before(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.failing, world.learns = {12: REFUSED}, [True]
    original = world.adapt

    def adapt(handler: object, error: object) -> bool:
        learned = original(handler, error)
        world.failing = {}
        return learned

    monkeypatch.setattr(once, "adapt", adapt)
    assert world.step(continue_while=lambda: True) == (_done(4), "claimed")
    assert world.of("take") == [("take", 4, 11)] * 2
    assert world.place.hint == 15


def test_of_what_was_committed_before_it_is_told_as_well(world: World) -> None:
    world.failing = {16: REFUSED}
    assert world.step(continue_while=lambda: True) == (_done(8, dead=1), "claimed")
    world.failing, world.learns = {20: LATE}, [True]
    world.open = [19, 20]
    with pytest.raises(psycopg.errors.UniqueViolation):
        world.step(2)


def test_a_commit_that_fails_is_somebodys_fault_unless_it_passes(world: World) -> None:
    world.commits = [LATE]
    assert world.step()[0] == _done(4)
    assert ("alone", 11) in world.told()
    world.commits = [CONFLICT]
    with pytest.raises(psycopg.errors.SerializationFailure):
        world.step()
    assert world.held == (0, 0, 0)
    world.commits, world.learns, world.place.hint = [CONFLICT], [True], 15
    assert world.step()[0] == _done(4)


@pytest.mark.parametrize("error", [LATE, CONFLICT])
def test_an_error_of_ours_amid_the_calls_is_raised(world: World, error: psycopg.Error) -> None:
    world.failing = {12: error}
    with pytest.raises(type(error)):
        world.step()
    assert world.held == (0, 0, 0)
    world.told()
    world.session.closed, world.place.hint = True, 11
    with pytest.raises(type(error)):
        world.step()
    assert world.held == (7, 11, 14), "who died of it is not known"


def test_who_ends_the_transaction_is_found_by_itself(world: World) -> None:
    world.failing = {13: TransactionBrokenError("ended")}
    assert world.step()[0] == _done(1, waiting=1)
    takes = world.of("take", "aside")
    assert takes == [
        ("take", 4, 11), ("take", 4, 11), ("take", 1, 13), ("take", 1, 13),
        ("aside", 13, world.failing[13], "waiting"),
    ]  # fmt: skip


def test_what_fails_at_commit_is_found_by_halves(world: World) -> None:
    world.commits = [LATE, LATE]
    assert world.step()[0] == _done(2)
    assert world.of("take") == [
        ("take", 4, 11), ("take", 4, 11), ("take", 2, 11),
    ]  # fmt: skip
    world.commits = [LATE] * 3
    world.place.hint = 13
    assert world.step(2)[0] == _done(1, waiting=1)
    takes = world.of("take", "aside")
    assert takes[-2:] == [("take", 1, 13), ("aside", 13, LATE, "waiting")]


def test_one_alone_whose_call_is_known_to_fail_is_tried_with_a_savepoint(world: World) -> None:
    world.failing = {11: REFUSED}
    assert world.step(1)[0] == _done(1, dead=1)
    assert ("alone", 11) in world.told()


def test_one_alone_that_spoils_its_commit_is_given_up(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.commits = [LATE]
    assert world.step(1)[0] == _done(1, waiting=1)
    assert world.told()[-4:] == [
        ("take", 1, 11), ("aside", 11, LATE, "waiting"), "allow 1", "commit",
    ]  # fmt: skip
    world.commits, world.place.hint = [LATE], 12
    take = world.take_next

    def another(place: QueuePlace, batch_size: int, hint: int | None) -> Taken:
        taken = take(place, batch_size, hint)
        world.open = [each for each in world.open if each != 12]
        return taken

    monkeypatch.setattr(once, "take_next", another)
    assert world.step(1)[0] == Step(outcome="done")
    assert world.told()[-1] == "rollback", "another worker has it, and finds out"


def test_with_a_savepoint_learned_is_learned(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.failing, world.learns = {12: TransactionBrokenError("ended")}, [False, True]
    original = world.adapt

    def adapt(handler: object, error: object) -> bool:
        learned = original(handler, error)
        if learned:
            world.failing = {}
        return learned

    monkeypatch.setattr(once, "adapt", adapt)
    assert world.step()[0] == _done(4)
    assert world.of("take") == [
        ("take", 4, 11), ("take", 4, 11), ("take", 4, 15),
    ]  # fmt: skip


@pytest.mark.parametrize("error", [LATE, CONFLICT])
def test_with_savepoints_an_error_of_ours_is_raised(
    world: World, monkeypatch: pytest.MonkeyPatch, error: psycopg.Error
) -> None:
    world.failing = {12: TransactionBrokenError("ended")}
    apart = world.handle_apart

    def handle(*args: Any) -> None:
        world.failing = {12: error}
        apart(*args)

    monkeypatch.setattr(once, "handle_apart", handle)
    with pytest.raises(type(error)):
        world.step()
    assert world.held == (0, 0, 0)


def test_with_savepoints_a_commit_that_passes_is_raised(world: World) -> None:
    world.failing, world.commits = {12: REFUSED}, [CONFLICT]
    with pytest.raises(psycopg.errors.SerializationFailure):
        world.step()


def test_before_one_that_blocks_the_others_commit(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.failing = {13: BlockedHereError(NO_TABLE, 0)}
    world.commits = [LATE]
    world.knows_which = False
    monkeypatch.setattr(once, "call_each", lambda *_: None)
    assert world.step()[0] == _done(2)
    assert world.of("take") == [
        ("take", 4, 11), ("take", 4, 11), ("take", 2, 11),
    ]  # fmt: skip
    world.commits, world.place.hint = [LATE], 13
    with pytest.raises(BlockedError, match="g/orders/0@13"):
        world.step()
    assert world.held == (0, 0, 0)


def test_patience_with_the_database_sets_nothing_aside(world: World) -> None:
    world.patient()
    world.commits = [NO_TABLE]
    with pytest.raises(BlockedError, match="g/orders/0"):
        world.step(1)
    assert "aside" not in str(world.told())


# -- one that is reserved -------------------------------------------------------------------------


def _reserved(world: World, crashes: int = 1, **known: Any) -> Reserved:
    found = {"attempts": 0, "is_letter": True, "was_dead": False, **known}
    return Reserved(place=world.place, receipt="r", unit=_unit(11), crashes=crashes, **found)


CALLED = [("holds", 7, 11, 11), "begin, with savepoints", "counts as handled", 11]


def test_a_reserved_one_is_handled_alone(world: World) -> None:
    assert step_reserved(world.place, _reserved(world)) == _done(1)
    assert world.told() == [*CALLED, "allow 1", "commit", ("holds", 0, 0, 0)]


@pytest.mark.parametrize(
    ("known", "verdict", "done"),
    [
        ({}, Verdict(state="waiting", retry_after_s=3.0), {"waiting": 1}),
        ({"attempts": 1}, DEAD, {"dead": 1}),
        ({"was_dead": True}, DEAD, {"dead": 1}),
    ],
)
@pytest.mark.parametrize("error", [REFUSED, TransactionBrokenError("ended")])
def test_what_failed_is_set_aside_as_the_policy_says(
    world: World, monkeypatch: pytest.MonkeyPatch, known: Any, verdict: Verdict, done: Any,
    error: Exception,
) -> None:  # fmt: skip
    told: list[Any] = []
    monkeypatch.setattr(alone.spans, "verdict", lambda *each: told.append(each))
    world.failing = {11: error}
    assert step_reserved(world.place, _reserved(world, **known)) == _done(1, **done)
    assert world.told() == [
        *CALLED, "rollback", ("fail", "r", error, 1, verdict), ("holds", 0, 0, 0),
    ]  # fmt: skip
    assert told == [(error, verdict.state, known.get("attempts", 0) + 1)]


def test_what_is_to_be_skipped_is_acknowledged(world: World) -> None:
    world.failing = {11: gapless.Skip("of no use")}
    assert step_reserved(world.place, _reserved(world)) == _done(1)
    assert world.told()[-2:] == [("acknowledge", "r"), ("holds", 0, 0, 0)]


def test_what_too_many_died_of_is_not_called(world: World) -> None:
    assert step_reserved(world.place, _reserved(world, crashes=3)) == _done(1)
    world.told()
    assert step_reserved(world.place, _reserved(world, crashes=4)) == _done(1, dead=1)
    assert world.told() == [("fail", "r", crash_reason(3, ""), 0, DEAD)]


def test_what_is_anothers_is_left_to_it(world: World) -> None:
    world.begins = [ReceiptError("lost")]
    assert step_reserved(world.place, _reserved(world)) == Step(outcome="done")
    assert world.told()[-2:] == ["rollback", ("holds", 0, 0, 0)]
    world.lost, world.failing = True, {11: REFUSED}
    assert step_reserved(world.place, _reserved(world)) == Step(outcome="done")


def test_an_error_of_the_environment_gives_it_back(world: World) -> None:
    for world.failing, world.commits in (({11: LATE}, []), ({}, [CONFLICT])):
        with pytest.raises(psycopg.Error):
            step_reserved(world.place, _reserved(world))
        assert world.told()[-2:] == [("holds", 0, 0, 0), ("give back", "r")]
    world.session.closed, world.commits = True, [CONFLICT]
    with pytest.raises(psycopg.errors.SerializationFailure):
        step_reserved(world.place, _reserved(world))
    assert world.told()[-1] == "rollback", "who died of it is not known"


def test_a_commit_that_fails_is_its_fault(world: World) -> None:
    world.commits = [LATE]
    assert step_reserved(world.place, _reserved(world)) == _done(1, waiting=1)


def test_what_is_learned_is_tried_once_more(world: World) -> None:
    for error in (LATE, CONFLICT, TransactionBrokenError("untold")):
        world.commits, world.learns = [error], [True]
        assert step_reserved(world.place, _reserved(world)) == _done(1)
        assert world.told().count("counts as handled") == 2
    world.failing, world.learns = {11: LATE}, [True]
    with pytest.raises(psycopg.errors.UniqueViolation):
        step_reserved(world.place, _reserved(world))


def test_patience_with_the_database_gives_it_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.patient()
    world.failing = {11: NO_TABLE}
    failed = UnitFailedError(NO_TABLE)

    def refuse(*_: object) -> None:
        raise failed

    monkeypatch.setattr(alone, "call", refuse)
    with pytest.raises(BlockedError, match="g/orders/0@11"):
        step_reserved(world.place, _reserved(world))
    assert world.told()[-2:] == [("holds", 0, 0, 0), ("give back", "r")]
