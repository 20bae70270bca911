"""What probes are answered: for how long a loop may be silent, and which partitions are named."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from gapless.features.metrics.health import NAMED_MAX, OK, UNAVAILABLE, health, readiness
from gapless.features.metrics.look import GroupStanding
from gapless.telemetry.supervisor_beat import SupervisorBeat

ROW = GroupStanding(
    group_id="g", topic="t", partition_id=0, owner_id=None, is_paused=False, next_offset=5, lag=3,
    lag_s=1.0, error=None,
)  # fmt: skip
MINE = frozenset({("t", "g")})


@pytest.mark.parametrize(
    ("silence_s", "status", "text"),
    [
        (10.0, OK, "ok"),
        (10.1, UNAVAILABLE, "the supervisor's loop has not turned for 10.1 s"),
    ],
)
def test_a_loop_may_be_silent_for_so_long(silence_s: float, status: int, text: str) -> None:
    pulse: Any = SimpleNamespace(silence_s=silence_s)
    assert health(pulse, 10.0) == (status, text)


def _pulse(*, is_member: bool = True, drains: bool = False) -> SupervisorBeat:
    pulse = SupervisorBeat()
    pulse.beat(UUID(int=1) if is_member else None, drains=drains)
    return pulse


def _look(*standing: tuple[GroupStanding, float]) -> Any:
    return SimpleNamespace(
        standings=[each for each, _ in standing],
        standstill_s={each.key: seconds for each, seconds in standing},
    )


@pytest.mark.parametrize(
    ("pulse", "look", "why"),
    [
        (_pulse(is_member=False), "gone", "not a member of its groups, or not connected"),
        (_pulse(is_member=False, drains=True), "gone", "not a member"),
        (_pulse(drains=True), "gone", "draining: it was told to end"),
        (_pulse(), "gone", "the database does not answer: gone"),
    ],
)
def test_who_cannot_work_is_not_ready(pulse: SupervisorBeat, look: str, why: str) -> None:
    status, text = readiness(pulse, look, groups=MINE, standstill_s=60)
    assert status == UNAVAILABLE
    assert text.startswith(why)


def test_what_stands_still_is_named_and_makes_nobody_unready() -> None:
    look = _look(
        (ROW, 59.9),
        (replace(ROW, partition_id=1), 60.0),
        (replace(ROW, partition_id=2, error="stopped: a hole"), 61.0),
        (replace(ROW, group_id="h", partition_id=3), 99.0),
        (replace(ROW, topic="u", partition_id=4), 99.0),
    )
    status, text = readiness(_pulse(), look, groups=MINE, standstill_s=60)
    assert status == OK
    assert text.splitlines() == [
        "ready",
        "standstill g/t/1@5: 3 events, none passed for 60 s",
        "standstill g/t/2@5: 3 events, none passed for 61 s: stopped: a hole",
    ]


@pytest.mark.parametrize(("more", "told"), [(0, []), (2, ["standstill of 2 more partitions"])])
def test_so_many_are_named(more: int, told: list[str]) -> None:
    look = _look(*((replace(ROW, partition_id=n), 90.0) for n in range(NAMED_MAX + more)))
    _, text = readiness(_pulse(), look, groups=MINE, standstill_s=60)
    first, *named = text.splitlines()
    assert first == "ready"
    assert named[NAMED_MAX:] == told
    assert all(line.startswith("standstill g/t/") for line in named[:NAMED_MAX])
