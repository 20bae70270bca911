"""What a step says that it did: nothing, unless it says so; and two steps as one."""

from dataclasses import asdict, replace

import pytest

from gapless.consume.job import Step

DONE = Step(
    outcome="done", events=9, units=8, dead=1, waiting=2, parked=3, asked=4, handled=5, next_offset=20
)  # fmt: skip
MORE = Step(
    outcome="done", events=90, units=80, dead=10, waiting=20, parked=30, asked=40, handled=50,
    next_offset=30,
)  # fmt: skip


def test_nothing_was_done_unless_it_says_so() -> None:
    step = Step(outcome="idle")
    assert step.outcome == "idle"
    assert {value for name, value in asdict(step).items() if name != "outcome"} == {0}


def test_parked_units_did_not_fail() -> None:
    assert DONE.failed == 3


def test_two_are_told_as_one_that_ends_where_the_second_one_does() -> None:
    both = DONE.followed_by(MORE)
    assert both == Step(
        outcome="done", events=99, units=88, dead=11, waiting=22, parked=33, asked=44, handled=55,
        next_offset=30,
    )  # fmt: skip


@pytest.mark.parametrize("outcome", ["idle", "fenced"])
def test_one_that_did_nothing_adds_nothing(outcome: str) -> None:
    nothing = replace(MORE, outcome=outcome)  # type: ignore[arg-type]
    assert nothing.followed_by(DONE) == DONE
    assert DONE.followed_by(nothing) == DONE
