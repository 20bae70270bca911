"""ask_conditions(): which SQL conditions hold for which events, which raise, which are slow, and who is not asked."""

from hashlib import md5
from typing import Any

import pytest

from features.filters.twins.asking import HOSTILE, LARGE, C, write
from support.subscribed import PLACES, number, numbers, stop, subscribe
from support.twins import Twins

ASK = "select * from gapless.ask_conditions('billing', %s, 1, %s, %s, %s)"
LOW = "$.n > $low"
RAISED = "invalid input syntax for type integer (SQLSTATE 22P02)"
# What is said of each, and which events it matches.
CONDITIONS: dict[str, tuple[dict[str, Any], list[int]]] = {
    "all": ({"sql": "e.payload is not null"}, [1, 2, 3, 5, 6, 7, 8]),
    "high": ({"sql": LARGE, "params": {"min": 6}}, [7, 8]),
    "higher": ({"sql": LARGE, "params": {"min": 7}}, [8]),
    "c1": ({"sql": LARGE, "match": C, "params": {"c": 1, "min": 1}}, [2, 7, 8]),
    "c2": ({"sql": LARGE, "match": C, "params": {"c": 2, "min": 1}}, [3]),
    "nest": ({"sql": LARGE, "match": C, "params": {"c": [[1], 2], "min": 1}}, [6]),
    "x1": ({"sql": LARGE, "match": {"x": "$.c"}, "params": {"x": 1, "min": 2}}, [7, 8]),
    "low": ({"sql": LARGE, "condition": LOW, "params": {"low": 2, "min": 5}}, [6, 7, 8]),
    "lower": ({"sql": LARGE, "condition": LOW, "params": {"low": 6, "min": 1}}, [7, 8]),
    "three": (
        {"sql": LARGE, "match": C, "condition": LOW, "params": {"c": 1, "low": 2, "min": 1}}, [7, 8],
    ),
    "flag": ({"sql": LARGE, "condition": "$.flag", "params": {"min": 1}}, [5]),
    "flags": (
        {"sql": LARGE, "match": C, "condition": "$.flag", "params": {"c": 1, "min": 1}}, [],
    ),
    "none": ({"match": C, "params": {"c": 1}}, []),
}  # fmt: skip


@pytest.fixture
def zoo(twins: Twins) -> Twins:
    for place in PLACES:
        for name, (said, _) in CONDITIONS.items():
            subscribe(twins, name, place, **said)
    return twins


def ask(
    twins: Twins, ids: list[int], first: int = 1, only: list[int] | None = None, query: str = ASK
) -> tuple[Any, ...]:
    """Who matches at which offset, who raised what, who was slow, and who was not asked: names for numbers."""
    names = numbers(twins)
    twins.conn.execute("set local statement_timeout = '20s'")  # a loop ends
    asked = [twins.topic_ids["orders"], ids, first, only]
    ((offsets, matched, failed, reasons, slow, rest),) = twins.conn.execute(query, asked).fetchall()
    return (
        {
            offset: [names[int(each)] for each in of.split(",")]
            for offset, of in zip(offsets, matched, strict=True)
        },
        {names[each]: why for each, why in zip(failed, reasons, strict=True)},
        sorted(names[each] for each in slow),
        sorted(names[each] for each in rest),
    )


def expected(names: list[str], offsets: range = range(1, 9)) -> dict[int, Any]:
    """By offset, as they were made."""
    found: dict[int, list[str]] = {}
    for n in offsets:
        if of := [name for name in names if n in CONDITIONS[name][1]]:
            found[n] = of
    return found


@pytest.mark.parametrize(("first", "last"), [(1, 8), (3, 7), (4, 4)])
def test_whose_conditions_hold(zoo: Twins, first: int, last: int) -> None:
    ids = write(zoo)[first - 1 : last]
    answer = ask(zoo, ids, first)
    assert answer == (expected(list(CONDITIONS), range(first, last + 1)), {}, [], [])
    assert list(answer[0]) == sorted(answer[0])


@pytest.mark.parametrize("names", [["high"], ["c1", "low", "none"], ["three", "nest", "all"], []])
def test_some_are_asked_alone(zoo: Twins, names: list[str]) -> None:
    only = [number(zoo, name) for name in names]
    ordered = [name for name in CONDITIONS if name in names]
    assert ask(zoo, write(zoo), only=only) == (expected(ordered), {}, [], [])


def test_who_is_stopped_here_is_not_asked(zoo: Twins) -> None:
    ids = write(zoo)
    stop(zoo, "n <> 1 or s.group_id <> 'billing' or t.name <> 'orders'")
    assert ask(zoo, ids) == (expected(list(CONDITIONS)), {}, [], [])
    stop(zoo, "s.name in ('all', 'c1', 'lower')")
    others = [name for name in CONDITIONS if name not in {"all", "c1", "lower"}]
    assert ask(zoo, ids) == (expected(others), {}, [], [])


def test_a_group_without_conditions_has_none_asked(twins: Twins) -> None:
    """has_conditions() says so of a group and a topic, whatever others have."""
    query = (
        "select c.group_id, t.name from gapless.consumer_group c join gapless.topic t using (topic_id)"
        " where gapless.has_conditions(c.group_id, topic_id)"
    )
    for place in PLACES:
        subscribe(twins, "none", place, match=C, params={"c": 1})
    assert twins.conn.execute(query).fetchall() == []
    assert ask(twins, write(twins)) == ({}, {}, [], [])
    subscribe(twins, "all", ("mail", "orders"), sql="true")
    subscribe(twins, "all", ("billing", "other"), sql="true")
    assert sorted(twins.conn.execute(query).fetchall()) == [
        ("billing", "other"),
        ("mail", "orders"),
    ]
    assert ask(twins, write(twins)) == ({}, {}, [], [])


@pytest.mark.parametrize(
    "bad", [[0], [6], [0, 6], [1, 4], [2, 3, 5], [0, 1, 2, 3, 4, 5, 6]], ids=str
)
def test_those_that_raise_are_found_among_many(twins: Twins, bad: list[int]) -> None:
    """The others of the form are asked as if they were not there."""
    for n in range(7):
        subscribe(twins, f"s{n}", sql=LARGE, params={"min": "x" if n in bad else 7})
    subscribe(twins, "later", sql="e.payload ->> 'n' = '8'")
    good = [f"s{n}" for n in range(7) if n not in bad]
    matched, failed, slow, rest = ask(twins, write(twins))
    assert matched == {8: [*good, "later"]}
    assert failed == {f"s{n}": RAISED for n in bad}
    assert (slow, rest) == ([], [])


def test_one_is_asked_only_about_what_else_it_matches(twins: Twins) -> None:
    """About other events it would raise, and nobody asks."""
    said: dict[str, dict[str, Any]] = {
        "by value": {"match": C, "params": {"c": 9, "min": "x"}},
        "by path": {"condition": LOW, "params": {"low": 8, "min": "x"}},
        "by both": {"match": C, "condition": LOW, "params": {"c": 1, "low": 8, "min": "x"}},
        "by the other": {"match": C, "condition": LOW, "params": {"c": 9, "low": 0, "min": "x"}},
        "raises": {"match": C, "params": {"c": 1, "min": "x"}},
        "holds": {"match": C, "params": {"c": 1, "min": 7}},
    }
    for name, of in said.items():
        subscribe(twins, name, sql=LARGE, **of)
    assert ask(twins, write(twins)) == ({8: ["holds"]}, {"raises": RAISED}, [], [])


# A time limit of 1 ms as far as anything can tell, but no clock that ends the statement.
LIMITED = (
    "create or replace function pg_temp.limited(int, bigint[], bigint, bigint[]) returns table (offsets bigint[],"
    " matched text[], failed bigint[], reasons text[], slow bigint[], rest bigint[]) language sql"
    " set statement_timeout = '{limit}' as"
    " $$ select * from gapless.ask_conditions('billing', $1, 1, $2, $3, $4) $$"
)
TEXTS = ("e.key = 'b'", "e.key = 'c'")


def hostile(twins: Twins, *texts: str, state: str = "57014", limit: str = "1ms") -> None:
    """Have these conditions end as a statement does whose time is over, or otherwise."""
    twins.conn.execute(LIMITED.format(limit=limit))
    for text in texts:
        digest = md5(text.encode(), usedforsecurity=False).hexdigest()
        twins.conn.execute(HOSTILE.format(digest=digest, state=state))


def limited(twins: Twins, ids: list[int], names: list[str] | None = None) -> tuple[Any, ...]:
    only = None if names is None else [number(twins, each) for each in names]
    return ask(twins, ids, only=only, query="select * from pg_temp.limited(%s, %s, %s, %s)")


@pytest.mark.parametrize("only", [False, True])
@pytest.mark.parametrize(
    ("names", "slow", "rest", "match"),
    [
        (["slow"], ["slow"], [], []),
        (["a", "slow"], ["a", "slow"], [], []),
        (["bad", "slow"], ["slow"], ["bad"], []),
        (["bad", "a", "b", "slow"], ["b", "slow"], ["a", "bad"], []),
        (["bad", "slow", "a", "b"], ["slow"], ["bad"], ["a", "b"]),
        (["bad", "a", "slow", "b", "c"], ["slow"], ["a", "bad"], ["b", "c"]),
    ],
    ids=str,
)
def test_who_is_slow_and_who_was_not_asked_yet(
    twins: Twins,
    names: list[str],
    slow: list[str],
    rest: list[str],
    match: list[str],
    only: bool,
) -> None:
    """The forms before were asked, those after were not."""
    before, text = TEXTS
    for place in PLACES:
        subscribe(twins, "first", place, sql=before)
    for name in names:
        subscribe(twins, name, sql=text)
    for name in ("d1", "d2"):
        subscribe(twins, name, sql="e.key is null")
    subscribe(twins, "plain", match=C, params={"c": 1})
    subscribe(twins, "d3", ("mail", "orders"), sql="e.key is null and true")
    subscribe(twins, "d4", ("billing", "other"), sql="e.key is not null")
    hostile(twins, *TEXTS)
    told = limited(twins, write(twins), ["first", *names, "d2"] if only else None)
    hits = {n: ["first", *match] for n in (1, 2, 3, 5, 6, 7, 8)}
    later = ["d2"] if only else ["d1", "d2"]
    assert told == (hits, {}, slow, sorted(rest + later))


def test_who_was_not_to_be_asked_is_not_slow(twins: Twins) -> None:
    """Of one form those are being asked whose values match."""
    for name, c in (("a", 9), ("slow", 1), ("b", 2), ("c", 9)):
        subscribe(twins, name, sql=TEXTS[0], match=C, params={"c": c})
    hostile(twins, TEXTS[0])
    assert limited(twins, write(twins)) == ({}, {}, ["b", "slow"], [])


@pytest.mark.parametrize(
    ("state", "limit"),
    [("57014", "0"), ("57014", "100s"), ("40001", "0"), ("58030", "1ms"), ("40P01", "100s")],
)
def test_what_says_nothing_of_a_condition_stops_nobody(
    twins: Twins, state: str, limit: str
) -> None:
    """A statement that somebody ends, a conflict, a full disk."""
    subscribe(twins, "slow", sql=TEXTS[0])
    ids = write(twins)
    hostile(twins, TEXTS[0], state=state, limit=limit)
    query = "select * from pg_temp.limited(%s, %s, 1, null)"
    assert twins.refused(query, [twins.topic_ids["orders"], ids]) == (state, "over")


@pytest.mark.parametrize("state", ["22012", "54000", "XX000", "P0001"])
def test_any_other_error_is_its_own(twins: Twins, state: str) -> None:
    subscribe(twins, "slow", sql=TEXTS[0])
    ids = write(twins)
    hostile(twins, TEXTS[0], state=state)
    assert limited(twins, ids) == ({}, {"slow": f"over (SQLSTATE {state})"}, [], [])


def test_a_condition_is_asked_of_each_pair_or_of_these_pairs(twins: Twins) -> None:
    """One row, also when none holds."""
    subscribe(twins, "a", sql=LARGE, params={"min": 0})
    query = (
        "select (select array_agg(array[o, i] order by o, i) from unnest(offsets, ids) u (o, i)), offsets is null"
        " from gapless.ask_condition(md5(%s)::uuid,"
        " array(select row(n, null, null, jsonb_build_object('n', n), null, null, null, null, null)"
        "::gapless.condition_event from generate_series(1, 3) n),"
        " array(select row(m, 'x', jsonb_build_object('min', m))::gapless.condition_subscription"
        " from generate_series(1, 2) m), %s::bigint[], %s::bigint[])"
    )
    pairs: list[tuple[list[int] | None, list[int] | None, list[list[int]]]] = [
        (None, None, [[2, 1], [3, 1], [3, 2]]),
        ([1, 2, 3, 3], [2, 1, 2, 9], [[2, 1], [3, 2]]),
        ([], [], []),
        ([1], [1], []),
    ]
    for offsets, ids, found in pairs:
        answer = twins.conn.execute(query, [LARGE, offsets, ids]).fetchall()
        assert answer == [(found or None, not found)]
