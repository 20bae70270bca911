"""What isolate() does with units of which one failed: who runs together, who alone, what is set aside, what is tried again.

Claims, calls, and what the database says, are as a test wants; the log has five units of two events, from offset 11 on.
"""

from typing import Any

import psycopg
import pytest

import gapless
from gapless.consume.isolate import give_up, isolate
from gapless.consume.job import Redo, Step
from gapless.consume.read.claim import Claim
from gapless.consume.session import TransactionBrokenError
from gapless.consume.unit import UnitRanges
from gapless.consume.verdict.failure import Failure
from gapless.consume.verdict.policy import OnFailure, Verdict
from gapless.errors import BlockedError
from gapless.features.filters.filtered import Kept, kept_spans
from support.isolated import ALL, CONFLICT, PLACE, ROWS, IsolatedWorld

REFUSED = ValueError("no")
LATE = psycopg.errors.UniqueViolation("at COMMIT")
BROKEN = TransactionBrokenError("gone")


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> IsolatedWorld:
    return IsolatedWorld(monkeypatch)


def redo(spans: UnitRanges, **more: Any) -> Redo:
    return Redo(spans=spans, rows=ROWS, **more)


def seen(found: Any) -> Any:
    """What a Redo is of, whatever it keeps the places of its units in; its events go with it."""
    assert isinstance(found, Redo)
    assert found.rows is ROWS or found.learned or found.hopeless
    return list(found.spans), found.failed, found.hopeless, found.done, found.learned


def after(units: int, **aside: int) -> Step:
    return Step.after(ALL[:units], aside)


def dead(
    first_offset: int,
    error: BaseException,
    state: Any = "dead",
    delay_s: float = 0.0,
) -> Any:
    failure = Failure(error=error, duration_ms=500.0)
    fate = Verdict(state=state, retry_after_s=delay_s)
    return first_offset, first_offset + 1, failure, fate


# What was there, and the first that failed, if it is known; who runs together, and who alone.
RUNS: list[tuple[int, int | None, list[int], list[int]]] = [
    (5, None, [], [11, 13]), (5, 0, [], [11, 13]), (5, 1, [11], [13, 15]), (5, 2, [11, 13], [15, 17]),
    (5, 4, [11, 13, 15, 17], [19]), (1, 0, [], [11]), (2, 1, [11], [13]),
]  # fmt: skip


@pytest.mark.parametrize(("units", "failed", "together", "alone"), RUNS)
def test_those_before_the_first_failure_run_together(
    world: IsolatedWorld, units: int, failed: int | None, together: list[int], alone: list[int]
) -> None:
    count = len(together) + len(alone)
    assert isolate(world.job(), redo(ALL[:units], failed=failed)) == after(count)
    check = ["check"] if together else []
    assert world.told() == [
        "begin", f"claim {2 * count}", *together, *check, *(f"alone {n}" for n in alone), f"allow {count}", "commit",
    ]  # fmt: skip


# How a unit failed; of which policy; what it counts as, what was set aside, if anything.
FATES: dict[str, tuple[BaseException, OnFailure, dict[str, int], Any]] = {
    "dead": (REFUSED, "dead-letter", {"dead": 1}, dead(15, REFUSED)),
    "dead, by wish": (wish := gapless.DeadLetter("no"), "retry", {"dead": 1}, dead(15, wish)),
    "to be tried again": (REFUSED, "retry", {"waiting": 1}, dead(15, REFUSED, "waiting", 7.0)),
    "to be tried again, by wish": (
        later := gapless.Retry("no", after=3), "block", {"waiting": 1, "asked": 1}, dead(15, later, "waiting", 3.0),
    ),
    "as if handled": (gapless.Skip("no"), "dead-letter", {}, None),
}  # fmt: skip


@pytest.mark.parametrize("name", FATES)
def test_what_fails_alone_is_set_aside_and_the_others_go_through(
    world: IsolatedWorld, name: str
) -> None:
    error, policy, aside, letter = FATES[name]
    world.failing[15] = error
    assert isolate(world.job(policy), redo(ALL, failed=2)) == after(4, **aside)
    assert world.told() == [
        "begin", "claim 8", 11, 13, "check", "alone 15", *([letter] if letter else []), "alone 17", "allow 4", "commit",
    ]  # fmt: skip


def test_each_that_fails_is_counted(world: IsolatedWorld) -> None:
    world.failing = {11: REFUSED, 13: REFUSED}
    assert isolate(world.job(), redo(ALL)) == after(2, dead=2)


@pytest.mark.parametrize("parked", [set(), {11}, {13}, {11, 13}, {15}, {11, 17}])
def test_who_is_parked_is_not_called(world: IsolatedWorld, parked: set[int]) -> None:
    world.parked = parked
    step = isolate(world.job("park-key"), redo(ALL, failed=2))
    assert step == after(4, parked=len(parked))
    called = [n for n in (11, 13) if n not in parked]
    alone = [f"alone {n}" for n in (15, 17) if n not in parked]
    assert world.told() == [
        "begin",
        "claim 8",
        "look at 4",
        *called,
        "check",
        *alone,
        "allow 4",
        "commit",
    ]


@pytest.mark.parametrize("error", [REFUSED, gapless.Skip("no")])
def test_who_is_set_aside_holds_its_keys(world: IsolatedWorld, error: BaseException) -> None:
    world.failing[11] = error
    isolate(world.job("park-key"), redo(ALL))
    aside = [dead(11, error, "waiting", 7.0), "hold 11"] if error is REFUSED else []
    assert world.told() == [
        "begin",
        "claim 4",
        "look at 2",
        "alone 11",
        *aside,
        "alone 13",
        "allow 2",
        "commit",
    ]


def test_one_that_blocks_is_not_passed(world: IsolatedWorld) -> None:
    """Those before it are, and then the driver is told."""
    world.failing[17] = REFUSED
    assert seen(isolate(world.job("block"), redo(ALL, failed=2))) == seen(redo(ALL[:3]))
    assert world.told()[-2:] == ["alone 17", "rollback"]
    world.failing = {11: REFUSED}
    with pytest.raises(BlockedError) as caught:
        isolate(world.job("block"), redo(ALL))
    assert str(caught.value) == str(BlockedError(f"{PLACE}@11", REFUSED))
    assert world.told() == ["begin", "claim 4", "alone 11", "rollback"]


# What fails, where; with how many units it goes on, or why that is hopeless.
FEWER: list[tuple[int, int | None, dict[str, Any], Redo]] = [
    (5, 2, {"failing": {11: REFUSED}}, redo(ALL[:2])), (5, 2, {"failing": {13: REFUSED}}, redo(ALL[:2])),
    (5, 1, {"failing": {11: REFUSED}}, redo(ALL[:1])), (5, 2, {"checks": [LATE]}, redo(ALL[:2])),
    (5, 2, {"failing": {15: BROKEN}}, redo(ALL[:2])), (5, 2, {"failing": {17: BROKEN}}, redo(ALL[:3])),
    (5, None, {"failing": {11: BROKEN}}, redo(ALL[:1])), (5, None, {"failing": {13: BROKEN}}, redo(ALL[:1])),
    (1, None, {"failing": {11: BROKEN}}, redo(ALL[:1], hopeless=BROKEN)),
    (5, 2, {"commit": LATE}, redo(ALL[:2])), (5, 4, {"commit": LATE}, redo(ALL[:2])),
    (2, None, {"commit": LATE}, redo(ALL[:1])), (1, None, {"commit": LATE}, redo(ALL[:1], hopeless=LATE)),
    (5, 4, {"commit": BROKEN}, redo(ALL[:4])), (5, 2, {"commit": BROKEN}, redo(ALL[:2])),
]  # fmt: skip


@pytest.mark.parametrize(("units", "failed", "said", "expected"), FEWER)
def test_what_no_savepoint_tells_apart_is_tried_with_fewer(
    world: IsolatedWorld, units: int, failed: int | None, said: dict[str, Any], expected: Redo
) -> None:
    for name, value in said.items():
        setattr(world, name, value.copy() if isinstance(value, list) else value)
    assert seen(isolate(world.job(), redo(ALL[:units], failed=failed))) == seen(expected)
    assert world.told()[-1] == "rollback"


@pytest.mark.parametrize("error", [BROKEN, REFUSED])
def test_what_was_learned_of_the_handler_is_tried_again_as_a_whole(
    world: IsolatedWorld, error: BaseException
) -> None:
    world.learns = True
    world.failing[11] = error
    found = isolate(world.job(), redo(ALL, failed=2))
    assert seen(found) == seen(redo(ALL[:4], learned=True))


@pytest.mark.parametrize(
    "said",
    [{"failing": {11: CONFLICT}}, {"failing": {15: CONFLICT}}, {"checks": [CONFLICT]}, {"commit": CONFLICT},
     {"failing": {11: LATE}}],
)  # fmt: skip
def test_what_is_the_database_s_trouble_stays_what_it_is(
    world: IsolatedWorld, said: dict[str, Any]
) -> None:
    for name, value in said.items():
        setattr(world, name, value.copy() if isinstance(value, list) else value)
    with pytest.raises(psycopg.Error) as caught:
        isolate(world.job(), redo(ALL, failed=2))
    assert caught.value is (LATE if said.get("failing") == {11: LATE} else CONFLICT)


CLAIMS: dict[str, tuple[Claim, str]] = {
    "fenced": (Claim(outcome="fenced"), "fenced"),
    "idle": (Claim(outcome="idle"), "idle"),
    "begins later": (Claim(outcome="claimed", first_offset=13, last_offset=14, claim_xid="xid", spans=ALL[1:2]), "idle"),
    "is longer": (Claim(outcome="claimed", first_offset=11, last_offset=16, claim_xid="xid", spans=ALL[:3]), "idle"),
    "is shorter": (Claim(outcome="claimed", first_offset=11, last_offset=12, claim_xid="xid", spans=ALL[:1]), "idle"),
}  # fmt: skip


@pytest.mark.parametrize("name", CLAIMS)
def test_what_is_claimed_otherwise_is_left_alone(world: IsolatedWorld, name: str) -> None:
    claim, outcome = CLAIMS[name]
    world.claims = [claim, claim]
    assert isolate(world.job(), redo(ALL[:2])) == Step(outcome=outcome)  # type: ignore[arg-type]
    end = "commit" if outcome == "fenced" else "rollback"
    assert world.told() == ["begin", end]
    if name != "is shorter":
        step = give_up(world.job(), ALL[:1], Failure(error="no"), verdict=Verdict(state="dead"))
        assert step == Step(outcome=outcome)  # type: ignore[arg-type]
        assert world.told() == ["begin", end]


def test_what_another_filter_keeps_is_left_alone(world: IsolatedWorld) -> None:
    some = kept_spans(ALL, Kept(ids=ALL.ids[1:], offsets=range(12, 21)))
    assert isolate(world.job(), redo(some)) == Step(outcome="idle")
    assert world.told() == ["begin", "claim 4", "rollback"]


@pytest.mark.parametrize(
    ("policy", "attempts", "verdict", "aside", "fate"),
    [
        ("dead-letter", 1, None, {"dead": 1}, Verdict(state="dead")),
        (
            "retry",
            1,
            None,
            {"waiting": 1},
            Verdict(state="waiting", retry_after_s=7.0),
        ),
        ("retry", 2, None, {"dead": 1}, Verdict(state="dead")),
        ("block", 1, Verdict(state="dead"), {"dead": 1}, Verdict(state="dead")),
        ("dead-letter", 1, Verdict(state="skip"), {}, None),
    ],
)
def test_one_is_given_up_without_a_call(
    world: IsolatedWorld, policy: Any, attempts: int, verdict: Verdict | None, aside: dict[str, int], fate: Verdict | None
) -> None:  # fmt: skip
    failure = Failure(error=REFUSED, attempts=attempts)
    assert give_up(world.job(policy), ALL[:1], failure, verdict=verdict) == after(1, **aside)
    letter = [(11, 12, failure, fate)] if fate else []
    assert world.told() == ["begin", "claim 2", *letter, "allow 1", "commit"]


def test_one_that_blocks_is_not_given_up(world: IsolatedWorld) -> None:
    for verdict in (None, Verdict(state="block")):
        with pytest.raises(BlockedError):
            give_up(world.job("block"), ALL[1:2], Failure(error=REFUSED), verdict=verdict)
    assert world.told() == []
