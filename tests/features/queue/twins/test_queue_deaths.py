"""Somebody died: what of theirs lapses at once, and that nothing of anybody else does."""

from typing import Any

import pytest

from support.twin_queues import (
    DONE,
    DUE,
    ELSEWHERE,
    HELD,
    HERE,
    PLACES,
    block_lock,
    letter,
    letters,
    locks,
    note,
    noted,
    put,
)
from support.twins import Twins

NOTE = (
    "create temp table answer on commit drop as select gapless.note_death(%s, %s, %s, %s) as said"
)
ANSWER = "select said from answer"
TOKEN = "11111111-1111-1111-1111-111111111111"
Hands = list[tuple[int, int, str, str | None]]  # first and last offset, state, holder


def hold(twins: Twins, place: tuple[str, str, int], hands: Hands) -> None:
    for first, last, state, holder in hands:
        note(twins, place, [(first, last, state)], holder=holder)


# What is noted, the floor, what is said to have died with whom; the answer, and which of the ranges lapse.
DEATHS: dict[str, tuple[Hands, int, tuple[int, int, str | None], str, set[int]]] = {
    "nothing noted": ([], 1, (5, 8, "ann"), "noted", {5}),
    "below the floor": ([], 6, (5, 8, "ann"), "done", set()),
    "at the floor": ([], 5, (5, 8, "ann"), "noted", {5}),
    "in hand": ([(5, 8, HELD, "ann")], 1, (5, 8, "ann"), "noted", {5}),
    "in hand, by anybody": ([(5, 8, HELD, "bob")], 1, (5, 8, None), "noted", {5}),
    "in hand, by nobody who said so": ([(5, 8, HELD, None)], 1, (5, 8, None), "noted", {5}),
    "in hand in parts": (
        [(5, 5, HELD, "ann"), (6, 6, DONE, "ann"), (7, 8, HELD, "ann")], 1, (5, 8, "ann"), "noted", {5, 7},
    ),
    "others have some": (
        [(5, 5, HELD, "bob"), (6, 6, HELD, "ann"), (7, 8, HELD, None)], 1, (5, 8, "ann"), "noted", {6},
    ),
    "others have all": ([(5, 8, HELD, "bob")], 1, (5, 8, "ann"), "done", set()),
    "nobody who said so has it": ([(5, 8, HELD, None)], 1, (5, 8, "ann"), "done", set()),
    "committed": ([(5, 8, DONE, None)], 1, (5, 8, "ann"), "done", set()),
    "committed, by anybody": ([(5, 8, DONE, "ann")], 1, (5, 8, None), "done", set()),
    "committed in part": ([(7, 7, DONE, None)], 1, (5, 8, "ann"), "done", set()),
    "reaches into it": ([(3, 5, DONE, None)], 1, (5, 8, "ann"), "done", set()),
    "reaches out of it": ([(8, 9, DONE, None)], 1, (5, 8, "ann"), "done", set()),
    "neighbours": ([(1, 4, HELD, "ann"), (9, 9, HELD, "ann")], 1, (5, 8, "ann"), "noted", {5}),
    "begins before it": ([(4, 6, HELD, "ann")], 1, (5, 8, "ann"), "done", set()),
    "its last": ([(8, 8, HELD, "ann")], 1, (5, 8, "ann"), "noted", {8}),
    "below the floor, in a range": ([(3, 6, DONE, None)], 5, (5, 8, "ann"), "noted", {5}),
    "lapsed before": ([(5, 8, DUE, "ann")], 1, (5, 8, "ann"), "noted", {5}),
    "within a block": ([], 1, (6, 8, "ann"), "done", set()),
    "within a block, behind a gap": ([(5, 5, DONE, None)], 1, (7, 8, "ann"), "done", set()),
    "into the next block": ([], 1, (3, 5, "ann"), "done", set()),
    "into the next block, from its beginning": ([], 1, (1, 5, "ann"), "done", set()),
    "beyond the log": ([], 1, (9, 10, "ann"), "done", set()),
    "behind the log": ([], 1, (13, 13, "ann"), "done", set()),
}  # fmt: skip


@pytest.mark.few(6)
@pytest.mark.parametrize("name", DEATHS)
def test_what_is_noted_of_a_death(twins: Twins, name: str) -> None:
    hands, floor, (first, last, holder), said, lapsed = DEATHS[name]
    for place in ELSEWHERE:
        hold(twins, place, [(5, 5, HELD, "ann"), (6, 8, DONE, "ann")])
    hold(twins, HERE, hands)
    put(twins, HERE, floor)
    twins.conn.execute("update gapless.queue_range set tries = 3")
    lease = twins.leases[HERE]
    changed = twins.changes(NOTE, [lease, first, last, holder])
    assert twins.value(ANSWER) == said
    assert set(changed) == {f"queue_range {lease} {n}" for n in lapsed}
    assert all(row["deadline"][1] == "-infinity" for row in changed.values())
    before = {(n, m, state, 3, who) for n, m, state, who in hands}
    after = set(noted(twins))
    if hands and lapsed and lapsed <= {n for n, *_ in hands}:
        assert after == {
            (n, m, DUE if n in lapsed else state, 3, who) for n, m, state, _, who in before
        }
        assert all(row["token"][1] is None for row in changed.values() if "token" in row)
    else:
        assert after - before == ({(first, last, DUE, 1, "died")} if lapsed else set())
    kept = "select count(*) from gapless.queue_range where deadline = '-infinity' and token is not null"
    assert twins.value(kept) == 0
    ours = {(7427003, lease, "ShareLock"), block_lock(twins, (first - 1) // 4)}
    assert locks(twins) == ours


@pytest.mark.parametrize("first", [1, 4, 5])
def test_the_block_that_is_asked_for(twins: Twins, first: int) -> None:
    """Of the size that the queue has."""
    twins.conn.execute("update gapless.queue_floor set block = 3, next_offset = %s", [first])
    twins.conn.execute(NOTE, [twins.leases[HERE], first, first, "ann"])
    assert twins.value(ANSWER) == "noted"
    assert block_lock(twins, (first - 1) // 3) in locks(twins)


def test_of_an_ordered_group_no_death_is_noted(twins: Twins) -> None:
    for lease in (twins.leases["billing", "orders", 1], 0):
        assert not twins.changes(NOTE, [lease, 1, 4, "ann"])
        assert twins.value(ANSWER) == "done"
        twins.conn.execute("drop table answer")
    assert locks(twins) == set()


END = "create temp table answer on commit drop as select gapless.end_holder(%s) as said"


def test_all_that_a_worker_has_lapses_everywhere(twins: Twins) -> None:
    """Of what others have, what is finished or lapsed already, and what is below a floor, nothing."""
    for n, place in enumerate(PLACES):
        hold(
            twins, place,
            [(1, 1, HELD, "ann"), (2, 2, HELD, "ann"), (3, 3, HELD, "bob"), (4, 4, DONE, "ann"),
             (5, 5, DUE, "ann"), (6, 6, HELD, None), (7, 8, HELD, "ann")],
        )  # fmt: skip
        put(twins, place, n % 2 + 1)
    changed = twins.changes(END, ["ann"])
    assert twins.value(ANSWER) == 12 * 3 - 6
    assert set(changed) == {
        f"queue_range {twins.leases[place]} {first}"
        for n, place in enumerate(PLACES)
        for first in (1, 2, 7)
        if first > n % 2
    }
    for row in changed.values():
        assert row["deadline"][1] == "-infinity"
        assert row["token"][1] is None
        assert set(row) == {"deadline", "token"}


def test_units_that_a_worker_has_are_due_at_once(twins: Twins) -> None:
    later = "2199-01-01"
    cases: list[tuple[int, dict[str, Any]]] = [
        (1, {"worker": "ann", "token": TOKEN}), (2, {"worker": "bob", "token": TOKEN}), (3, {"worker": "ann"}),
        (4, {"worker": None, "token": TOKEN}), (5, {"worker": "ann", "token": TOKEN, "state": "dead"}),
        (6, {"worker": "ann", "token": TOKEN, "state": "parked"}),
    ]  # fmt: skip
    for place in PLACES[:4]:
        for first, columns in cases:
            when = None if "state" in columns else later
            letter(twins, place, first, next_attempt_ts=when, crashes=2, **columns)
    changed = twins.changes(END, ["ann"])
    assert twins.value(ANSWER) == 4
    assert changed == {
        f"dead_letter {group} {topic} {partition} 1": {"token": (TOKEN, None)}
        for group, topic, partition in PLACES[:4]
    }
    for place in PLACES[:4]:
        due = [
            n
            for n, at in letters(
                twins, place, "first_offset, next_attempt_ts < now() + interval '1 min'"
            )
            if at
        ]
        assert due == [1]
    twins.conn.execute("drop table answer")
    assert not twins.changes(END, ["ann"])
    assert twins.value(ANSWER) == 0
