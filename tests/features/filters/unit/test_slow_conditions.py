"""Asking conditions: whose fault it is that they take too long, and what comes of their answers."""

import pytest

from gapless.features.filters.conditions import (
    is_too_slow,
    next_asked,
)


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


@pytest.mark.parametrize(
    ("only", "slow", "is_its_fault"),
    [
        (None, [], False), (None, [1], False), (None, [1, 2], False), ([1], [], False),
        ([1], [1], True), ([1, 2], [1], False), ([1, 2], [1, 2], False), ([2], [1], False),
    ],
)  # fmt: skip
def test_who_was_asked_alone_is_at_fault(
    only: list[int] | None, slow: list[int], is_its_fault: bool
) -> None:
    assert is_too_slow(only, slow) is is_its_fault


@pytest.mark.parametrize(
    ("only", "slow", "rest", "expected"),
    [
        (None, [], [], []), (None, [], [4], [[4]]), (None, [1], [], [[1]]), ([1], [1], [2], [[2]]),
        ([1, 2], [1, 2], [], [[1], [2]]), (None, [1, 2, 3, 4], [5], [[5], [1, 2], [3, 4]]),
        (None, [1, 2, 3, 4, 5, 6, 7], [], [[1, 2, 3], [4, 5, 6, 7]]),
    ],
)  # fmt: skip
def test_what_is_asked_next(
    only: list[int] | None, slow: list[int], rest: list[int], expected: list[list[int]]
) -> None:
    assert next_asked(only, slow, rest) == expected
