"""What was set aside and is due: its tries, its call, and what becomes of it, exactly once and at least once.

What a claim says, how a call ends, and what a COMMIT comes to, is as a test wants.
"""

from dataclasses import replace
from typing import Any
from uuid import UUID

import psycopg
import pytest

import gapless
from gapless.consume.aside import retry as module
from gapless.consume.aside.retry import ClaimedAside, due_asides, look_outside, retry_aside
from gapless.consume.batch import Batch
from gapless.consume.job import Job
from gapless.consume.session import TransactionBrokenError
from gapless.consume.unit import Span, Unit
from gapless.consume.user.handler import Handler
from gapless.consume.verdict.failure import Failure, UnitFailedError, crash_reason
from gapless.consume.verdict.policy import Policy
from gapless.errors import HoleError
from gapless.features.filters import matches
from gapless.keys import Assignment, Partition
from gapless.log.read import ROWS
from support.told import Telling
from support.turn import turn

CONN: Any = "the session"
PLACE = Partition(group_id="g", topic="orders", topic_id=1, partition_id=3)
OURS = Assignment(partition=PLACE, epoch=5, token=UUID(int=1))
HERE = {**OURS.params, "first_offset": 11}
REFUSED = ValueError("no")
CONFLICT = psycopg.errors.SerializationFailure("conflict")
LATE = psycopg.errors.UniqueViolation("at COMMIT")
CLAIMED = ClaimedAside("claimed", "xid", 13, 0, was_dead=False, timeline=None)
TRY = ["begin", "record_try", "commit"]
CLAIM = ["begin", "claim_letter"]
READ = ["fetch"]


class World(Telling):
    """A unit from offset 11 to 13 that was set aside."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(CONN)
        self.params: dict[str, Any] = {}
        self.tries: int | None = 1
        self.claimed = CLAIMED
        self.kept = [True, True, True]
        self.matched: list[Any] = []
        self.written = True
        self.due: list[Any] = []
        self.ends: list[BaseException | None] = []
        self.commits: list[BaseException | None] = []
        self.failure: Failure | None = None
        self.learns: list[bool] = []
        self.seen: list[Any] = []
        self.verdicts: list[Any] = []
        for name in (
            "transaction", "run", "run_and_commit", "run_at_commit", "call", "call_outside", "adapt",
            "fetch_all",
        ):  # fmt: skip
            monkeypatch.setattr(module, name, getattr(self, name))
        monkeypatch.setattr(matches, "run", self.run)
        monkeypatch.setattr(module.spans, "verdict", lambda *told: self.verdicts.append(told))

    def job(self, *, batch: bool = False, outside: bool = False, **said: Any) -> Job:
        made: Handler = gapless.handler(topic="orders")(_exactly_once)
        if batch:
            made = gapless.handler(topic="orders", batch=True)(_exactly_once)
        if outside:
            made = gapless.handler(topic="orders", delivery="at-least-once")(_at_least_once)
        policy = Policy(on_failure="retry", retry_delays_s=(3.0, 4.0), crashes_max=2)
        return turn(CONN, OURS, made, policy=policy, worker="w", former_end="killed", **said)

    def retry(self, **said: Any) -> str:
        return retry_aside(self.job(**said), 11)

    def _commit(self) -> None:
        error = self.commits.pop(0) if self.commits and "finish_letter" in self.story else None
        if error is not None:
            raise error

    def run(self, conn: object, name: str, params: dict[str, Any]) -> list[Any]:
        assert conn is CONN
        self.story.append(name)
        self.params[name] = params
        return {
            "record_try": [(self.tries,)],
            "claim_letter": [self.claimed],
            "letter_failed": [(self.written,)],
            "letters_due": self.due,
            "letter_matches": self.matched,
            "letter_kept": [(11 + at,) for at, is_kept in enumerate(self.kept) if is_kept],
        }.get(name, [])

    def run_and_commit(self, conn: object, name: str, params: dict[str, Any]) -> list[Any]:
        with self.transaction(conn):
            return self.run(conn, name, params)

    def run_at_commit(self, conn: object, name: str, params: dict[str, Any]) -> None:
        self.run(conn, name, params)

    def fetch_all(
        self, conn: object, stage: str, name: str, params: Any, *, form: object
    ) -> list[Any]:
        assert (conn, stage, name, form) == (CONN, "consume", "fetch_letter", ROWS)
        self.story.append("fetch")
        self.params["fetch"] = params
        low, high = params["from_offset"] - 11, params["to_offset"] - 10
        return [(is_kept, 11 + low + at) for at, is_kept in enumerate(self.kept[low:high])]

    def call(self, handler: Handler, what: Any, conn: object) -> None:
        assert conn is CONN
        self.story.append("call")
        self.seen.append(what)
        end = self.ends.pop(0) if self.ends else None
        if end is not None:
            raise end

    def call_outside(self, handler: Handler, what: Any) -> Failure | None:
        self.story.append("call")
        self.seen.append(what)
        return self.failure

    def adapt(self, handler: Handler, error: BaseException) -> bool:
        return self.learns.pop(0) if self.learns else False


def _exactly_once(unit: object, conn: object) -> None: ...
def _at_least_once(unit: object) -> None: ...


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def _failed(world: World) -> dict[str, Any]:
    """What was written down of the failure."""
    params = world.params["letter_failed"]
    return {name: params[name] for name in ("state", "retry_after_s", "counted", "attempts")}


WAITS = {"state": "waiting", "retry_after_s": 3.0, "counted": True, "attempts": 1}
DIES = {"state": "dead", "retry_after_s": 0.0, "counted": True, "attempts": 1}


# -- exactly once ---------------------------------------------------------------------------------


def test_it_is_claimed_called_and_counts_as_handled(world: World) -> None:
    assert world.retry() == "handled"
    assert world.told() == [*TRY, *CLAIM, *READ, "call", "finish_letter", "commit"]
    assert world.params["finish_letter"] == {**HERE, "claim_xid": "xid"}
    assert world.params["record_try"] == world.params["claim_letter"] == HERE
    (unit,) = world.seen
    assert (type(unit), unit.first_offset, unit.last_offset, unit.attempt) == (Unit, 11, 13, 1)
    assert unit.idempotency_key == "g/orders/3@11"
    assert unit.span == Span(11, [11, 12, 13], timeline=1)
    assert [event.id for event in unit] == [11, 12, 13]


def test_it_is_told_its_attempt_and_its_timeline(world: World) -> None:
    world.claimed = CLAIMED._replace(failed=2, timeline=4)
    world.retry(batch=True)
    (batch,) = world.seen
    assert isinstance(batch, Batch)
    assert (batch[0].attempt, batch[0].idempotency_key) == (3, "g/orders/3@11~4")


@pytest.mark.parametrize(("tries", "outcome"), [(0, "gone"), (None, "fenced")])
def test_what_is_not_due_any_more(world: World, tries: int | None, outcome: str) -> None:
    world.tries = tries
    assert world.retry() == outcome
    assert world.told() == TRY


@pytest.mark.parametrize("outcome", ["gone", "fenced"])
@pytest.mark.parametrize("outside", [True, False])
def test_what_a_claim_says(world: World, outcome: Any, *, outside: bool) -> None:
    world.claimed = CLAIMED._replace(outcome=outcome)
    assert world.retry(outside=outside) == outcome
    assert world.told() == [*TRY, *CLAIM, "rollback" if outside else "commit"]


def test_what_too_many_died_of_is_dead(world: World) -> None:
    world.tries = 2
    assert world.retry() == "handled"
    world.told()
    world.tries = 3
    assert world.retry() == "dead"
    assert world.told() == [*TRY, "begin", "letter_failed", "commit"]
    assert _failed(world) == {**DIES, "counted": False, "attempts": 0}
    assert world.params["letter_failed"]["exception"] == crash_reason(2, "killed")


@pytest.mark.parametrize("outside", [True, False])
@pytest.mark.parametrize(
    ("known", "outcome", "written"),
    [
        ({}, "waiting", WAITS),
        ({"failed": 1}, "waiting", {**WAITS, "retry_after_s": 4.0}),
        ({"failed": 2}, "dead", DIES),
        ({"was_dead": True}, "dead", DIES),
    ],
)
def test_what_failed_is_set_aside_again(
    world: World, monkeypatch: pytest.MonkeyPatch, known: Any, outcome: str, written: Any, *, outside: bool
) -> None:  # fmt: skip
    monkeypatch.setattr(module, "perf_counter", iter((100.0, 107.0)).__next__)
    world.claimed = CLAIMED._replace(**known)
    if outside:
        world.failure = Failure(error=REFUSED)
    else:
        world.ends = [UnitFailedError(REFUSED)]
    assert world.retry(outside=outside) == outcome
    end = ["rollback", "call"] if outside else ["call", "rollback"]
    assert world.told() == [*TRY, *CLAIM, *READ, *end, "begin", "letter_failed", "commit"]
    assert _failed(world) == written
    assert world.params["letter_failed"].items() >= HERE.items()
    assert world.params["letter_failed"]["worker"].startswith("w pid ")
    assert world.verdicts == [(REFUSED, outcome, 1)]
    if not outside:
        assert world.params["letter_failed"]["duration_ms"] == 7000.0


def test_what_is_anothers_is_gone(world: World) -> None:
    world.ends, world.written = [UnitFailedError(REFUSED)], False
    assert world.retry() == "gone"


@pytest.mark.parametrize("outside", [True, False])
def test_what_is_to_be_skipped_counts_as_handled(world: World, *, outside: bool) -> None:
    skip = gapless.Skip("of no use")
    world.ends, world.failure = [UnitFailedError(skip)], Failure(error=skip)
    assert world.retry(outside=outside) == "handled"
    assert world.told()[-4:] == [*CLAIM, "finish_letter", "commit"]


@pytest.mark.parametrize("error", [TransactionBrokenError("ended"), HoleError("lost")])
def test_who_breaks_its_transaction_has_failed(world: World, error: Exception) -> None:
    world.ends = [error]
    assert world.retry() == "waiting"
    assert world.verdicts == [(error, "waiting", 1)]


def test_a_commit_that_fails_is_its_fault_unless_it_passes(world: World) -> None:
    world.commits = [LATE]
    assert world.retry() == "waiting"
    world.told()
    world.commits = [CONFLICT]
    with pytest.raises(psycopg.errors.SerializationFailure):
        world.retry()
    assert world.told()[-4:] == ["rollback", "begin", "forget_try", "commit"]
    assert world.params["forget_try"] == HERE


def test_an_error_of_ours_amid_the_call_is_no_attempt(world: World) -> None:
    world.ends = [LATE]
    with pytest.raises(psycopg.errors.UniqueViolation):
        world.retry()
    assert world.told()[-3:] == ["begin", "forget_try", "commit"]


def test_what_is_learned_is_tried_once_more(world: World) -> None:
    for world.ends, world.commits in (
        ([TransactionBrokenError("untold")], []), ([], [LATE]), ([], [CONFLICT]),
    ):  # fmt: skip
        world.learns = [True]
        assert world.retry() == "handled"
        assert world.told().count("call") == 2
    world.ends, world.learns = [LATE], [True]
    with pytest.raises(psycopg.errors.UniqueViolation):
        world.retry()


# -- at least once --------------------------------------------------------------------------------


def test_outside_it_is_called_in_no_transaction(world: World) -> None:
    assert world.retry(outside=True) == "handled"
    assert world.told() == [
        *TRY, *CLAIM, *READ, "rollback", "call", *CLAIM, "finish_letter", "commit",
    ]  # fmt: skip


def test_what_is_anothers_when_its_call_has_ended(world: World) -> None:
    world.claimed = CLAIMED._replace(outcome="fenced")
    job = world.job(outside=True)
    assert module.end_outside(job, 11, CLAIMED, None) == "fenced"
    assert "finish_letter" not in world.told()
    claimed, unit = look_outside(job, 11)
    assert (claimed.outcome, unit) == ("fenced", None)


def test_what_failed_for_some_is_kept_for_these(world: World) -> None:
    world.failure = Failure(error=REFUSED, only=frozenset({4}))
    assert world.retry(outside=True) == "waiting"
    assert world.told()[-4:] == ["begin", "letter_failed", "narrow_letter", "commit"]
    assert world.params["narrow_letter"] == {**HERE, "only": [4]}
    world.written = False
    assert world.retry(outside=True) == "gone"
    assert "narrow_letter" not in world.told()


# -- what it is called with -----------------------------------------------------------------------


def test_of_a_filter_it_is_what_it_saw(world: World) -> None:
    world.kept = [False, True, True]
    world.retry()
    (unit,) = world.seen
    assert (unit.first_offset, unit.last_offset, len(unit)) == (11, 13, 2)
    assert [(event.offset, event.id, event.subscriptions) for event in unit] == [
        (12, 12, ()), (13, 13, ()),
    ]  # fmt: skip


@pytest.mark.parametrize("kept", [[True, True, True], [False, True, True]])
def test_it_is_told_which_subscriptions_it_matched(world: World, kept: list[bool]) -> None:
    world.kept = kept
    world.claimed = CLAIMED._replace(has_subscriptions=True)
    world.matched = [
        (13, 7, "seventh", '{"n": 1}'),
        (12, 5, "fifth", "{}"),
        (13, 8, "eighth", "{}"),
    ]
    world.retry()
    assert world.params["letter_matches"] == {**PLACE.params, "first_offset": 11}
    (unit,) = world.seen
    names = [[each.name for each in event.subscriptions] for event in unit]
    assert names == [*[[]] * kept[0], ["fifth"], ["seventh", "eighth"]]
    assert [each.params for each in unit.subscriptions] == [{}, {"n": 1}, {}]


@pytest.mark.parametrize("kept", [[True, True, True], [True, False, True]])
def test_a_large_one_is_read_while_it_is_handled(world: World, kept: list[bool]) -> None:
    world.kept = kept
    world.retry(stream_above_events=2)
    assert world.told() == [
        *TRY, *CLAIM, "letter_kept", "call", "finish_letter", "commit",
    ]  # fmt: skip
    assert world.params["letter_kept"] == {**PLACE.params, "first_offset": 11}
    (unit,) = world.seen
    assert unit.is_streamed
    places = [11 + n for n in range(3) if kept[n]]
    assert [(event.offset, event.id) for event in unit] == [(place, place) for place in places]
    assert world.params["fetch"] == {
        **PLACE.params, "first_offset": 11, "from_offset": 11, "to_offset": 13,
    }  # fmt: skip
    world.told()
    world.retry(stream_above_events=3)
    assert "letter_kept" not in world.told()


def test_one_whose_events_are_lost_has_failed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "fetch_all", lambda *_, **__: [(True, 11)])
    assert world.retry() == "waiting"
    assert "1 of 3 events are left" in world.params["letter_failed"]["exception"]


# -- what is due ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "due"),
    [
        ([], ([], None)),
        ([(11, 0.0), (14, 0.0)], ([11, 14], None)),
        ([(None, 2)], ([], 2.0)),
    ],
)
def test_which_are_due(world: World, rows: Any, due: Any) -> None:
    world.due = rows
    assert due_asides(world.job()) == due
    assert world.params["letters_due"] == PLACE.params


def test_a_try_that_cannot_be_taken_back_hides_no_error(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: object) -> None:
        raise psycopg.OperationalError("there is no connection")

    monkeypatch.setattr(module, "forget_try", lost)
    world.ends = [CONFLICT]
    with pytest.raises(psycopg.errors.SerializationFailure):
        world.retry()


def test_schemas_are_looked_at_before_a_call_outside(world: World) -> None:
    looked: list[Any] = []

    class Guard:
        def look(self, conn: object, topic: str) -> None:
            looked.append((conn, topic))

    job = world.job(outside=True)
    guard: Any = Guard()
    job = replace(job, handler=replace(job.handler, guard=guard))
    assert retry_aside(job, 11) == "handled"
    assert looked == [(CONN, "orders")]
