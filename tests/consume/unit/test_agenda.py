"""What a driver does next, told as histories: at which time, what it asked, and what it was told."""

import pytest

from gapless.consume.agenda import (
    ASIDES_EVERY_S,
    DOZE_S,
    EARLY,
    LOOK_BUSY_S,
    LOOK_S,
    REST_S_MAX,
    SEVERAL_EVENTS,
    Agenda,
    Pace,
)

NOW = 1000.0


def log_turn(agenda: Agenda, now_s: float, *, idle: bool = False, waits: bool = False) -> None:
    assert agenda.next(now_s) != "aside"
    agenda.log_taken(now_s, idle=idle, waits=waits, is_end=False)


def aside_turn(agenda: Agenda, now_s: float, *, yields: bool = False) -> int:
    assert agenda.next(now_s) == "aside"
    first_offset = agenda.take_aside()
    agenda.aside_taken(now_s, yields=yields)
    return first_offset


def test_a_new_one_looks_at_once() -> None:
    agenda = Agenda()
    assert agenda.is_new
    assert agenda.next(NOW) == "look"
    agenda.looked(NOW, [], None)
    assert not agenda.is_new


@pytest.mark.parametrize(
    ("wait_s", "idle", "waits", "next_look_s"),
    [
        (None, True, False, LOOK_S),  # nothing waits, nothing happens
        (2.0, True, False, 2.0),  # then it is due
        (60.0, True, False, LOOK_S),
        (None, False, False, LOOK_BUSY_S),  # a busy log may set units aside by other means
        (None, False, True, 0.0),  # one was set aside just now: when is it due?
    ],
)
def test_when_it_looks_again(
    wait_s: float | None, *, idle: bool, waits: bool, next_look_s: float
) -> None:
    agenda = Agenda()
    agenda.looked(NOW, [], wait_s)
    log_turn(agenda, NOW, idle=idle, waits=waits)
    assert not next_look_s or agenda.next(NOW + next_look_s - 0.001) != "look"
    assert agenda.next(NOW + next_look_s) == "look"


def test_while_something_is_due_nobody_looks() -> None:
    agenda = Agenda()
    agenda.looked(NOW, [7], None)
    assert agenda.next(NOW + 2 * LOOK_S) != "look"


def test_what_is_due_and_a_busy_log_take_turns() -> None:
    agenda = Agenda()
    agenda.looked(NOW, [7, 9, 11], None)
    assert aside_turn(agenda, NOW) == 7
    log_turn(agenda, NOW)
    assert aside_turn(agenda, NOW) == 9
    log_turn(agenda, NOW)
    assert aside_turn(agenda, NOW) == 11
    assert not agenda.due
    assert agenda.next(NOW) == "look", "there may be more than one look finds"


def test_all_that_is_due_comes_before_another_look_at_an_idle_log() -> None:
    agenda = Agenda()
    agenda.looked(NOW, [7, 9, 11], None)
    assert aside_turn(agenda, NOW) == 7
    log_turn(agenda, NOW, idle=True)
    assert [aside_turn(agenda, NOW) for _ in range(2)] == [9, 11]


def test_a_log_that_raises_keeps_nothing_back() -> None:
    """A hole, or a unit that blocks: what was set aside goes on all the same."""
    agenda = Agenda()
    agenda.looked(NOW, [7, 9], None)
    aside_turn(agenda, NOW)
    assert agenda.next(NOW) != "aside", "the log has its turn, and raises"
    assert agenda.next(NOW) == "aside"


def test_calls_that_go_on_come_first_for_a_while() -> None:
    agenda = Agenda()
    agenda.looked(NOW, [7, 9], None)
    aside_turn(agenda, NOW, yields=True)
    log_turn(agenda, NOW)
    log_turn(agenda, NOW + ASIDES_EVERY_S - 0.001)
    assert aside_turn(agenda, NOW + ASIDES_EVERY_S) == 9


def test_it_sleeps_no_longer_than_until_something_is_due() -> None:
    agenda = Agenda()
    agenda.looked(NOW, [], 0.5)
    assert agenda.wait_s(NOW, 1.0) == 0.5
    assert agenda.wait_s(NOW + 2.0, 1.0) == 0.0
    agenda.looked(NOW, [], None)
    assert agenda.wait_s(NOW, 1.0) == 1.0


@pytest.mark.parametrize(
    ("is_at_end", "idle", "doze_s"),
    [(False, False, 0.0), (True, False, DOZE_S), (False, True, 1.0)],
)
def test_how_long_it_sleeps(*, is_at_end: bool, idle: bool, doze_s: float) -> None:
    pace = Pace()
    pace.is_at_end = is_at_end
    assert pace.doze_s(1.0, idle=idle) == doze_s


def test_whoever_is_called_early_was_woken() -> None:
    pace = Pace()
    assert not pace.is_woken(NOW)
    pace.sleep(NOW, 1.0)
    assert pace.is_woken(NOW + EARLY - 0.001)
    assert not pace.is_woken(NOW + EARLY)
    pace.doze_s(1.0, idle=False)
    assert not pace.is_woken(NOW), "it did not sleep"


def test_a_stream_is_let_gather() -> None:
    pace = Pace()
    pace.is_at_end = True
    assert [pace.rest_s(SEVERAL_EVENTS, 0.001) for _ in range(2)] == [0.0, 0.003]
    assert pace.rest_s(SEVERAL_EVENTS, 1.0) == REST_S_MAX
    assert pace.rest_s(SEVERAL_EVENTS - 1, 1.0) == 0.0
    pace.is_at_end = False
    assert pace.rest_s(100, 1.0) == 0.0


def test_a_clock_that_has_just_begun_keeps_nothing_back() -> None:
    agenda = Agenda()
    agenda.looked(0.0, [7], None)
    assert agenda.next(0.0) == "aside"
    assert not agenda.pace.is_woken(0.0)
    assert agenda.pace.doze_s(1.0, idle=True) == 1.0, "no turn has come to the end of the log"
    assert not agenda.pace.is_woken(0.5)


def test_what_is_called_beside_the_log_is_taken_at_once_and_once() -> None:
    agenda = Agenda()
    agenda.looked(NOW, [7, 9], None)
    assert agenda.take_due(NOW) == [7, 9]
    assert not agenda.due
    assert agenda.next(NOW + LOOK_BUSY_S - 0.001) != "look"
    assert agenda.next(NOW + LOOK_BUSY_S) == "look", "there may be more than one look finds"
    agenda.looked(NOW, [], None)
    assert agenda.take_due(NOW) == []
    assert agenda.next(NOW + LOOK_S - 0.001) != "look", "there was nothing"


def test_the_pace_is_told_whether_the_log_has_come_to_its_end() -> None:
    agenda = Agenda()
    agenda.log_taken(NOW, idle=False, waits=False, is_end=True)
    assert agenda.pace.doze_s(1.0, idle=False) == DOZE_S
    agenda.log_taken(NOW, idle=False, waits=False, is_end=False)
    assert agenda.pace.doze_s(1.0, idle=False) == 0.0


def test_of_a_long_sleep_early_is_sooner_than_nearly_all_of_it() -> None:
    pace = Pace()
    pace.sleep(NOW, 2.0)
    assert pace.is_woken(NOW + 2 * EARLY - 0.001)
    assert not pace.is_woken(NOW + 2 * EARLY)
