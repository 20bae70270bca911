"""Whose fault it is that conditions take too long: one by one, until it is one that was asked alone."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

from gapless.consume.read import conditions as module
from gapless.consume.read.conditions import ask_conditions, is_too_slow, next_asked
from gapless.errors import ConditionError
from gapless.keys import Partition


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


def test_who_is_stopped_for_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's answer names subscription 7, asked with 5 and then alone; the others were asked."""
    asked: list[object] = []

    def run(_conn: object, name: str, params: dict[str, Any]) -> list[tuple[list[Any], ...]]:
        assert name == "ask_conditions"
        asked.append(params["only"])
        is_slow = params["only"] in (None, [7])
        return [([], [], [], [], [7] if is_slow else [], [])]

    monkeypatch.setattr(module, "run", run)
    monkeypatch.setattr(module, "limited", lambda *_: nullcontext())
    partition = Partition(group_id="g", topic="t", topic_id=1, partition_id=0)
    spans: Any = type("Three", (), {"ids": [11, 12, 13], "first_offset": 1})
    assignment: Any = type("Mine", (), {"partition": partition})
    conn: Any = None
    with pytest.raises(ConditionError) as raised:
        ask_conditions(conn, assignment, spans)
    assert raised.value.reasons == {7: "it takes longer than 5 s for 3 events"}
    assert asked == [None, [7]]
