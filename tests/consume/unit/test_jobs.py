"""What a job says: of what was done, of a unit that failed, and of a database that is not ready."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import psycopg
import pytest

import gapless
from gapless.consume import job as module
from gapless.consume.job import Job, Step
from gapless.consume.unit import UnitRanges
from gapless.consume.user.handler import Handler
from gapless.consume.verdict.patience import PATIENCE_S, Patience
from gapless.consume.verdict.policy import BLOCK_RETRY_S, OnFailure, Policy, Verdict
from gapless.errors import BlockedError, UnreadyError
from gapless.features.filters.filtered import Kept, kept_spans
from gapless.keys import Assignment, Partition
from support.turn import turn

CONN: Any = "the session"
PLACE = Partition(group_id="g", topic="orders", topic_id=1, partition_id=3)
OURS = Assignment(partition=PLACE, epoch=5, token=UUID(int=1))
SPANS = UnitRanges(11, [1, 2, 3, 4, 5, 6], [1, 2, 3, 6])
NO_TABLE = psycopg.errors.UndefinedTable('relation "x" does not exist')
FULL = psycopg.errors.DiskFull("no space is left")  # passes, and yet is not ready
REFUSED = ValueError("no")
DEAD, BLOCK = Verdict(state="dead"), Verdict(state="block", retry_after_s=BLOCK_RETRY_S)


def _job(on_failure: OnFailure = "dead-letter", **said: Any) -> Job:
    made: Handler = gapless.handler(topic="orders")(_handle)
    return turn(CONN, OURS, made, policy=Policy(on_failure=on_failure), **said)


def _handle(unit: object, conn: object) -> None: ...


def test_of_what_was_set_aside_the_rest_was_handled() -> None:
    assert Step.after(SPANS) == Step(outcome="done", events=6, units=4, handled=4, next_offset=17)
    aside = {"dead": 1, "waiting": 1, "parked": 1, "asked": 2}
    assert Step.after(SPANS, aside) == Step(
        outcome="done", events=6, units=4, handled=1, next_offset=17, **aside
    )
    kept = kept_spans(SPANS, Kept(ids=[2, 5], offsets=[12, 15]))
    assert Step.after(kept) == Step(outcome="done", events=2, units=2, handled=2, next_offset=17)


@pytest.mark.parametrize(
    ("on_failure", "parked", "parks"),
    [("park-key", False, True), ("retry", True, True), ("retry", False, False)],
)
def test_units_are_parked_by_the_policy_or_behind_one_that_is(
    on_failure: OnFailure, *, parked: bool, parks: bool
) -> None:
    assert _job(on_failure, parked=parked).parks == parks


def test_who_defers_has_a_commit_for_each_unit() -> None:
    job = _job(units_per_commit=7)
    assert job.units_per_commit == 7
    job.handler.habits.defers = True
    assert job.units_per_commit == 1


class TestPatience:
    """With a database that is not as the handler expects it."""

    def test_without_any_the_policy_holds(self) -> None:
        assert _job().judge(REFUSED, 1, 1) == DEAD
        assert _job().judge(NO_TABLE, 1, 1) == DEAD
        assert _job("block").judge(REFUSED, 1, 1) == BLOCK

    def test_without_any_what_passes_is_raised(self) -> None:
        with pytest.raises(psycopg.errors.DiskFull):
            _job().judge(FULL, 1, 1)
        assert _job().judge(psycopg.errors.SerializationFailure("conflict"), 1, 1) == DEAD

    def test_it_is_for_what_is_not_ready_alone(self, monkeypatch: pytest.MonkeyPatch) -> None:
        clock = [1000.0]
        monkeypatch.setattr(module, "monotonic", lambda: clock[0])
        job = _job(patience=Patience())
        assert job.judge(REFUSED, 1, 1) == DEAD
        for error in (NO_TABLE, FULL):
            assert job.judge(error, 1, 1) == replace(BLOCK, counted=False)
        clock[0] += PATIENCE_S
        for error in (NO_TABLE, FULL):
            assert job.judge(error, 1, 1) == DEAD

    def test_attempts_and_a_persons_wish_are_passed_on(self) -> None:
        job = _job()
        retry = Policy(on_failure="retry", retry_delays_s=(1.0, 2.0))
        job = replace(job, terms=replace(job.terms, policy=retry))
        assert job.judge(REFUSED, 2, 1) == Verdict(state="waiting", retry_after_s=2.0)
        assert job.judge(REFUSED, 3, 1) == DEAD
        assert job.judge(REFUSED, 1, 1, redriven=True) == DEAD

    @pytest.mark.parametrize(
        ("error", "on_failure", "patient", "kind"),
        [
            (NO_TABLE, "dead-letter", True, UnreadyError),
            (NO_TABLE, "dead-letter", False, BlockedError),
            (NO_TABLE, "block", True, BlockedError),
            (REFUSED, "dead-letter", True, BlockedError),
            ("words", "dead-letter", True, BlockedError),
        ],
    )
    def test_what_a_driver_is_told(
        self, error: Any, on_failure: OnFailure, kind: type, *, patient: bool
    ) -> None:
        told = _job(on_failure, patience=Patience() if patient else None).blocked(12, error)
        assert type(told) is kind
        assert told.place == "g/orders/3@12"
        assert told.error is error
