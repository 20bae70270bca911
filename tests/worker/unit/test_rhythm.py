"""When a supervisor beats, looks and comes back, told as histories."""

import pytest

from gapless.worker.beat_timer import BeatTimer

NOW = 1000.0


@pytest.fixture
def rhythm() -> BeatTimer:
    return BeatTimer(beat_every_s=2.0, look_every_s=0.5, ttl_s=10.0)


def test_beats_and_looks_have_times_of_their_own(rhythm: BeatTimer) -> None:
    assert rhythm.wants_beat(NOW)
    assert rhythm.wants_look(NOW)
    assert not rhythm.wants_beat(NOW + 1.9)
    assert rhythm.due_s(is_cut=False) == NOW + 0.5
    assert not rhythm.wants_look(NOW + 0.4)
    assert rhythm.wants_look(NOW + 0.5)
    assert rhythm.wants_beat(NOW + 2.0)


def test_in_a_hurry_it_beats_at_once(rhythm: BeatTimer) -> None:
    assert rhythm.wants_beat(NOW)
    rhythm.hurry()
    assert rhythm.wants_beat(NOW + 0.1)


def test_from_the_start_all_is_due_whatever_the_clock_says(rhythm: BeatTimer) -> None:
    """A clock that begins with the machine may say less than a second."""
    assert rhythm.due_s(is_cut=False) == rhythm.due_s(is_cut=True) == 0.0
    assert rhythm.may_return(0.0)
    assert rhythm.wants_beat(0.0)
    assert rhythm.wants_look(0.0)
    assert not rhythm.is_overdue(10.0)
    rhythm.hurry()
    assert rhythm.due_s(is_cut=False) == 0.0
    assert rhythm.is_overdue(10.1), "one who never beat is told of as well"


def test_a_silence_is_told_of_once(rhythm: BeatTimer) -> None:
    rhythm.beaten(NOW)
    assert not rhythm.is_overdue(NOW + 10.0)
    assert rhythm.is_overdue(NOW + 10.1)
    assert not rhythm.is_overdue(NOW + 60.0)
    rhythm.beaten(NOW + 61.0)
    assert rhythm.is_overdue(NOW + 72.0), "the next one is another"


def test_who_is_cut_waits_before_the_next_attempt(rhythm: BeatTimer) -> None:
    rhythm.cut(NOW, 0.7)
    assert rhythm.due_s(is_cut=True) == NOW + 0.7
    assert not rhythm.may_return(NOW + 0.6)
    assert rhythm.may_return(NOW + 0.7)
