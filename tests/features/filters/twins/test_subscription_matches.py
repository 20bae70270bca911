"""match_events(), condition_events(), ask_conditions(): which subscriptions of a group match, of many that are alike.

Four groups have the same subscriptions, and each is told of its own alone.
"""

import json
from typing import Any

import pytest

from features.filters.twins.asking import C, write
from support.subscribed import HERE, PLACES, number, numbers, stop, subscribe
from support.twins import Twins

MATCH = "select * from gapless.match_events(%s, %s, %s, %s, %s, %s)"
NUL = "no subscription could be asked: unsupported Unicode escape sequence"
# What is said of each, and which events it matches, were each of them to all. Those in a row that say the same
# have one form. "one" and "n" have the values of "ann".
SUBSCRIPTIONS: dict[str, tuple[dict[str, Any], list[int]]] = {
    "ann": ({"match": C, "params": {"c": 1}}, [1, 2, 7, 8]),
    "ben": ({"match": C, "params": {"c": 2}}, [3]),
    "nest": ({"match": C, "params": {"c": [[1], 2]}}, [6]),
    "one": ({"match": {"x": "$.c"}, "params": {"x": 1}}, [1, 2, 7, 8]),
    "n": ({"match": {"n": "$.n"}, "params": {"n": 1}}, [1]),
    "type": ({"match": {"t": "event_type"}, "params": {"t": "b"}}, [2]),
    "min": ({"condition": "$.n > $min", "params": {"min": 4}}, [5, 6, 7, 8]),
    "more": ({"condition": "$.n > $min", "params": {"min": 7}}, [8]),
    "both": (
        {"match": C, "condition": "$.n > $least", "params": {"c": 1, "least": 1}}, [2, 7, 8],
    ),
    "flag": ({"condition": "$.flag"}, [5]),  # of others it is no predicate
    "asked": ({"match": C, "params": {"c": 1}, "sql": "true"}, []),
}  # fmt: skip
FORM_OF = {"ben": "ann", "nest": "ann", "more": "min"}


@pytest.fixture
def zoo(twins: Twins) -> Twins:
    for place in PLACES:
        for name, (said, _) in SUBSCRIPTIONS.items():
            subscribe(twins, name, place, **said)
    return twins


def matched(
    twins: Twins,
    ids: list[int],
    to_group: str | None = None,
    *,
    group: str = "billing",
    only: list[int] | None = None,
) -> list[Any]:
    """What a group of orders is told of events of its partition 1, with names for numbers."""
    names = numbers(twins, (group, "orders"))
    asked = [group, twins.topic_ids["orders"], 1, ids, to_group, only]
    return sorted(
        (n, sorted(names[each] for each in found or []), error)
        for n, found, error in twins.conn.execute(MATCH, asked).fetchall()
    )


def expected(offsets: list[int], names: list[str] | None = None) -> list[Any]:
    """A row for each of these events and each form of which one matches."""
    found: dict[tuple[int, str], list[str]] = {}
    for name, (_, of) in SUBSCRIPTIONS.items():
        for n in set(of) & set(offsets):
            if names is None or name in names:
                found.setdefault((n, FORM_OF.get(name, name)), []).append(name)
    told: list[Any] = [(n, sorted(each), None) for (n, _), each in found.items()]
    return sorted([*told, *[(4, [], NUL) for n in offsets if n == 4]])


@pytest.mark.parametrize(
    ("group", "to_group", "offsets", "to_ann"),
    [
        ("billing", None, [1, 2, 3, 4, 5, 6, 7, 8], []),
        ("mail", None, [1, 2, 3, 4, 5, 6, 7, 8], []),
        ("billing", "billing", [1, 2, 4, 5, 6, 8], [(7, ["ann"], None)]),
        ("mail", "billing", [1, 2, 4, 5, 6, 8], [(7, ["ann"], None)]),
        ("billing", "mail", [1, 3, 4, 5, 6, 8], []),
    ],
)
def test_a_group_is_told_of_its_own_alone(
    zoo: Twins, group: str, to_group: str | None, offsets: list[int], to_ann: list[Any]
) -> None:
    """to_group: what is for another one is not there; of what is for one subscription no other is told."""
    found = matched(zoo, write(zoo), to_group, group=group)
    assert found == sorted([*expected(offsets), *to_ann])


@pytest.mark.parametrize("only", [["ann"], ["ben", "min", "type"], ["both", "asked"], []])
def test_some_are_asked_alone(zoo: Twins, only: list[str]) -> None:
    ids = write(zoo)
    found = matched(zoo, ids, only=[number(zoo, name) for name in only])
    assert found == expected([1, 2, 3, 4, 5, 6, 7, 8], only)


def test_what_is_stopped_here_matches_nothing_here(zoo: Twins) -> None:
    """Whoever is stopped in another partition, or in another group by the same name, is not."""
    ids = write(zoo)
    every = [1, 2, 3, 4, 5, 6, 7, 8]
    stop(zoo, "n <> 1 or s.group_id <> 'billing' or t.name <> 'orders'")
    assert matched(zoo, ids) == expected(every)
    assert matched(zoo, ids[6:7], "billing") == [(1, ["ann"], None)]
    stop(zoo, "s.name in ('ann', 'min')")
    others = [name for name in SUBSCRIPTIONS if name not in {"ann", "min"}]
    assert matched(zoo, ids) == expected(every, others)
    assert matched(zoo, ids[6:7], "billing") == []


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", ["ann", "ben", "type", "asked"])
def test_a_message_to_one_of_them_is_for_that_one(
    zoo: Twins, place: tuple[str, str], name: str
) -> None:
    """Whatever it says; and not while that one is stopped there."""
    group, topic = place
    ids = write(zoo)
    headers = {"gapless-to-group": group, "gapless-to-subscription": name}
    zoo.conn.execute(
        "update gapless.outbox_message_t set headers = %s where id = %s",
        [json.dumps(headers), ids[3]],
    )
    ask = [group, zoo.topic_ids[topic], 1, [ids[3]], group, []]
    stop(zoo, f"s.name <> '{name}' or n <> 1 or (s.group_id, t.name) <> ('{group}', '{topic}')")
    assert zoo.conn.execute(MATCH, ask).fetchall() == [(1, [number(zoo, name, place)], None)]
    stop(zoo, f"s.name = '{name}'")
    assert zoo.conn.execute(MATCH, ask).fetchall() == []


def test_a_message_to_one_that_is_not_there_is_not_lost(twins: Twins) -> None:
    """One of another group, or of another topic, is not there."""
    for place in PLACES:
        if place != HERE:
            subscribe(twins, "ann", place, match=C, params={"c": 1})
    subscribe(twins, "and", match=C, params={"c": 1})
    subscribe(twins, "anne", match=C, params={"c": 1})
    ids = write(twins)
    said = 'group "billing" has no subscription "ann"'
    assert matched(twins, ids[6:7], "billing") == [(1, [], said)]


STANDS = (
    "update gapless.topic set direct = true; update gapless.consumer_group set stands_for = 'mail'"
    " where (group_id = 'billing' and topic_id = {orders})"
)
# Which topics take direct messages, whom groups stand for; the events that SQL conditions are asked about.
ASKED_ABOUT: dict[str, tuple[str, list[int]]] = {
    "no direct messages": ("", [1, 2, 3, 5, 6, 7, 8]),
    "of another topic": (
        "update gapless.topic set direct = true where name <> 'orders'", [1, 2, 3, 5, 6, 7, 8],
    ),
    "direct messages": ("update gapless.topic set direct = true", [1, 2, 5, 6, 8]),
    "others stand for another": (
        STANDS.replace("where", "where not"),
        [1, 2, 5, 6, 8],
    ),
    "it stands for another": (
        STANDS,
        [1, 3, 5, 6, 8],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ASKED_ABOUT)
def test_what_conditions_are_asked_about(twins: Twins, name: str) -> None:
    """All of an event, at its offset."""
    statements, offsets = ASKED_ABOUT[name]
    ids = write(twins)
    if statements:
        twins.conn.execute(statements.format(orders=twins.topic_ids["orders"]))
    columns = (
        "event_type, key, payload::jsonb, headers, host_id, user_id, transaction_id, created_ts"
    )
    ask = f"select c_offset, {columns} from unnest(gapless.condition_events('billing', %s, %s, %s))"
    for shift, first, last in ((0, 1, 8), (0, 2, 7), (100, 5, 6)):
        kept = [n for n in offsets if first <= n <= last]
        log = f"select {columns} from gapless.outbox_message_t where id = any (%s) order by id"
        events = twins.conn.execute(log, [[ids[n - 1] for n in kept]]).fetchall()
        asked = [twins.topic_ids["orders"], ids[first - 1 : last], first + shift]
        found = twins.conn.execute(ask, asked).fetchall()
        assert found == [(n + shift, *event) for n, event in zip(kept, events, strict=True)]
