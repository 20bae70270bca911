"""trace(): the tree that is made of the units of a chain, and what groups did with each."""

from typing import Any
from uuid import UUID

import pytest

from support.chains import FIRST, NOBODY, PLACES, Chains, cause_id

ALL = "select * from gapless.chain_units('{}'{})"
TRACE = "select * from gapless.trace('{}'{})"
COLUMNS = ("node", "parent", "level", "is_asked", "group_id", "cause", "detached", "topic", "partition_id",
           "first_offset", "last_offset", "events", "event_types", "state", "left_out")  # fmt: skip
# The order of nodes: unit, node, parent, level.
TREE = [("a", 1, None, 0), ("d", 2, 1, 1), ("e", 3, 2, 2), ("b", 4, None, 0), ("f", 5, 4, 1), ("c", 6, None, 0),
        ("l", 7, None, 0)]  # fmt: skip


def node(chains: Chains, name: str, *place: Any, **more: Any) -> tuple[Any, ...]:
    unit = chains.told(name, FIRST)
    names = {number: topic for topic, number in chains.twins.topic_ids.items()}
    number, parent, level = place
    told = {
        "node": number, "parent": parent, "level": level, "group_id": unit["cause_group"], "detached": None,
        "topic": names[unit["topic_id"]], "state": "sequenced", "left_out": 0,
    }  # fmt: skip
    return tuple((unit | told | more)[column] for column in COLUMNS)


def trace(chains: Chains, asked: UUID = FIRST, more: str = "") -> list[tuple[Any, ...]]:
    return [
        tuple(row[column] for column in COLUMNS) for row in chains.query(TRACE.format(asked, more))
    ]


def test_the_tree_of_a_chain(chains: Chains) -> None:
    for more in ("", ", null", ", 7", ", 99999"):
        assert trace(chains, FIRST, more) == [node(chains, *each) for each in TREE]
    assert trace(chains, NOBODY) == []
    rows = chains.query(TRACE.format(FIRST, ""))
    by_id = {row["first_offset"]: row for row in chains.query(ALL.format(FIRST, ""))}
    assert rows[2]["published_as"] == cause_id("mail/other/0@9")
    assert rows[2]["published_ts"] == by_id[10]["published_ts"]
    assert rows[2]["keys"] == by_id[10]["keys"]


# Where the tree has no room for all; the nodes that are there, with what is left out below; what is beside them.
ROOM: list[tuple[int, list[tuple[tuple[Any, ...], dict[str, Any]]], int]] = [
    (4, [(("a", 1, None, 0), {"left_out": 2}), (("b", 2, None, 0), {"left_out": 1}),
         (("c", 3, None, 0), {}), (("l", 4, None, 0), {})], 0),
    (0, [(("a", 1, None, 0), {"left_out": 2})], 4),
    (1, [(("a", 1, None, 0), {"left_out": 2})], 4),
    (6, [(("a", 1, None, 0), {}), (("d", 2, 1, 1), {"left_out": 1}), (("b", 3, None, 0), {}),
         (("f", 4, 3, 1), {}), (("c", 5, None, 0), {}), (("l", 6, None, 0), {})], 0),
]  # fmt: skip


@pytest.mark.parametrize(("most", "nodes", "beside"), ROOM)
def test_a_tree_without_room_for_all(
    chains: Chains, most: int, nodes: list[tuple[tuple[Any, ...], dict[str, Any]]], beside: int
) -> None:
    told = [node(chains, *place, **more) for place, more in nodes]
    rows = trace(chains, FIRST, f", {most}")
    if beside:
        *rows, last = rows
        none = dict.fromkeys(COLUMNS) | {"is_asked": False, "state": "left-out", "left_out": beside}
        assert last == tuple(none[column] for column in COLUMNS)
    assert rows == told


@pytest.mark.parametrize(
    ("first_offset", "detached"), [(8, "elsewhere"), (9, "elsewhere"), (10, "dropped")]
)
def test_what_came_of_something_that_is_not_there(
    chains: Chains, first_offset: int, detached: str
) -> None:
    """Retention took it, where the log begins behind it; else it is of another chain."""
    chains.run(
        "insert into gapless.log_start"
        f" select topic_id, p, case when topic_id = {{orders}} and p = 1 then {first_offset} else 50 end, now()"
        " from gapless.topic, generate_series(0, 2) p"
    )
    chains.run(f"delete from gapless.outbox_message_t where id = any (array{chains.ids['a']})")
    rows = {row[6]: row for row in trace(chains) if row[7] == "other" and row[8] == 0}
    assert list(rows) == [detached]


def test_a_tree_of_which_a_part_is_left_out_says_so(chains: Chains) -> None:
    """One that came of b was asked for, and nothing else has room."""
    asked = cause_id("mail/orders/2@9")
    rows = trace(chains, asked, ", 1")
    assert [row[:3] for row in rows] == [(1, None, 0), (None, None, None)]
    assert rows[0][6] == "left-out"
    assert rows[1][-1] == 6


def groups_at(chains: Chains, number: int) -> dict[str, tuple[Any, ...]]:
    (found,) = [
        row["groups"] for row in chains.query(TRACE.format(FIRST, "")) if row["node"] == number
    ]
    assert [each["group"] for each in found] == sorted(each["group"] for each in found)
    return {
        each["group"]: tuple(
            each[name] for name in ("state", "next_offset", "letter", "reason", "attempts")
        )
        for each in found
    }


def test_what_groups_did_with_a_unit(chains: Chains) -> None:
    """Those of its topic; and those of which something came."""
    done = ("handled", 100, None, None, None)
    here = {"auditor": done, "billing": done, "mail": done, "sender": done}
    assert groups_at(chains, 1) == here
    assert groups_at(chains, 2) == here | {"solo": done}
    chains.aside("mail", PLACES["d"], "discarded")
    chains.seek(10, "group_id = 'billing' and topic_id = {other} and partition_id = 0")
    dead = ("dead", 100, "discarded", "of no use", 3)
    pending = ("pending", 10, None, None, None)
    assert groups_at(chains, 2) == here | {"solo": done, "mail": dead, "billing": pending}
    chains.run(
        "update gapless.consumer_group set is_scratch = true where group_id in ('solo', 'billing')"
    )
    assert groups_at(chains, 1) == here, "billing published because of it"
    assert groups_at(chains, 2) == dict.fromkeys(("auditor", "sender"), done) | {"mail": dead}
    chains.run(
        "update gapless.outbox_message_t set cause = 'gone/orders/1@9' where cause = 'billing/orders/1@9'"
    )
    gone = {"gone": ("removed", None, None, None, None)}
    assert groups_at(chains, 1).keys() == {"auditor", "mail", "sender", "gone"}
    assert groups_at(chains, 1)["gone"] == gone["gone"]


def test_what_is_not_in_the_log_any_more_or_yet(chains: Chains) -> None:
    chains.drop("billing", "d", FIRST, "billing/orders/1@9")
    chains.publish_late("orders", 2, "mail/orders/2@9", of=FIRST)
    states = {(row[4], row[7], row[8]): row[-2] for row in trace(chains)}
    assert states["billing", "other", 0] == "dropped"
    assert states["mail", "orders", None] == "unsequenced"
    assert states["mail", "other", 2] == "sequenced"


@pytest.mark.parametrize(
    ("more", "most", "is_more"), [(1990, 9, False), (1991, 100, True), (1991, 101, False)]
)
def test_whether_all_was_looked_at(chains: Chains, more: int, most: int, is_more: bool) -> None:
    """At 2000 events at least, 20 for each node; with as many as that there may be others."""
    chains.run(
        "insert into gapless.outbox_message_t (topic_id, key, payload, transaction_id, cause, correlation)"
        f" select {{orders}}, 'k', '1', '{cause_id('x')}', 'x', '{FIRST}' from generate_series(1, {more})"
    )
    chains.other.execute("select pg_current_xact_id()")  # a later one has ended
    rows = trace(chains, FIRST, f", {most}")
    last = rows.pop() if is_more else None
    assert [row[0] for row in rows] == list(range(1, 9))
    assert rows[-1][5] == "x"
    assert rows[-1][COLUMNS.index("events")] == more
    if last is not None:
        assert (last[0], last[-2], last[-1]) == (None, "left-out", None)
