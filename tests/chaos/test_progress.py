"""A run tells what stands still from what is slow."""

from pathlib import Path

import pytest

from chaos.progress import Ended, Meter, Watch, probe
from chaos.run import STALL_S_MAX, UNFINISHED, Verdict, stood_still
from chaos.stall import Stall
from support.patience import patience

STILL_S = 60.0
BOUND_S = 600.0
# The marks of a wait, one a second; the share of a core that was to be had; how and when it ends.
# The last mark is that of a wait that is done.
HISTORIES: dict[str, tuple[list[int], float, Ended, float]] = {
    "quiet and quick": (list(range(20)), 1.0, "done", 19),
    "nothing at all, although there is CPU": ([5] * 1000, 1.0, "stuck", STILL_S),
    "nothing any more": ([*range(100), *[100] * 1000], 1.0, "stuck", 100 + STILL_S),
    "a step now and then": ([n // 50 for n in range(400)], 1.0, "done", 399),
    "a step now and then, for ever": ([n // 50 for n in range(1000)], 1.0, "slow", BOUND_S),
    "to and fro, and no nearer": ([n % 7 for n in range(1000)], 1.0, "stuck", 6 + STILL_S),
    "busy, and still nearer": ([n // 200 for n in range(500)], 0.2, "done", 499),
    "nothing in a while, and no CPU": ([3] * 250 + [4], 0.2, "done", 250),
    "nothing at all, and hardly any CPU": ([3] * 1000, 0.05, "slow", BOUND_S),
    "nothing at all, and half of a core": ([3] * 1000, 0.5, "stuck", 2 * STILL_S),
}


@pytest.mark.parametrize("case", HISTORIES)
def test_a_standstill_is_told_from_a_busy_machine(case: str) -> None:
    marks, share, wanted, when_s = HISTORIES[case]
    meter, watch = Meter(began_s=1000.0), Watch(STILL_S, BOUND_S)
    for second, mark in enumerate(marks):
        at_s = 1000.0 + second
        if second:
            meter.note(at_s, share)
        had_s = meter.had_s(1000.0, at_s)
        done = second == len(marks) - 1
        ended = watch.look(at_s, had_s, done=done, mark=[mark, 0])
        if ended is not None:
            assert (ended, second) == (wanted, pytest.approx(when_s, abs=1))
            return
    raise AssertionError("it goes on")


def test_cpu_is_counted_between_any_two_times() -> None:
    meter = Meter(began_s=0.0)
    assert meter.had_s(0, 5) == 0, "nothing is measured yet"
    meter.note(10, 1.0)
    meter.note(20, 0.5)
    assert meter.had_s(0, 20) == 15
    assert meter.had_s(5, 12) == 6
    assert meter.had_s(-5, 10) == 10, "before it began there was none"
    assert meter.had_s(20, 24) == 2, "as it was last"


@pytest.mark.long
def test_the_probe_has_what_there_is() -> None:
    assert 0 < probe() <= 1
    with Meter() as meter:
        began = meter._times[0]
        for _ in range(int(patience(100))):
            if len(meter._times) > 1:
                break
            meter._ended.wait(0.1)
        assert 0 < meter.had_s(began, meter._times[-1]) <= meter._times[-1] - began


def test_a_partition_may_stand_still_while_nobody_has_any_cpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("chaos.run.time.clock_gettime", lambda _: 0.0)
    monkeypatch.setattr("chaos.run.time.monotonic", lambda: 0.0)
    stall = Stall("g/t/0", since=100.0, seconds=2 * STALL_S_MAX, story=[])
    for share, still in ((1.0, True), (0.6, True), (0.2, False)):
        meter = Meter(began_s=0.0)
        meter.note(1000.0, share)
        assert stood_still(stall, meter) is still, share


def test_slow_has_an_exit_code_of_its_own_and_hides_no_violation() -> None:
    verdict = Verdict(1, Path(), slow=["x"], never=["y"])
    assert verdict.exit_code == 4
    verdict.problems = ["a process was left"]
    assert verdict.exit_code == 1


def test_what_is_not_at_its_end_hides_nothing_that_is_lost_or_doubled() -> None:
    from chaos.corruptions import IN_RECORDS, IN_TABLES

    names = {*IN_TABLES, *(name for name, _ in IN_RECORDS.values())}
    assert UNFINISHED & names == {"not delivered", "not sequenced", "unserved", "unbalanced"}
