"""Asking conditions: whose fault it is that they take too long, and what comes of their answers."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from gapless.consume.unit import UnitRanges
from gapless.features.filters import conditions as module
from gapless.features.filters.conditions import (
    ConditionError,
    ask_conditions,
    is_too_slow,
    limited,
    next_asked,
    stop_subscriptions,
    with_conditions,
)
from gapless.features.filters.filtered import Kept
from gapless.keys import Partition
from gapless.log.event import MatchedSubscription


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


PARTITION = Partition(group_id="g", topic="t", topic_id=1, partition_id=0)
ASSIGNMENT: Any = SimpleNamespace(partition=PARTITION, params={"assigned": True})
CONN: Any = "the session"


class Server:
    """Answers as a test wants; what it is asked is noted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: Any) -> None:
        self.asked: list[Any] = []
        self._answers = [*answers]
        monkeypatch.setattr(module, "run", self.run)
        monkeypatch.setattr(module, "run_before", self.run_before)

    def run_before(self, conn: object, name: str, params: dict[str, Any] | None = None) -> None:
        self.asked.append((name, params))

    def run(self, conn: object, name: str, params: dict[str, Any]) -> Any:
        assert conn is CONN
        self.asked.append((name, params))
        return self._answers.pop(0)


def test_a_statement_has_its_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(monkeypatch)
    with limited(CONN, 5.25):
        server.asked.append("within")
    assert server.asked == [
        ("limit_conditions", {"limit": "5250ms"}), "within", ("put_timeout_back", None),
    ]  # fmt: skip


@pytest.mark.parametrize(("answer", "stopped"), [(3, 3), (0, 0), (None, None)])
def test_those_that_failed_are_stopped_each_with_its_reason(
    monkeypatch: pytest.MonkeyPatch, answer: int | None, stopped: int | None
) -> None:
    server = Server(monkeypatch, [(answer,)])
    assert stop_subscriptions(CONN, ASSIGNMENT, {7: "slow", 5: "raises"}) == stopped
    params = {"assigned": True, "ids": [7, 5], "reasons": ["slow", "raises"]}
    assert server.asked == [("stop_subscriptions", params)]


@pytest.mark.parametrize(
    "answer", [([1, 2], ["5"], [], [], [], []), ([1], ["5"], [7, 8], ["raises"], [], [])]
)
def test_an_answer_with_a_part_too_few_is_a_defect(
    monkeypatch: pytest.MonkeyPatch, answer: Any
) -> None:
    Server(monkeypatch, [answer])
    with pytest.raises(ValueError, match="zip"):
        ask_conditions(CONN, ASSIGNMENT, UnitRanges(1, [11, 12], [1, 2]))


def test_what_was_found_in_parts_is_told_together(monkeypatch: pytest.MonkeyPatch) -> None:
    Server(
        monkeypatch,
        [([3, 1], ["9", "5,10"], [], [], [6, 7], [8])],
        [([1], ["7"], [], [], [], [])],
        [([3, 2], ["6", "6"], [], [], [], [])],
        [([3], ["8"], [], [], [], [])],
    )
    monkeypatch.setattr(module, "find_matches", lambda conn, *found: (conn, found))
    found: Any = ask_conditions(CONN, ASSIGNMENT, UnitRanges(1, [11, 12, 13], [1, 2, 3]))
    assert found == (CONN, ([1, 2, 3], ["5,7,10", "6", "6,8,9"]))


def _matched(*numbers: int) -> tuple[MatchedSubscription, ...]:
    return tuple(MatchedSubscription(n, f"s{n}", {}) for n in numbers)


@pytest.mark.parametrize("errors", [{}, {5: "no", 6: "nor this"}])
def test_what_conditions_match_is_kept_beside_what_was(
    monkeypatch: pytest.MonkeyPatch, errors: dict[int, str]
) -> None:
    server = Server(monkeypatch, [])
    asked = {4: _matched(2), 7: _matched(1, 8)}
    whole = UnitRanges(4, [11, 12, 13, 14], [1, 2, 3, 4])

    def ask(*given: object) -> Any:
        assert given == (CONN, ASSIGNMENT, whole)
        return asked

    monkeypatch.setattr(module, "ask_conditions", ask)
    kept = Kept(ids=[12, 14], offsets=[5, 7], errors=errors, matches={7: _matched(3), 5: ()})
    found = with_conditions(CONN, ASSIGNMENT, whole, kept)
    assert found == Kept(
        ids=[11, 12, 14], offsets=[4, 5, 7], errors=errors,
        matches={4: _matched(2), 5: (), 7: _matched(1, 3, 8)},
    )  # fmt: skip
    ((name, params),) = server.asked
    assert name == "tally_filter"
    assert params["events"] == 4
    assert params["kept_offsets"] == [4, 5, 7]
    assert params["filter_errors"] == ([None, "no", None] if errors else None)
    assert params["group_id"] == "g"


def test_without_other_matches_those_of_conditions_are_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Server(monkeypatch, [])
    monkeypatch.setattr(module, "ask_conditions", lambda *_: {1: _matched(2)})
    found = with_conditions(CONN, ASSIGNMENT, UnitRanges(1, [11], [1]), Kept(ids=[], offsets=[]))
    assert (found.ids, found.offsets, found.matches) == ([11], [1], {1: _matched(2)})
