"""The words of long work: rate and time left by the clock, and the end of work that was cut off."""

import pytest

from gapless.cli import progress
from gapless.cli.bar import fitted
from gapless.cli.progress import Steps


def test_interrupted_says_how_far_it_came(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt), Steps("import", 2000, "unit", "; go on") as steps:
        steps.show(1000)
        raise KeyboardInterrupt
    assert capsys.readouterr().err == "gapless: import interrupted: 1,000 of 2,000 done; go on\n"


def test_an_error_says_itself(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="no"), Steps("import", 2, "unit", "; go on"):
        raise ValueError("no")
    assert capsys.readouterr().err == ""


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now_s = [100.0]
    monkeypatch.setattr(progress, "monotonic", lambda: now_s[0])
    return now_s


def _looks(steps: Steps, clock: list[float], done: int, *, for_s: int) -> None:
    for _ in range(for_s):
        clock[0] += 1
        steps.show(done)


def test_a_step_that_lasts_longer_than_the_window_keeps_rate_and_time_left(
    clock: list[float],
) -> None:
    with Steps("pipeline", 300, "event") as steps:
        _looks(steps, clock, 0, for_s=49)
        _looks(steps, clock, 100, for_s=51)
        assert steps.words() == ("100 of 300 events", "1.0/s", "3:20 left")


def test_the_next_of_several_works_begins_anew(clock: list[float]) -> None:
    with Steps("pipelines", 300, "event") as steps:
        _looks(steps, clock, 200, for_s=2)
        _looks(steps, clock, 0, for_s=1)
        assert steps.words() == ("0 of 300 events", "", "")
        _looks(steps, clock, 100, for_s=1)
        assert steps.words() == ("100 of 300 events", "100/s", "0:02 left")


def test_hours_are_hours(clock: list[float]) -> None:
    with Steps("replay", 7201, "event") as steps:
        _looks(steps, clock, 1, for_s=2)
        assert steps.words() == ("1 of 7,201 events", "0.5/s", "4:00:00 left")
        _looks(steps, clock, 1, for_s=30)
        assert steps.words() == ("1 of 7,201 events", "", "over a day left")


def test_events_of_an_earlier_call_are_no_rate(clock: list[float]) -> None:
    with Steps("replay", 1000, "event", before=600) as steps:
        assert steps.words() == ("600 of 1,000 events", "", "")
        for done in range(601, 701):  # within a moment: not each is kept
            steps.show(done)
        assert len(steps._course) == 1
        _looks(steps, clock, 700, for_s=1)
        assert steps.words() == ("700 of 1,000 events", "100/s", "0:03 left")


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (71, "copy 10 MB of 16 MB, 122,501 events 32,000/s 0:05 left"),
        (50, "10 MB of 16 MB, 122,501 events 32,000/s 0:05 left"),
        (40, "10 MB of 16 MB, 122,501 events 0:05 left"),
        (30, "10 MB of 16 MB, 122… 0:05 left"),
        (5, "0:05 "),
    ],
)
def test_a_narrow_screen_keeps_the_count_and_the_time_left(width: int, shown: str) -> None:
    words = ("10 MB of 16 MB, 122,501 events", "32,000/s", "0:05 left")
    assert fitted("copy", *words, width) == shown
