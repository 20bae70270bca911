"""Crash points of a queue's workers: kill -9 at each of them, again and again, and what is left is whole."""

import pytest

from support.fleet import until
from support.long import long_but
from support.supervisors import Runs

ONCE = ("queue.taken", "queue.handled", "queue.committed", "queue.aside")


@pytest.mark.parametrize(
    "point", long_but([*ONCE, "queue.called"], "queue.handled", "queue.called")
)
def test_killed_at_a_point(runs: Runs, point: str) -> None:
    """Each worker at its second visit; others handle what it had, exactly once or at least once."""
    group = "once" if point in ONCE else "outside"
    fragile = {
        "GAPLESS_FAILPOINTS": f"{point}=kill@2",
        "GAPLESS_MAXCRASHES": "100",
        "GAPLESS_MAXPROCESSINGMS": "4000",  # so long is an event that is taken alone kept for who died
        "ON_FAILURE": "retry",
        "DELAYS_S": "0.01",
        "BATCH": "5",
    }
    first = runs.start(group, environ=fragile)
    numbers = runs.publish(*[{"do": "fail", "times": 1}] * 6, *[{}] * 34)
    until(lambda: "SIGKILL" in runs.logs(), f"a kill at {point}", within=runs.state)
    runs.stop(first)
    runs.start(group, environ={**fragile, "GAPLESS_FAILPOINTS": ""})
    runs.until_done(numbers, 60)
    runs.until_empty(group, 60)
    assert runs.dead(group) == {}
    if group == "once":
        assert runs.done() == dict.fromkeys(numbers, 1)
