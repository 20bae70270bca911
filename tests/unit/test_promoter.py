"""When a sequencer looks for what is due, with a clock that stands still; and times as text."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from gapless.errors import PublishError, UsageError
from gapless.log import later
from gapless.log.later import Promoter, cancel, delay_text, moment_text, promote_all

START = "-infinity"
NOBODY: Any = None  # what is asked through a connection, and answered below


class World:
    """A clock, and what promote() of the database answers, in turn."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now_s = 1000.0
        self.takes_s = 0.0
        self.answers: list[tuple[int, float | None, str]] = []
        self.asked: list[str] = []
        patch.setattr(later, "monotonic", lambda: self.now_s)
        patch.setattr(later, "_promote", self._promote)

    def _promote(self, _conn: object, low: str) -> tuple[int, float | None, str]:
        self.asked.append(low)
        self.now_s += self.takes_s
        return self.answers.pop(0)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def looked(world: World, promoted: int, wait_s: float | None, low: str = "low") -> Promoter:
    promoter = Promoter()
    world.answers.append((promoted, wait_s, low))
    assert promoter.promote(NOBODY) == promoted
    return promoter


def due_in(world: World, promoter: Promoter) -> float:
    """Find, to a tenth of a millisecond, when it is due; the clock is put back."""
    began_s, most = world.now_s, 200_000
    low, high = 0, most
    while low < high:
        world.now_s = began_s + (middle := (low + high) // 2) / 10_000
        low, high = (low, middle) if promoter.is_due() else (middle + 1, high)
    world.now_s = began_s
    return low / 10_000


def test_the_first_look_is_due_at_once(world: World) -> None:
    world.now_s = 0.0
    promoter = Promoter()
    assert promoter.is_due()
    assert promoter.wait_s(60.0) == 0.0
    assert promoter.rest_s(60.0) == 0.004


@pytest.mark.parametrize(
    ("promoted", "wait_s", "due_s", "asleep_s", "rest_s"),
    [
        (0, None, 0.01, math.inf, math.inf),
        (0, 5.0, 0.01, 5.0, 5.0),
        (0, 0.006, 0.006, 0.006, 0.006),
        (0, 0.002, 0.002, 0.002, 0.004),
        (0, 0.0, 0.01, 0.02, 0.02),  # somebody has it in hand
        (0, -3.0, 0.01, 0.02, 0.02),
        (7, 0.0, 0.0, 0.0, 0.004),
        (7, -3.0, 0.0, 0.0, 0.004),
        (7, None, 0.01, math.inf, math.inf),
        (1, 0.5, 0.01, 0.5, 0.5),
    ],
)
def test_the_next_look(
    world: World,
    promoted: int,
    wait_s: float | None,
    due_s: float,
    asleep_s: float,
    rest_s: float,
) -> None:
    promoter = looked(world, promoted, wait_s)
    assert due_in(world, promoter) == pytest.approx(due_s, abs=2e-4)
    for most_s in (0.001, 0.01, 1.0, 60.0):
        assert promoter.wait_s(most_s) == pytest.approx(min(asleep_s, most_s))
        assert promoter.rest_s(most_s) == pytest.approx(min(rest_s, most_s))
    world.now_s += 100.0
    assert promoter.is_due()
    assert promoter.wait_s(60.0) == (0.0 if asleep_s < math.inf else 60.0)
    assert promoter.rest_s(60.0) == (0.004 if asleep_s < math.inf else 60.0)


def test_it_waits_from_the_end_of_a_look(world: World) -> None:
    world.takes_s = 3.0
    promoter = looked(world, 0, 5.0)
    assert promoter.wait_s(60.0) == 5.0


def test_all_is_looked_at_for_a_twentieth_of_the_time(world: World) -> None:
    world.takes_s = 2.0
    promoter = looked(world, 0, None, "a")
    assert world.asked == [START]
    for low in "bcd":
        world.answers.append((0, None, low))
    for passed_s in (37.5, 0.5):  # of the 40 s, the look in between took 2
        world.now_s += passed_s
        promoter.promote(NOBODY)
    assert world.asked == [START, "a", START], "at 40 s exactly it looks at all"
    promoter.promote(NOBODY)
    assert world.asked[-1] == "c", "from where the last one ended, whatever that was"


def test_all_that_is_due_is_promoted(world: World) -> None:
    world.answers = [(1000, 0.0, "a"), (1, 0.0, "b"), (0, None, "c"), (5, None, "d")]
    assert promote_all(NOBODY) == 1001
    assert world.asked == [START, START, START]


@pytest.mark.parametrize("scheduled_id", [0, -1, 2**63, True, "1", 1.0, None])
def test_what_is_no_number_of_an_event_is_refused(scheduled_id: Any) -> None:
    with pytest.raises(UsageError) as caught:
        cancel(NOBODY, scheduled_id)
    assert str(caught.value) == f"scheduled_id {scheduled_id!r} is no id of an event for later"


@pytest.mark.parametrize("scheduled_id", [1, 2**63 - 1])
def test_what_is_a_number_needs_a_connection(scheduled_id: int) -> None:
    with pytest.raises(UsageError, match="NoneType is not a connection"):
        cancel(NOBODY, scheduled_id)


EAST = timezone(timedelta(hours=1))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        ("2030-01-01T09:00Z", "2030-01-01T09:00:00+00:00"),
        ("2030-01-01T09:00+01:00", "2030-01-01T09:00:00+01:00"),
        (datetime(2030, 1, 1, 9, tzinfo=UTC), "2030-01-01T09:00:00+00:00"),
        (datetime(2030, 1, 1, 9, tzinfo=EAST), "2030-01-01T09:00:00+01:00"),
    ],
)
def test_a_moment(value: object, text: str | None) -> None:
    assert moment_text(value) == text


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("soon", "deliver_at 'soon' is no time: write it as 2030-01-01T09:00Z"),
        (5, "deliver_at must be a datetime or text, not int"),
        (
            datetime(2030, 1, 1),  # noqa: DTZ001 - it has no time zone
            "deliver_at 2030-01-01 00:00:00 has no time zone: add one, such as Z or +01:00",
        ),
        (
            "2030-01-01",
            "deliver_at 2030-01-01 has no time zone: add one, such as Z or +01:00",
        ),
    ],
)
def test_what_is_no_moment(value: object, why: str) -> None:
    with pytest.raises(PublishError) as caught:
        moment_text(value)
    assert str(caught.value) == why


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        (0, "0 h 0.000000 s"),
        (3599.5, "0 h 3599.500000 s"),
        (3600, "1 h 0.000000 s"),
        (7201.25, "2 h 1.250000 s"),
        (timedelta(hours=1, microseconds=1), "1 h 0.000001 s"),
        (250_000_000_000, "69444444 h 1600.000000 s"),
    ],
)
def test_a_delay(value: object, text: str | None) -> None:
    assert delay_text(value) == text


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("5", "deliver_in must be seconds or a timedelta, not str"),
        (True, "deliver_in must be seconds or a timedelta, not bool"),
        (-0.001, "deliver_in -0.001 must be from 0 to 250000000000 seconds"),
        (250_000_000_001, "deliver_in 250000000001 must be from 0 to 250000000000 seconds"),
        (math.nan, "deliver_in nan must be from 0 to 250000000000 seconds"),
        (timedelta(-1), "deliver_in -1 day, 0:00:00 must be from 0 to 250000000000 seconds"),
    ],
)
def test_what_is_no_delay(value: object, why: str) -> None:
    with pytest.raises(PublishError) as caught:
        delay_text(value)
    assert str(caught.value) == why
