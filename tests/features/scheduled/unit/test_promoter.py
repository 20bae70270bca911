"""When a sequencer looks for what is due, with a clock that stands still; and times as text."""

import math
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from gapless import feature
from gapless.errors import PublishError, UsageError
from gapless.features.scheduled import later
from gapless.features.scheduled.later import (
    Promoted,
    Promoter,
    cancel,
)
from gapless.log.promote import promoter
from gapless.log.record import delay_text, moment_text

NOBODY: Any = None  # what is asked through a connection, and answered below
START = later._START


class World:
    """A clock, and what promote() of the database answers, in turn."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now_s = 1000.0
        self.takes_s = 0.0
        self.answers: list[Promoted] = []
        self.asked: list[tuple[str, int]] = []
        patch.setattr(later, "monotonic", lambda: self.now_s)
        patch.setattr(later, "_promote", self._promote)

    def _promote(self, _conn: object, last: Promoted, max_events: int = 1000) -> Promoted:
        self.asked.append((last.low_at, max_events))
        self.now_s += self.takes_s
        return self.answers.pop(0)

    def looks(self, promoter: Promoter, *answers: Promoted) -> list[tuple[str, int]]:
        """Promote once, and return what was asked: it got these answers."""
        self.answers, self.asked = list(answers), []
        promoter.promote(NOBODY)
        assert not self.answers
        return self.asked


def answer(
    promoted: int | None, wait_s: float | None, low_at: str = "low", *, held: int = 0
) -> Promoted:
    return Promoted(promoted, wait_s, low_at, 0, wait_s, held)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def looked(world: World, promoted: int | None, wait_s: float | None, low: str) -> Promoter:
    promoter = Promoter()
    world.answers.append(answer(promoted, wait_s, low))
    assert promoter.promote(NOBODY) == (promoted or 0)
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


AGAIN = START.low_at  # it did not get on


@pytest.mark.parametrize(
    ("promoted", "wait_s", "low", "times_s"),
    [
        (0, None, "low", (0.01, math.inf, math.inf)),
        (0, 5.0, "low", (0.01, 5.0, 5.0)),
        (0, 0.006, "low", (0.006, 0.006, 0.006)),
        (0, 0.002, "low", (0.002, 0.002, 0.004)),
        (0, 0.0, AGAIN, (0.01, 0.02, 0.02)),  # a schedule is in somebody's hand
        (None, 0.0, AGAIN, (0.01, 0.02, 0.02)),  # another session is at it
        (0, -3.0, "low", (0.0, 0.0, 0.004)),  # it stepped over something
        (7, 0.0, "low", (0.0, 0.0, 0.004)),
        (7, -3.0, AGAIN, (0.0, 0.0, 0.004)),
        (7, None, "low", (0.01, math.inf, math.inf)),
        (1, 0.5, "low", (0.01, 0.5, 0.5)),
    ],
)
def test_the_next_look(
    world: World, promoted: int | None, wait_s: float | None, low: str, times_s: tuple[float, ...]
) -> None:
    """times_s: when it is due, and how long a sequencer may sleep, or rest."""
    due_s, asleep_s, rest_s = times_s
    promoter = looked(world, promoted, wait_s, low)
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
    promoter = looked(world, 0, 5.0, "low")
    assert promoter.wait_s(60.0) == 5.0


def test_all_is_looked_at_for_a_twentieth_of_the_time(world: World) -> None:
    world.takes_s = 2.0
    promoter = looked(world, 0, None, "a")
    world.now_s += 37.5  # of the 40 s; the next look takes 2
    assert world.looks(promoter, answer(0, None, "b")) == [("a", 1000)]
    world.now_s += 0.5
    assert world.looks(promoter, answer(0, None, "c")) == [(AGAIN, 1000)], "at 40 s exactly"
    assert world.looks(promoter, answer(0, None, "d")) == [("c", 1000)], "from where it ended"


def test_what_is_held_is_looked_at_in_rounds_beside_the_others(world: World) -> None:
    """A part in each turn; a round rests four times as long as it took, and ends when nothing is held."""
    world.takes_s = 0.5
    promoter = looked(world, 0, -9.0, "a")
    world.looks(promoter, answer(0, 9.0, "b", held=3))
    world.now_s += 100.0
    steps = [answer(0, None, "f"), answer(0, -200.0, "r", held=250)]
    assert world.looks(promoter, *steps) == [("b", 1000), (AGAIN, 250)]
    assert promoter.wait_s(60.0) == 0.0, "the round continues"
    steps = [answer(0, None, "f"), answer(7, -200.0, "s", held=1)]
    assert world.looks(promoter, *steps) == [("f", 1000), ("r", 250)]
    steps = [answer(0, None, "f"), answer(0, -0.1, "t")]
    assert world.looks(promoter, *steps) == [("f", 1000), ("s", 1000)], "what is let go goes fast"
    assert promoter.wait_s(60.0) == 6.0, "what is due since it began is not the round's"
    assert world.looks(promoter, answer(0, None, "g")) == [("f", 1000)]
    world.now_s += 5.5
    steps = [answer(0, None, "h"), answer(0, None, "u")]
    assert world.looks(promoter, *steps) == [("g", 1000), (AGAIN, 250)]
    assert promoter.wait_s(60.0) == 60.0, "nothing was held"
    world.now_s += 5.0
    assert world.looks(promoter, answer(0, None, "i")) == [(AGAIN, 1000)]


def test_all_that_is_due_is_promoted(world: World) -> None:
    """Past what is held; it ends where it does not get on."""
    world.answers = [
        answer(1000, 0.0, "a"), answer(0, 0.0, "b", held=5), answer(1, 0.0, "c"), answer(0, 0.0, "c"),
    ]  # fmt: skip
    assert Promoter().promote_all(NOBODY) == 1001
    assert [low for low, _ in world.asked] == [AGAIN, "a", "b", "c"]


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


def test_without_the_feature_nothing_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(promoter(), Promoter)
    monkeypatch.setattr(feature, "listed", tuple)
    made = promoter()
    said = (made.holds, made.is_due(), made.wait_s(3), made.rest_s(3))
    assert (*said, made.promote(NOBODY), made.promote_all(NOBODY)) == (False, False, 3, 3, 0, 0)
