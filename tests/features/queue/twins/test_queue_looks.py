"""What is said of a queue group without writing: of each of its partitions, among all that are alike."""

from typing import Any

import pytest

from support.twin_queues import (
    DONE,
    DUE,
    ELSEWHERE,
    HELD,
    HERE,
    Notes,
    lengthen,
    letter,
    note,
    put,
)
from support.twins import Twins

HOUR_S = 3600
PLACES_OF = "select * from gapless.queue_places('sender', %s)"
STATE = "select * from gapless.queue_state('sender') order by 1, 2"
ASIDE = "select due, round(wait_s / 60)::int from gapless.queue_aside('sender', %s)"


@pytest.fixture
def busy(twins: Twins) -> Twins:
    """Elsewhere there is more in the log, something in hand, something due, something finished, and letters."""
    for place in ELSEWHERE:
        note(twins, place, [(1, 2, HELD), (3, 3, DUE), (4, 5, DONE)])
        letter(twins, place, 6)
        letter(twins, place, 7, state="dead")
    lengthen(twins)
    return twins


# What is noted and where the floor is; how many are open above all that was taken, and not finished.
OPEN: dict[str, tuple[Notes, int, tuple[int, int]]] = {
    "nothing": ([], 1, (8, 8)),
    "in hand": ([(1, 4, HELD)], 1, (4, 8)),
    "two ranges": ([(1, 4, DONE), (5, 6, DUE)], 1, (2, 8)),
    "a gap": ([(5, 6, DONE)], 1, (2, 8)),
    "all": ([(1, 8, HELD)], 1, (0, 8)),
    "from the floor": ([], 5, (4, 4)),
    "above the floor": ([(5, 6, HELD)], 3, (2, 6)),
    "at the end": ([], 9, (0, 0)),
    "beyond the end": ([], 20, (0, 0)),
    "a range beyond the end": ([(5, 9, HELD)], 1, (0, 8)),
}


@pytest.mark.parametrize("name", OPEN)
def test_the_partitions_of_a_queue(busy: Twins, name: str) -> None:
    """The laggiest first, then by number; those of its own topic."""
    notes, floor, (open_, unfinished) = OPEN[name]
    note(busy, HERE, notes)
    put(busy, HERE, floor)
    busy.conn.execute(
        "update gapless.queue_floor set block = 3 where lease_no = %s", [busy.leases[HERE]]
    )
    rows = [(p, busy.leases["sender", "orders", p], 4, 9, 14) for p in (0, 2)]
    rows.append((1, busy.leases[HERE], 3, open_, unfinished))
    rows.sort(key=lambda row: (-row[3], row[0]))
    assert busy.conn.execute(PLACES_OF, [busy.topic_ids["orders"]]).fetchall() == rows


def test_a_partition_without_a_floor_or_a_segment(busy: Twins) -> None:
    topic_id = busy.topic_ids["orders"]
    busy.conn.execute(
        "delete from gapless.log_segment where topic_id = %s and partition_id = 1", [topic_id]
    )
    rows = busy.conn.execute(PLACES_OF, [topic_id]).fetchall()
    assert rows[2] == (1, busy.leases[HERE], 4, 0, 0)
    busy.conn.execute("delete from gapless.queue_floor where lease_no = %s", [busy.leases[HERE]])
    assert busy.conn.execute(PLACES_OF, [topic_id]).fetchall() == rows[:2]


# What is noted and where the floor is: next and end offset, open, in work, in hand, lapsed, finished ahead.
STATES: dict[str, tuple[Notes, int, tuple[int, ...]]] = {
    "nothing": ([], 1, (1, 9, 8, 0, 0, 0, 0)),
    "of each": ([(1, 2, HELD), (3, 5, DONE), (6, 6, DUE)], 1, (1, 9, 3, 0, 2, 1, 3)),
    "two of each": (
        [(1, 2, HELD), (3, 3, DONE), (4, 4, DUE), (5, 5, HELD), (6, 7, DONE), (8, 8, DUE)],
        1, (1, 9, 2, 0, 3, 2, 3),
    ),
    "none is open": ([(1, 1, HELD), (2, 8, DONE)], 1, (1, 9, 0, 0, 1, 0, 7)),
    "above the floor": ([(5, 6, HELD)], 4, (4, 9, 3, 0, 2, 0, 0)),
    "what was passed": ([(1, 2, HELD), (3, 3, DUE), (4, 4, DONE)], 5, (5, 9, 4, 0, 0, 0, 0)),
    "at the floor": ([(5, 5, HELD)], 5, (5, 9, 3, 0, 1, 0, 0)),
    "at the end": ([], 9, (9, 9, 0, 0, 0, 0, 0)),
    "beyond the end": ([], 20, (20, 9, 0, 0, 0, 0, 0)),
}  # fmt: skip


@pytest.mark.parametrize("name", STATES)
def test_the_state_of_a_queue(busy: Twins, name: str) -> None:
    notes, floor, said = STATES[name]
    before = busy.conn.execute(STATE).fetchall()
    assert [row[:2] for row in before] == [
        (topic, partition) for topic in ("orders", "other") for partition in range(3)
    ]
    note(busy, HERE, notes)
    put(busy, HERE, floor)
    busy.conn.execute(
        "update gapless.outbox_message_t o set created_ts = now() - (s.base_offset + n - 1) * interval '1 h'"
        " from gapless.log_segment s, unnest(s.message_ids) with ordinality u (id, n)"
        " where s.topic_id = %s and s.partition_id = 1 and o.id = u.id",
        [busy.topic_ids["orders"]],
    )
    after = busy.conn.execute(STATE).fetchall()
    here = ("orders", 1, *said, 0, 0, HOUR_S * floor if floor < 9 else 0, False)
    assert after.pop(1) == here
    assert before.pop(1)[:9] == ("orders", 1, *STATES["nothing"][2])
    assert after == before
    assert before[0][2:11] == (1, 15, 10, 0, 2, 1, 2, 1, 1)


def test_of_a_partition_without_events_all_is_finished(busy: Twins) -> None:
    where = "where topic_id = %s and partition_id = 1"
    busy.conn.execute(f"delete from gapless.log_segment {where}", [busy.topic_ids["orders"]])
    row = busy.conn.execute(STATE).fetchall()[1]
    assert row == ("orders", 1, 1, 1, *[0] * 8, False)


def test_letters_and_pauses_in_the_state(busy: Twins) -> None:
    """What waits behind another waits; what is over is not counted."""
    for n, state in enumerate(("waiting", "waiting", "parked", "dead", "redriven", "discarded"), 1):
        letter(busy, HERE, n, state=state)
    before = busy.conn.execute(STATE).fetchall()
    assert before[1][9:11] == (3, 1)
    busy.conn.execute("select gapless.pause('sender', 'orders', 1)")
    after = busy.conn.execute(STATE).fetchall()
    assert [row[-1] for row in after] == [n == 1 for n in range(6)]


# What is noted (a deadline in minutes), letters (the same), the floor: what is due, or in how many minutes.
BACK: dict[str, tuple[list[tuple[int, Any]], list[tuple[int, Any]], int, list[tuple[Any, ...]]]] = {
    "nothing": ([], [], 1, []),
    "finished": ([(1, None)], [], 1, []),
    "in hand": ([(1, 60)], [], 1, [(False, 60)]),
    "several": ([(1, 60), (3, 30), (5, None), (7, 90)], [], 1, [(False, 30)]),
    "lapsed": ([(1, 60), (3, -1)], [], 1, [(True, 0)]),
    "given back": ([(1, 60), (3, "-infinity")], [], 1, [(True, 0)]),
    "a letter": ([], [(1, 60)], 1, [(False, 60)]),
    "letters": ([], [(1, 60), (2, 30), (3, 90)], 1, [(False, 30)]),
    "one that is due": ([], [(1, 60), (2, -1)], 1, [(True, 0)]),
    "a dead one": ([], [(1, None)], 1, []),
    "a dead one and others": ([], [(1, None), (2, 60)], 1, [(False, 60)]),
    "the range first": ([(1, 60)], [(2, 90)], 1, [(False, 60)]),
    "the letter first": ([(1, 90)], [(2, 60)], 1, [(False, 60)]),
    "the range alone is due": ([(1, -1)], [(2, 60)], 1, [(True, 0)]),
    "the letter alone is due": ([(1, 60)], [(2, -1)], 1, [(True, 0)]),
    "a letter below the floor": ([(1, -1)], [(2, 60)], 3, [(False, 60)]),
    "from the floor on": ([(1, -1), (3, 60)], [], 3, [(False, 60)]),
    "below the floor": ([(1, -1)], [], 3, []),
}


@pytest.mark.parametrize("name", BACK)
def test_what_comes_back(twins: Twins, name: str) -> None:
    """Of a topic, in any of its partitions that does not rest; of another topic and group all is due."""
    ranges, aside, floor, said = BACK[name]
    for place in ELSEWHERE:
        if place[:2] != HERE[:2]:
            note(twins, place, [(1, 1, DUE)])
            letter(twins, place, 2)
    for n, wait in ranges:
        note(twins, HERE, [(n, n, DONE)])
        _until(twins, "queue_range", "deadline", wait, n)
    for n, wait in aside:
        letter(twins, HERE, n, state="waiting" if wait is not None else "dead")
        _until(twins, "dead_letter", "next_attempt_ts", wait, n)
    put(twins, HERE, floor)
    topic_id = twins.topic_ids["orders"]
    assert twins.conn.execute(ASIDE, [topic_id]).fetchall() == said
    twins.conn.execute("select gapless.pause('sender', 'orders', 1)")
    assert twins.conn.execute(ASIDE, [topic_id]).fetchall() == []
    note(twins, ("sender", "orders", 2), [(1, 1, HELD)])
    _until(twins, "queue_range", "deadline", 120, 1, lease=twins.leases["sender", "orders", 2])
    assert twins.conn.execute(ASIDE, [topic_id]).fetchall() == [(False, 120)]


def _until(
    twins: Twins, table: str, column: str, wait: Any, first: int, lease: int | None = None
) -> None:
    when = "null" if wait is None else f"clock_timestamp() + interval '{wait} min'"
    where = twins.here("sender")
    if isinstance(wait, str):
        when = f"'{wait}'"
    if table == "queue_range":
        where = f"lease_no = {lease or twins.leases[HERE]}"
    statement = (
        f"update gapless.{table} set {column} = {when} where {where} and first_offset = {first}"
    )
    twins.conn.execute(statement)


@pytest.mark.parametrize(
    ("notes", "floor", "is_open"),
    [
        ([], 1, False), ([(1, 4, DONE)], 1, False), ([(2, 4, DONE)], 1, True), ([(1, 2, HELD), (3, 8, DONE)], 1, False),
        ([(1, 2, HELD), (4, 8, DONE)], 1, True), ([(3, 4, DUE)], 3, False), ([(4, 4, DUE)], 3, True),
        ([(1, 1, DUE), (3, 4, DONE)], 3, False), ([(3, 4, DONE), (5, 5, DONE), (6, 6, DONE), (8, 8, DONE)], 3, True),
    ],
)  # fmt: skip
def test_whether_something_is_open_between_ranges(
    twins: Twins, notes: Notes, floor: int, is_open: bool
) -> None:
    for place in ELSEWHERE:
        note(twins, place, [(1, 1, DONE), (2, 2, DONE)])
    ask = "select gapless.has_gaps(%s, %s)"
    note(twins, HERE, notes)
    put(twins, HERE, floor)
    orders, other = (twins.topic_ids[topic] for topic in ("orders", "other"))
    assert twins.value(ask, "sender", orders) is is_open
    assert twins.value(ask, "auditor", orders) is twins.value(ask, "sender", other) is False
    note(twins, ("sender", "orders", 2), [(7, 7, DUE)])
    assert twins.value(ask, "sender", orders) is True


def test_whether_anything_is_above_the_floor(twins: Twins) -> None:
    ask = "select gapless.has_ranges(%s, %s, %s)"
    places = [HERE, ("auditor", "orders", 1), ("sender", "other", 1), ("sender", "orders", 2)]
    asked = [(group, twins.topic_ids[topic], partition) for group, topic, partition in places]
    assert [twins.value(ask, *each) for each in asked] == [False] * 4
    note(twins, HERE, [(3, 3, DONE)])
    assert [twins.value(ask, *each) for each in asked] == [True, False, False, False]


# What is noted, which offsets are asked for, where the group is.
PAST: list[tuple[Notes, tuple[int, int, int | None], bool | None]] = [
    ([], (2, 4, 5), True), ([], (2, 4, 4), False), ([(1, 8, DONE)], (2, 4, None), None),
    ([(3, 4, DONE)], (3, 4, 3), True), ([(3, 4, DONE)], (3, 5, 3), False), ([(3, 4, DONE)], (2, 4, 3), True),
    ([(3, 4, DONE)], (5, 5, 3), False), ([(3, 4, DONE)], (1, 3, 3), True), ([(3, 4, HELD)], (3, 4, 3), False),
    ([(3, 4, DUE)], (3, 4, 3), False), ([(3, 3, DONE), (4, 4, DONE)], (3, 4, 3), True),
    ([(3, 3, DONE), (4, 4, HELD)], (3, 4, 3), False), ([(3, 8, DONE)], (5, 6, 3), True),
    ([(3, 5, DONE), (6, 8, DONE)], (5, 6, 3), True), ([(3, 3, DONE), (5, 5, DONE)], (3, 5, 3), False),
    ([(3, 4, DONE), (5, 8, DONE)], (5, 5, 3), True), ([(4, 6, DONE)], (3, 6, 3), False),
    ([(4, 6, DONE)], (2, 6, 4), True), ([(3, 4, DONE), (6, 8, DONE)], (4, 6, 3), False),
    ([(3, 4, DONE), (5, 5, DONE), (6, 8, DONE)], (4, 7, 3), True), ([(3, 4, DONE), (6, 8, DONE)], (3, 4, 3), True),
]  # fmt: skip


@pytest.mark.parametrize(("notes", "asked", "said"), PAST)
def test_whether_a_queue_has_passed_offsets(
    twins: Twins, notes: Notes, asked: tuple[int, int, int | None], said: bool | None
) -> None:
    """By its floor, or by ranges above it, which must be its own; an ordered group has no ranges."""
    for place in ELSEWHERE:
        note(twins, place, [(2, 2, HELD), (4, 8, DONE)])
    ask = "select gapless.is_past(%s, %s, %s, %s, %s, %s)"
    note(twins, HERE, notes)
    assert twins.value(ask, "sender", twins.topic_ids["orders"], 1, *asked) is said
    note(twins, ("billing", "orders", 1), [(1, 8, DONE)])
    by_floor = None if asked[2] is None else asked[1] < asked[2]
    assert twins.value(ask, "billing", twins.topic_ids["orders"], 1, *asked) is by_floor
    assert twins.value(ask, "nobody", twins.topic_ids["orders"], 1, *asked) is by_floor
