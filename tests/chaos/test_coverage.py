"""A run that did not meet what it is about is inconclusive, not green."""

from collections import Counter
from pathlib import Path

from chaos.coverage import UNLUCKY, hits, missing
from chaos.history import Fault, Handling
from chaos.run import Verdict

PID = 7


def handling(phase: str, at_ns: int) -> Handling:
    return Handling(
        group="g", topic="t", partition=0, first_offset=1, phase=phase, pid=PID, at_ns=at_ns
    )


def fault(at_ns: int, target: str = str(PID), kind: str = "kill_worker") -> Fault:
    return Fault(kind=kind, target=target, at_ns=at_ns)


def test_a_fault_hits_a_worker_inside_or_between_its_handlers() -> None:
    history = [handling("begin", 10), handling("end", 20), handling("begin", 30)]
    assert hits([*history, fault(15)]) == (1, 0)
    assert hits([*history, fault(25)]) == (0, 1)
    assert hits([*history, fault(35)]) == (1, 0)
    assert hits([*history, fault(5)]) == (0, 1), "it waits for its first unit"
    assert hits([*history, fault(15, f"1 {PID} 2", "kill_machine")]) == (1, 0)


def test_what_does_not_aim_at_a_worker_hits_none() -> None:
    history = [handling("begin", 10)]
    assert hits([*history, fault(15, "8")]) == (0, 0), "another process"
    assert hits([*history, fault(15, "3", "freeze")]) == (0, 0)
    assert hits([*history, Fault(kind="pause_worker", target="7", phase="end", at_ns=15)]) == (0, 0)


def test_whatever_never_happened_makes_a_run_inconclusive() -> None:
    assert missing({"a": 1, UNLUCKY: 0}, ["cut"], Counter(cut=2)) == []
    assert missing({"a": 0}, ["cut"], Counter()) == ["a", "the fault cut"]


def test_the_exit_code_tells_a_violation_from_an_inconclusive_run() -> None:
    verdict = Verdict(1, Path())
    assert verdict.exit_code == 0
    verdict.never = ["COMMITs without an answer"]
    assert verdict.exit_code == 3
    verdict.problems = ["a process was left"]
    assert verdict.exit_code == 1
