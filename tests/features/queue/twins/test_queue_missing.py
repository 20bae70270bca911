"""What is missing from the log of a queue group: where that is seen, what is said, and what a skip passes."""

import pytest

from support.twin_queues import (
    DONE,
    DUE,
    ELSEWHERE,
    HELD,
    HERE,
    Notes,
    block_lock,
    go_on,
    lengthen,
    locks,
    lose,
    note,
    noted,
    put,
)
from support.twins import Twins

Lost = tuple[set[int], set[int], int]  # events, segments, and where retention lets the log begin
NONE: Lost = (set(), set(), 1)
# What is lost, and around which offsets that is said.
GONE: dict[str, tuple[Lost, dict[int, tuple[int, int]]]] = {
    "nothing": (NONE, {}),
    "an event": (({5}, set(), 1), {5: (5, 5)}),
    "two events": (({3, 4}, set(), 1), {3: (3, 3), 4: (4, 4)}),
    "the last event": (({8}, set(), 1), {8: (8, 8)}),
    "a segment": ((set(), {4}, 1), dict.fromkeys((4, 5, 6), (4, 6))),
    "the first segment": ((set(), {1}, 1), dict.fromkeys((1, 2, 3), (1, 3))),
    "the last segment": ((set(), {7}, 1), {}),
    "a segment, and the event before it": (({3}, {4}, 1), {3: (3, 3)} | dict.fromkeys((4, 5, 6), (4, 6))),
    "what retention dropped": ((set(), {1}, 4), dict.fromkeys((1, 2, 3), (1, 3))),
    "that, and what follows": (
        (set(), {1, 4}, 5), dict.fromkeys((1, 2, 3, 4), (1, 4)) | dict.fromkeys((5, 6), (5, 6)),
    ),
    "a part of a segment": ((set(), set(), 3), dict.fromkeys((1, 2), (1, 2))),
    "that, and an event": (({3}, set(), 3), dict.fromkeys((1, 2), (1, 2)) | {3: (3, 3)}),
}  # fmt: skip


@pytest.mark.parametrize("name", GONE)
def test_what_is_missing_around_an_offset(twins: Twins, name: str) -> None:
    lost, said = GONE[name]
    lengthen(twins)
    lose(twins, *lost)
    found = twins.conn.execute(
        "select n, m.first_offset, m.last_offset from generate_series(1, 10) n,"
        " gapless.missing_at(%s, 1, n) m where m.first_offset is not null",
        [twins.topic_ids["orders"]],
    ).fetchall()
    assert {n: (first, last) for n, first, last in found} == said


# What is lost, what is noted, where the floor is, how many events are looked for: what is said, or nothing.
STOPS: dict[str, tuple[Lost, Notes, int, int, tuple[str, int, int] | None]] = {
    "nothing": (NONE, [], 1, 9, None),
    "an event": (({3}, set(), 1), [], 1, 9, ("hole", 3, 3)),
    "at the floor": (({2}, set(), 1), [], 2, 9, ("hole", 2, 2)),
    "below the floor": (({2}, set(), 1), [], 3, 9, None),
    "the first of two": (({2, 3}, set(), 1), [], 1, 9, ("hole", 2, 2)),
    "the last of the block": (({4}, set(), 1), [], 1, 4, ("hole", 4, 4)),
    "the last of the block, at the floor": (({4}, set(), 1), [], 4, 9, ("hole", 4, 4)),
    "more than are looked for": (({4}, set(), 1), [], 1, 3, None),
    "more than are looked for, in a segment": (({6}, set(), 1), [], 5, 1, None),
    "in the next block": (({5}, set(), 1), [], 1, 9, None),
    "in the block at the floor": (({5}, set(), 1), [], 5, 9, ("hole", 5, 5)),
    "in the block behind what is done": (({5}, set(), 1), [(1, 4, DONE)], 1, 9, ("hole", 5, 5)),
    "in the block behind what is in hand": (({6}, set(), 1), [(1, 2, DONE), (3, 4, HELD)], 1, 9, ("hole", 6, 6)),
    "behind what is due": (({5}, set(), 1), [(1, 4, DUE)], 1, 9, None),
    "behind a gap": (({5}, set(), 1), [(2, 4, DONE)], 1, 9, None),
    "passed": (({3}, set(), 1), [(3, 3, DONE)], 1, 9, None),
    "passed with others": (({3}, set(), 1), [(2, 4, DONE)], 1, 9, None),
    "in hand": (({3}, set(), 1), [(3, 3, HELD)], 1, 9, None),
    "due": (({3}, set(), 1), [(3, 3, DUE)], 1, 9, ("hole", 3, 3)),
    "before what is passed": (({2}, set(), 1), [(3, 4, DONE)], 1, 9, ("hole", 2, 2)),
    "behind what is passed": (({4}, set(), 1), [(2, 3, DONE)], 1, 9, ("hole", 4, 4)),
    "behind a range below the floor": (({6}, set(), 1), [(1, 6, DONE)], 5, 9, ("hole", 6, 6)),
    "a segment": ((set(), {4}, 1), [], 1, 9, ("hole", 4, 6)),
    "a segment at the floor": ((set(), {4}, 1), [], 4, 9, ("hole", 4, 6)),
    "a segment around the floor": ((set(), {4}, 1), [], 5, 9, ("hole", 5, 6)),
    "the last offset of a segment": ((set(), {4}, 1), [], 6, 9, ("hole", 6, 6)),
    "a segment below the floor": ((set(), {4}, 1), [], 7, 9, None),
    "a segment that is passed": ((set(), {4}, 1), [(4, 6, DONE)], 1, 9, None),
    "a segment that is passed with others": ((set(), {4}, 1), [(2, 7, DONE)], 1, 9, None),
    "a segment in part": ((set(), {4}, 1), [(1, 3, DONE), (4, 5, DONE)], 1, 9, ("hole", 6, 6)),
    "a segment that is passed in pieces": ((set(), {4}, 1), [(2, 4, DONE), (5, 6, DONE)], 1, 9, None),
    "a segment that is passed, behind another range": (
        (set(), {4}, 1), [(2, 2, DONE), (4, 6, DONE)], 1, 9, None,
    ),
    "a segment that is in hand": ((set(), {4}, 1), [(4, 6, HELD)], 1, 9, None),
    "a segment in hand in part, the rest passed": ((set(), {4}, 1), [(3, 5, HELD), (6, 9, DONE)], 1, 9, None),
    "a segment with a piece that is open": ((set(), {4}, 1), [(3, 4, DONE), (6, 9, DONE)], 1, 9, ("hole", 4, 6)),
    "a segment that is due": ((set(), {4}, 1), [(4, 6, DUE)], 1, 9, ("hole", 4, 6)),
    "a segment before what is done": ((set(), {4}, 1), [(7, 8, DONE)], 1, 9, ("hole", 4, 6)),
    "the second of two": ((set(), {4, 9}, 1), [(4, 6, DONE)], 1, 9, ("hole", 9, 10)),
    "the first of two segments": ((set(), {4, 9}, 1), [], 1, 9, ("hole", 4, 6)),
    "the first segment": ((set(), {1}, 1), [], 1, 9, ("hole", 1, 3)),
    "the last segment": ((set(), {11}, 1), [], 1, 9, None),
    "an event before a segment": (({3}, {4}, 1), [], 1, 9, ("hole", 3, 3)),
    "a segment before an event": (({7}, {4}, 1), [(1, 3, DONE)], 1, 9, ("hole", 4, 6)),
    "an event behind a segment": (({7}, {4}, 1), [(1, 3, DONE), (4, 6, DONE)], 1, 9, ("hole", 7, 7)),
    "dropped": ((set(), {1}, 4), [], 1, 9, ("overrun", 1, 3)),
    "dropped, and more": ((set(), {1, 4}, 4), [], 1, 9, ("overrun", 1, 3)),
    "dropped in part": ((set(), {1}, 4), [], 3, 9, ("overrun", 3, 3)),
    "dropped below the floor": ((set(), {1}, 4), [], 4, 9, None),
    "dropped and passed": ((set(), {1}, 4), [(1, 3, DONE)], 1, 9, None),
    "dropped and passed in part": ((set(), {1}, 4), [(1, 1, DONE)], 1, 9, ("overrun", 2, 3)),
    "dropped in somebody's hand": ((set(), {1}, 4), [(1, 3, HELD)], 1, 9, None),
    "dropped, with a hole behind": ((set(), {1, 4}, 5), [], 5, 9, ("hole", 5, 6)),
}  # fmt: skip


@pytest.mark.few(len(STOPS))
@pytest.mark.parametrize("name", STOPS)
def test_what_a_queue_cannot_get_past(twins: Twins, name: str) -> None:
    lost, notes, floor, events_max, said = STOPS[name]
    lengthen(twins)
    go_on(twins)
    for place in ELSEWHERE:
        note(twins, place, [(1, 2, DONE), (3, 12, DONE)])
    twins.conn.execute(
        "delete from gapless.outbox_message_t o using gapless.log_segment s"
        " where o.id = any (s.message_ids) and (s.topic_id, s.partition_id) <> (%s, 1)",
        [twins.topic_ids["orders"]],
    )
    lose(twins, *lost)
    note(twins, HERE, notes)
    put(twins, HERE, floor)
    ask = "select * from gapless.queue_missing(%s, 1, %s, %s)"
    params = [twins.topic_ids["orders"], twins.leases[HERE], events_max]
    assert twins.conn.execute(ask, params).fetchall() == ([said] if said else [])
    params[1] = twins.leases["billing", "orders", 1]
    assert twins.conn.execute(ask, params).fetchall() == [], "of an ordered group nothing is said"


COLUMNS = (
    "id, key, event_type, payload::text, headers::text, host_id, user_id, transaction_id, xid::text, created_ts,"
    " cause, correlation"
)


@pytest.mark.parametrize(("first", "last"), [(1, 8), (2, 5), (3, 4), (4, 4), (7, 8), (8, 8)])
def test_the_events_of_a_range(twins: Twins, first: int, last: int) -> None:
    topic_id = twins.topic_ids["orders"]
    twins.conn.execute("update gapless.log_segment set timeline = base_offset")
    lengthen(twins)
    ids = "select c_offset, message_id from gapless.read('orders', 1, %s, %s)"
    expected = [
        (n, 1 if n < 4 else 4 if n < 7 else 7, *row)
        for n, id_ in twins.conn.execute(ids, [first, last]).fetchall()
        for row in twins.conn.execute(
            f"select {COLUMNS} from gapless.outbox_message_t where id = %s", [id_]
        )
    ]
    ask = f"select c_offset, timeline, {COLUMNS} from gapless.range_events(%s, 1, %s, %s)"
    assert len(expected) == last - first + 1
    assert twins.conn.execute(ask, [topic_id, first, last]).fetchall() == expected
    lose(twins, {last})
    assert twins.refused(ask, [topic_id, first, last]) == (
        "GL410", (f"offsets {first} to {last} of partition 1 of topic id {topic_id} have only {last - first} events:"
        " gapless doctor says more"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        ("overrun", ("retention has dropped events that the group had not handled at offset 5:"
         " gapless skip sender/orders/1@5 continues without them")),
        ("hole", "events are missing in the log at offset 5: gapless skip sender/orders/1@5 continues without them"),
        ("beyond", ("the group is beyond the end of the log at offset 5: gapless seek sender/orders/1 --pause --yes,"
         " with --earliest or --latest, is needed")),
        ("idle", None), ("noted", None), (None, None),
    ],
)  # fmt: skip
def test_what_is_said_of_a_hole(twins: Twins, outcome: str | None, said: str | None) -> None:
    ask = "select gapless.refuse_hole('sender', %s, 1, %s, 5, 6)"
    params = [twins.topic_ids["orders"], outcome]
    if said is None:
        twins.conn.execute(ask, params)
        return
    assert twins.refused(ask, params) == ("GL410", f"sender/orders/1: {said}")


SKIP = "select * from gapless.skip_missing('sender', 'orders', %s, 1, %s)"
OPEN, HOLE = "due", "done"
# What is lost, noted, the floor, the offset that is named: first, last, missing; what is noted then, and the floor.
SKIPS: dict[str, tuple[Lost, Notes, int, int, tuple[int, int, int], Notes, int]] = {
    "the first of a block": (({5}, set(), 1), [], 1, 5, (5, 5, 1), [(5, 5, DONE)], 1),
    "within a block": (({7}, set(), 1), [], 1, 7, (7, 7, 1), [(5, 6, OPEN), (7, 7, DONE)], 1),
    "the last of a block": (({4}, set(), 1), [], 1, 4, (4, 4, 1), [(1, 3, OPEN), (4, 4, DONE)], 1),
    "behind what is done": (({7}, set(), 1), [(5, 5, DONE)], 1, 7, (7, 7, 1),
                            [(5, 5, DONE), (6, 6, OPEN), (7, 7, DONE)], 1),
    "right behind it": (({7}, set(), 1), [(5, 6, HELD)], 1, 7, (7, 7, 1), [(5, 6, HELD), (7, 7, DONE)], 1),
    "behind two": (({8}, set(), 1), [(5, 5, HELD), (6, 6, DONE)], 1, 8, (8, 8, 1),
                   [(5, 5, HELD), (6, 6, DONE), (7, 7, OPEN), (8, 8, DONE)], 1),
    "behind the floor": (({7}, set(), 1), [], 6, 7, (7, 7, 1), [(6, 6, OPEN), (7, 7, DONE)], 6),
    "at the floor": (({7}, set(), 1), [], 7, 7, (7, 7, 1), [], 8),
    "at the floor, and more is done": (({7}, set(), 1), [(8, 8, DONE)], 7, 7, (7, 7, 1), [], 9),
    "a segment": ((set(), {4}, 1), [], 1, 4, (4, 6, 3), [(1, 3, OPEN), (4, 6, DONE)], 1),
    "a segment, by its last": ((set(), {4}, 1), [], 1, 6, (4, 6, 3), [(1, 3, OPEN), (4, 6, DONE)], 1),
    "a segment around the floor": ((set(), {4}, 1), [], 5, 6, (5, 6, 2), [], 7),
    "two segments": ((set(), {4, 7}, 1), [], 1, 8, (4, 8, 5), [(1, 3, OPEN), (4, 8, DONE)], 1),
    "a segment and an event": (({7}, {4}, 1), [], 1, 7, (4, 7, 4), [(1, 3, OPEN), (4, 7, DONE)], 1),
    "an event and a segment": (({2, 3}, {4}, 1), [], 1, 3, (2, 6, 5), [(1, 1, OPEN), (2, 6, DONE)], 1),
    "of two holes one": (({2, 5}, set(), 1), [], 1, 5, (5, 5, 1), [(5, 5, DONE)], 1),
    "dropped": ((set(), {1}, 4), [], 1, 2, (1, 3, 3), [], 4),
    "dropped, above the floor": ((set(), {1}, 4), [], 2, 3, (2, 3, 2), [], 4),
    "a part is in hand": ((set(), {4}, 1), [(1, 3, DONE), (4, 4, HELD)], 1, 4, (4, 6, 2),
                          [(4, 4, HELD), (5, 6, DONE)], 4),
    "the middle is done": ((set(), {4}, 1), [(1, 3, HELD), (5, 5, DONE)], 1, 4, (4, 6, 2),
                           [(1, 3, HELD), (4, 4, DONE), (5, 5, DONE), (6, 6, DONE)], 1),
    "what is done reaches into it": ((set(), {4}, 1), [(1, 1, HELD), (2, 5, DONE)], 1, 5, (4, 6, 1),
                                     [(1, 1, HELD), (2, 5, DONE), (6, 6, DONE)], 1),
    "what is in hand reaches out": ((set(), {4}, 1), [(1, 3, DONE), (6, 8, HELD)], 1, 5, (4, 6, 2), [(6, 8, HELD)], 6),
    "something lapsed before it": (({3}, set(), 1), [(1, 2, DUE)], 1, 3, (3, 3, 1), [(1, 2, DUE), (3, 3, DONE)], 1),
    "something lapsed behind it": ((set(), {4}, 1), [(7, 8, DUE)], 4, 4, (4, 6, 3), [(7, 8, DUE)], 7),
    "something lapsed into it": ((set(), {4}, 1), [(1, 5, DUE)], 1, 4, (4, 6, 3), [(1, 3, DUE), (4, 6, DONE)], 1),
    "something lapsed out of it": ((set(), {4}, 1), [(1, 3, HELD), (4, 8, DUE)], 1, 4, (4, 6, 3),
                                   [(1, 3, HELD), (4, 6, DONE), (7, 8, DUE)], 1),
    "something lapsed across it": ((set(), {4}, 1), [(1, 2, DONE), (3, 8, DUE)], 1, 4, (4, 6, 3),
                                   [(3, 3, DUE), (4, 6, DONE), (7, 8, DUE)], 3),
    "all of it lapsed": (({5}, set(), 1), [(5, 5, DUE)], 1, 5, (5, 5, 1), [(5, 5, DONE)], 1),
    "two events, by the last": (({2, 3}, set(), 1), [], 1, 3, (2, 3, 2), [(1, 1, OPEN), (2, 3, DONE)], 1),
    "what is behind it is in hand": (({6}, set(), 1), [(7, 8, HELD)], 1, 6, (6, 6, 1),
                                     [(5, 5, OPEN), (6, 6, DONE), (7, 8, HELD)], 1),
    "something lapsed far behind it": (({5}, set(), 1), [(7, 8, DUE)], 1, 5, (5, 5, 1), [(5, 5, DONE), (7, 8, DUE)], 1),
    "something lapsed far before it": (({5}, set(), 1), [(1, 1, DUE), (2, 4, HELD)], 1, 5, (5, 5, 1),
                                       [(1, 1, DUE), (2, 4, HELD), (5, 5, DONE)], 1),
    "behind a block whose end is open": (({5}, set(), 1), [(1, 2, HELD)], 1, 5, (5, 5, 1), [(1, 2, HELD), (5, 5, DONE)], 1),
}  # fmt: skip


@pytest.mark.few(len(SKIPS))
@pytest.mark.parametrize("name", SKIPS)
def test_what_a_skip_of_a_queue_passes(twins: Twins, name: str) -> None:
    lost, notes, floor, c_offset, (first, last, missing), then, floor_then = SKIPS[name]
    for place in ELSEWHERE:
        note(twins, place, [(1, 1, DUE), (2, 5, DUE), (6, 8, DONE)])
    go_on(twins)
    note(twins, HERE, notes, tries=2)
    lose(twins, *lost)
    put(twins, HERE, floor)
    statement = "create temp table answer on commit drop as " + SKIP
    changed = twins.changes(statement, [twins.topic_ids["orders"], c_offset])
    answer = twins.conn.execute("select * from answer").fetchall()
    assert answer == [(first, last, missing, missing)]
    lease = twins.leases[HERE]
    ranges = noted(twins)
    assert [row[:3] for row in ranges] == then
    for row in ranges:
        old = [each for each in notes if each[0] <= row[0] and row[1] <= each[1]]
        is_gone = (
            row[2] == DONE and row[0] >= first and not [each for each in old if each[2] == DONE]
        )
        assert row[3:] == ((0, "skip") if is_gone or not old else (2, "who"))
    assert changed.pop("consumer_offsets sender orders 1", {}) == (
        {"next_offset": (floor, floor_then)} if floor_then > floor else {}
    )
    assert all(
        each.startswith((f"queue_range {lease} ", f"queue_floor {lease} ")) for each in changed
    )
    blocks = {block_lock(twins, (n - 1) // 4) for n in (first, last)}
    assert locks(twins) == {(7427003, lease, "ShareLock"), *blocks}


NOTHING = 'nothing that group "sender" has not passed is missing at offset {} of orders/1: there is no hole to skip'
PASSED = 'offsets {} to {} of orders/1 are missing, and group "sender" has passed them, or they are in hand'


@pytest.mark.parametrize(
    ("lost", "notes", "floor", "c_offset", "said"),
    [
        (NONE, [], 1, 5, NOTHING.format(5)),
        (({5}, set(), 1), [], 1, 4, NOTHING.format(4)),
        (({5}, set(), 1), [], 1, 6, NOTHING.format(6)),
        (({5}, set(), 1), [], 6, 5, NOTHING.format(5)),
        ((set(), {4}, 1), [], 5, 4, NOTHING.format(4)),
        ((set(), {7}, 1), [], 1, 7, NOTHING.format(7)),
        (({5}, set(), 1), [(5, 5, DONE)], 1, 5, PASSED.format(5, 5)),
        (({5}, set(), 1), [(5, 8, HELD)], 1, 5, PASSED.format(5, 5)),
        ((set(), {4}, 1), [(1, 5, DONE), (6, 6, HELD)], 1, 5, PASSED.format(4, 6)),
    ],
)  # fmt: skip
def test_when_there_is_nothing_to_skip(
    twins: Twins, lost: Lost, notes: Notes, floor: int, c_offset: int, said: str
) -> None:
    lose(twins, *lost)
    note(twins, HERE, notes)
    put(twins, HERE, floor)
    assert twins.refused(SKIP, [twins.topic_ids["orders"], c_offset]) == ("GL409", said)
