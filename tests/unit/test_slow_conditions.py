"""Whose fault it is that conditions take too long: one by one, until it is one that was asked alone."""

from __future__ import annotations

from gapless.consume.read.conditions import is_too_slow, next_asked


def ask(costs: dict[int, float], only: list[int] | None) -> tuple[list[int], list[int]]:
    """Play the server: a second for all, in order; return who is slow, and the rest."""
    left_s = 1.0
    ids = sorted(costs) if only is None else only
    for n, each in enumerate(ids):
        left_s -= costs[each]
        if left_s < 0:
            return [each], ids[n + 1 :]
    return [], []


def blamed(costs: dict[int, float]) -> tuple[list[int], set[int]]:
    """Return who is stopped, and who was asked to the end."""
    left: list[list[int] | None] = [None]
    stopped: list[int] = []
    done: set[int] = set()
    for _ in range(10_000):
        if not left:
            return stopped, done
        only = left.pop()
        slow, rest = ask(costs, only)
        asked = set(costs if only is None else only)
        done |= asked - set(slow) - set(rest)
        if is_too_slow(only, slow):
            stopped += slow
        left += next_asked(only, slow, rest)
    raise AssertionError("it never ends")


def test_many_that_are_slow_together_are_nobodys_fault() -> None:
    costs = dict.fromkeys(range(100), 0.3)
    assert blamed(costs) == ([], set(costs))


def test_one_that_is_slow_alone_is_found() -> None:
    costs = dict.fromkeys(range(100), 0.01) | {7: 2.0, 50: 9.0}
    stopped, done = blamed(costs)
    assert sorted(stopped) == [7, 50]
    assert done == set(costs) - {7, 50}


def test_those_asked_together_are_asked_by_halves() -> None:
    assert next_asked(None, [1, 2, 3], [4]) == [[4], [1], [2, 3]]
    assert next_asked([1], [1], []) == []
