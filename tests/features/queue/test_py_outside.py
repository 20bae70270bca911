"""At least once in a queue group: reservations that are renewed, lapse, and end with their worker."""

import os
import signal
from contextlib import suppress

import pytest

from support.fleet import until
from support.supervisors import Runs


def calls(runs: Runs) -> dict[int, list[int]]:
    """The attempts that were made at each event, in order."""
    found: dict[int, list[int]] = {}
    for n, attempt in runs.conn.execute("select n, attempt from done order by at").fetchall():
        found.setdefault(n, []).append(attempt)
    return found


@pytest.mark.long
def test_all_are_called_and_only_what_was_in_hand_again(runs: Runs) -> None:
    runs.start("outside", workers=2)
    second = runs.start("outside", workers=2)
    numbers: list[int] = []
    killed = 0
    for _ in range(8):
        numbers += runs.publish(*[{"sleep": 0.02}] * 30)
        victims = runs.workers(second)
        if victims:
            with suppress(ProcessLookupError):
                os.kill(victims[0], signal.SIGKILL)
                killed += 1
        runs.until_most_done(numbers)
    runs.until_done(numbers, 60)
    runs.until_empty("outside", 60)
    again = {n: attempts for n, attempts in calls(runs).items() if len(attempts) > 1}
    assert len(again) <= killed * 4
    assert all(attempts == sorted(set(attempts)) for attempts in again.values())
    assert runs.dead("outside") == {}


class TestPolicies:
    @pytest.mark.long
    def test_one_that_kills_is_found_and_its_neighbours_are_not_blamed(self, runs: Runs) -> None:
        environ = {"GAPLESS_MAXCRASHES": "2", "CONCURRENCY": "8"}
        run = runs.start("outside", workers=1, environ=environ)
        (poison,) = runs.publish({"do": "kill", "sleep": 0.1})
        numbers = runs.publish(*[{"sleep": 0.3}] * 12)
        runs.until_done(numbers, 60)
        until(lambda: set(runs.dead("outside")) == {poison}, "it is dead", within=runs.state)
        runs.until_empty("outside", 40)
        assert "its worker died" in runs.dead("outside")[poison]
        assert len(calls(runs)[poison]) == 3
        runs.until_workers(run, 1)


@pytest.mark.long
def test_a_call_that_hangs_is_ended(runs: Runs) -> None:
    environ = {"GAPLESS_MAXPROCESSINGMS": "800", "GAPLESS_MAXCRASHES": "1", "CONCURRENCY": "2"}
    runs.start("outside", environ=environ)
    (hangs,) = runs.publish({"do": "hang"})
    numbers = runs.publish(count=20)
    runs.until_done(numbers, 40)
    until(lambda: set(runs.dead("outside")) == {hangs}, "it is dead", within=runs.state)


@pytest.mark.long
def test_sigterm_waits_for_calls_and_takes_no_more(runs: Runs) -> None:
    run = runs.start("outside", workers=1, environ={"CONCURRENCY": "2"})
    numbers = runs.publish(*[{"sleep": 1.0}] * 6)
    until(lambda: len(runs.done()) == 2, "two are called", within=runs.state)
    assert runs.stop(run) == 0
    called = runs.done()
    assert len(called) <= 4
    assert runs.left("outside") == 6 - len(called)
    runs.start("outside", workers=2)
    runs.until_done(numbers)
    runs.until_empty("outside")
    assert runs.done() == dict.fromkeys(numbers, 1)
