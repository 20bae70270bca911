"""What reserve() and take() give out, in which order, and what they note: of this partition, group and topic alone."""

from typing import Any

import pytest

from support.twin_queues import (
    DONE,
    DUE,
    ELSEWHERE,
    HELD,
    HERE,
    Notes,
    letter,
    letters,
    lose,
    note,
    noted,
    put,
)
from support.twins import Twins

ASIDE = "select * from gapless.reserve_aside('sender', %s, 1, %s, %s, 'me', '2199-01-01', %s)"
ALONE = "select * from gapless.reserve_open('sender', %s, 1, %s, 4, %s, 'me', '2199-01-01')"
EVENTS = (
    "select o.id, o.key, o.event_type, o.payload, o.headers, o.host_id, o.user_id, o.transaction_id, o.xid,"
    " o.created_ts, o.cause, o.correlation from gapless.read('orders', 1, %s, %s) r"
    " join gapless.outbox_message_t o on o.id = r.message_id order by r.c_offset"
)
LAPSED = "given out {} times without an answer: its worker died, or was too slow"
EVENT = 9  # the first column of an event
Given = list[tuple[Any, ...]]


@pytest.fixture
def busy(twins: Twins) -> Twins:
    """Elsewhere something is finished, in hand and due, and letters wait."""
    for place in ELSEWHERE:
        note(twins, place, [(1, 2, DONE), (3, 3, DUE), (4, 7, HELD)])
        for first in (2, 8):
            letter(twins, place, first, next_attempt_ts="2000-01-01", crashes=1)
    return twins


def elsewhere(twins: Twins) -> list[object]:
    """All that is noted of others."""
    return [
        (noted(twins, each), letters(twins, each, "first_offset, state, crashes, reason"))
        for each in ELSEWHERE
    ]


def aside(twins: Twins, most: int = 4, crashes_max: int | None = None) -> Given:
    params = [twins.topic_ids["orders"], twins.leases[HERE], most, crashes_max]
    return twins.conn.execute(ASIDE, params).fetchall()


def token(twins: Twins, table: str, first: int) -> str:
    where = twins.here("sender") if table == "dead_letter" else f"lease_no = {twins.leases[HERE]}"
    return str(
        twins.value(f"select token from gapless.{table} where {where} and first_offset = {first}")
    )


# What is noted, where the floor is, how many at most: what is given out.
OPEN: dict[str, tuple[Notes, int, int, tuple[int, int] | None]] = {
    "the first block": ([], 1, 4, (1, 4)),
    "some of it": ([], 1, 2, (1, 2)),
    "from the floor": ([], 6, 4, (6, 8)),
    "behind what is in hand": ([(1, 4, HELD)], 1, 4, (5, 8)),
    "behind what is due": ([(1, 2, DUE)], 1, 4, (3, 4)),
    "a gap, when nothing is behind": ([(1, 2, DONE), (5, 8, HELD)], 1, 4, (3, 4)),
    "what is behind a gap first": ([(1, 2, DONE), (5, 6, HELD)], 1, 4, (7, 8)),
    "nothing": ([(1, 4, DUE), (5, 8, HELD)], 1, 4, None),
    "nothing at the end": ([], 9, 4, None),
}


@pytest.mark.few(len(OPEN))
@pytest.mark.parametrize("name", OPEN)
def test_what_nobody_has_taken_yet(busy: Twins, name: str) -> None:
    notes, floor, most, taken = OPEN[name]
    note(busy, HERE, notes)
    put(busy, HERE, floor)
    before = noted(busy)
    params = [busy.topic_ids["orders"], busy.leases[HERE], most]
    statement = "create temp table answer on commit drop as " + ALONE
    changed = busy.changes(statement, params)
    rows = busy.conn.execute("select * from answer order by c_offset").fetchall()
    if taken is None:
        assert (rows, changed) == ([], {})
        return
    first, last = taken
    lease = busy.leases[HERE]
    assert list(changed) == [f"queue_range {lease} {first}"]
    assert set(noted(busy)) - set(before) == {(first, last, HELD, 1, "me")}
    receipt = f"R{lease}:{first}:{last}:{token(busy, 'queue_range', first)}"
    timeline = busy.value("select gapless.timeline()")
    until = busy.value("select timestamptz '2199-01-01'")
    events = busy.conn.execute(EVENTS, [first, last]).fetchall()
    assert rows == [
        (receipt, 1, first + n, 0, 1, False, False, timeline, until, *event)
        for n, event in enumerate(events)
    ]


def test_an_event_that_is_missing_is_said_so(busy: Twins) -> None:
    lose(busy, {3})
    topic_id = busy.topic_ids["orders"]
    said = f"the event at offset 3 of partition 1 of topic id {topic_id} is missing: gapless doctor says more"
    assert busy.refused(ALONE, [topic_id, busy.leases[HERE], 4]) == ("GL410", said)
    lose(busy, segments={1})
    state, text = busy.refused(ALONE, [topic_id, busy.leases[HERE], 4])
    assert (state, text[:50]) == (
        "GL410",
        "sender/orders/1: events are missing in the log at o"[:50],
    )


# Letters: the first offset, when they are due, their state; which is given out.
LETTERS: dict[str, tuple[list[tuple[int, str, str]], int | None]] = {
    "the one that is due": ([(2, "-1 s", "waiting")], 2),
    "the one that was due first": ([(2, "-1 s", "waiting"), (5, "-9 s", "waiting"), (6, "-5 s", "waiting")], 5),
    "the first of two": ([(5, "-9 s", "waiting"), (3, "-9 s", "waiting")], 3),
    "one that is not due": ([(2, "1 h", "waiting")], None),
    "one of two": ([(2, "1 h", "waiting"), (3, "-1 s", "waiting")], 3),
    "one that is dead": ([(2, "", "dead")], None),
    "one that is parked": ([(2, "", "parked")], None),
    "dead ones and another": ([(2, "", "dead"), (3, "", "discarded"), (4, "-1 s", "waiting")], 4),
}  # fmt: skip


@pytest.mark.few(len(LETTERS))
@pytest.mark.parametrize("name", LETTERS)
def test_which_letter_is_tried_again(busy: Twins, name: str) -> None:
    """It has so many attempts and crashes as it has, and one more of these."""
    given, first = LETTERS[name]
    for n, wait, state in given:
        letter(busy, HERE, n, state=state, crashes=2)
        if wait:
            busy.conn.execute(
                f"update gapless.dead_letter set next_attempt_ts = now() + interval '{wait}'"
                f" where {busy.here('sender')} and first_offset = {n}"
            )
    statement = "create temp table answer on commit drop as " + ASIDE
    changed = busy.changes(statement, [busy.topic_ids["orders"], busy.leases[HERE], 4, None])
    rows = busy.conn.execute("select * from answer").fetchall()
    if first is None:
        assert (rows, changed) == ([], {})
        return
    (row,) = rows
    new = token(busy, "dead_letter", first)
    assert changed == {
        f"dead_letter sender orders 1 {first}": {
            "token": (None, new), "worker": ("who", "me"), "crashes": (2, 3),
        }
    }  # fmt: skip
    until = busy.value("select timestamptz '2199-01-01'")
    assert letters(busy, HERE, "next_attempt_ts")[sorted(n for n, *_ in given).index(first)] == (
        until,
    )
    timeline = busy.value("select gapless.timeline()")
    receipt = f"L{busy.leases[HERE]}:{first}:{first}:{new}"
    assert row[:EVENT] == (receipt, 1, first, 2, 3, True, False, timeline, until)
    (event,) = busy.conn.execute(EVENTS, [first, first]).fetchall()
    assert (*row[EVENT:16], *row[18:]) == (*event[:7], *event[9:])
    assert row[16] == (
        busy.value("select gapless.transaction_uuid(%s::xid8, %s)", event[8], timeline)
    )
    assert str(row[17]) == "0"


def test_a_unit_comes_with_all_its_events_and_no_other_s(busy: Twins) -> None:
    letter(busy, HERE, 4, 6, died_ts="2001-01-01", timeline=77, crashes=0)
    letter(busy, HERE, 7, next_attempt_ts="2199-01-01")
    letter(busy, HERE, 3, next_attempt_ts="2199-01-01")
    rows = aside(busy)
    assert [row[1:8] for row in rows] == [(1, n, 2, 1, True, True, 77) for n in (4, 5, 6)]
    assert {row[0].rsplit(":", 1)[0] for row in rows} == {f"L{busy.leases[HERE]}:4:6"}
    busy.conn.execute(
        "update gapless.dead_letter set next_attempt_ts = now() where first_offset = 4"
    )
    busy.conn.execute(
        "update gapless.dead_letter_event set first_offset = 5 where c_offset = 5 and partition_id = 1"
    )
    assert [row[2] for row in aside(busy)] == [4, 6]


@pytest.mark.parametrize(
    ("crashes", "crashes_max", "is_dead"),
    [(3, 3, True), (2, 3, False), (4, 3, True), (9, None, False)],
)
def test_a_letter_that_crashed_too_often(
    busy: Twins, crashes: int, crashes_max: int | None, is_dead: bool
) -> None:
    """It is dead, and the next one comes."""
    letter(busy, HERE, 2, crashes=crashes, token="11111111-1111-1111-1111-111111111111")
    letter(busy, HERE, 3, crashes=1)
    others = elsewhere(busy)
    before = letters(busy, HERE, "reason, exception, last_failed_ts, died_ts")
    rows = aside(busy, crashes_max=crashes_max)
    assert [(row[2], row[4]) for row in rows] == [(3, 2) if is_dead else (2, crashes + 1)]
    first = letters(
        busy,
        HERE,
        "state, crashes, token is null, next_attempt_ts is null, reason, exception, attempts",
    )[0]
    reason = LAPSED.format(crashes)
    assert first == (
        ("dead", crashes, True, True, reason, "trace", 2) if is_dead
        else ("waiting", crashes + 1, False, False, "why", "trace", 2)
    )  # fmt: skip
    after = letters(busy, HERE, "reason, exception, last_failed_ts, died_ts")
    assert (after[0][3] is not None) is (after[0][2] > before[0][2]) is is_dead
    assert after[1] == before[1]
    assert elsewhere(busy) == others


# What is noted, how often it was given out, the floor, how many at most; what is given out, and what is noted then.
BACK: dict[str, tuple[Notes, int, int, int, tuple[int, int] | None, Notes]] = {
    "given back": ([(1, 4, DUE)], 0, 1, 4, (1, 4), [(1, 4, HELD)]),
    "some of it": ([(1, 4, DUE)], 0, 1, 3, (1, 3), [(1, 3, HELD), (4, 4, DUE)]),
    "more than there is": ([(1, 4, DUE)], 0, 1, 5, (1, 4), [(1, 4, HELD)]),
    "lapsed": ([(1, 4, DUE)], 1, 1, 4, (1, 1), [(1, 1, HELD), (2, 4, DUE)]),
    "lapsed alone": ([(4, 4, DUE)], 2, 1, 4, (4, 4), [(4, 4, HELD)]),
    "lapsed very often": ([(4, 4, DUE)], 32000, 1, 4, (4, 4), [(4, 4, HELD)]),
    "the first": ([(1, 1, HELD), (2, 3, DONE), (5, 5, DUE), (6, 6, DUE)], 0, 1, 4, (5, 5),
                  [(1, 1, HELD), (2, 3, DONE), (5, 5, HELD), (6, 6, DUE)]),
    "at the floor": ([(2, 3, DUE), (4, 4, DUE)], 0, 2, 4, (2, 3), [(2, 3, HELD), (4, 4, DUE)]),
    "above the floor": ([(2, 3, DUE), (4, 4, DUE)], 0, 3, 4, (4, 4), [(2, 3, DUE), (4, 4, HELD)]),
    "in hand": ([(1, 1, HELD), (2, 3, DONE)], 0, 1, 4, None, [(1, 1, HELD), (2, 3, DONE)]),
}  # fmt: skip


@pytest.mark.few(len(BACK))
@pytest.mark.parametrize("name", BACK)
def test_which_range_comes_back(busy: Twins, name: str) -> None:
    notes, tries, floor, most, taken, then = BACK[name]
    note(busy, HERE, notes, tries=tries)
    put(busy, HERE, floor)
    statement = "create temp table answer on commit drop as " + ASIDE
    changed = busy.changes(statement, [busy.topic_ids["orders"], busy.leases[HERE], most, None])
    rows = busy.conn.execute("select * from answer order by c_offset").fetchall()
    ranges = noted(busy)
    assert [row[:3] for row in ranges] == then
    lease = busy.leases[HERE]
    if taken is None:
        assert (rows, changed) == ([], {})
        return
    first, last = taken
    names = {f"queue_range {lease} {n}" for n, _, _ in then}
    assert set(changed) == {f"queue_range {lease} {first}"} | (
        {f"queue_range {lease} {last + 1}"} if len(then) > len(notes) else set()
    ) <= names  # fmt: skip
    given = min(tries + 1, 32000)
    assert {row[3:] for row in ranges if row[0] == first} == {(given, "me")}
    assert {row[3:] for row in ranges if row[0] != first} <= {(tries, "who")}
    until = busy.value("select timestamptz '2199-01-01'")
    receipt = f"R{lease}:{first}:{last}:{token(busy, 'queue_range', first)}"
    timeline = busy.value("select gapless.timeline()")
    events = busy.conn.execute(EVENTS, [first, last]).fetchall()
    assert rows == [
        (receipt, 1, first + n, 0, tries + 1, False, False, timeline, until, *event)
        for n, event in enumerate(events)
    ]


@pytest.mark.parametrize(
    ("tries", "crashes_max", "is_dead"),
    [(3, 3, True), (2, 3, False), (4, 3, True), (9, None, False)],
)
def test_a_range_that_was_given_out_too_often(
    busy: Twins, tries: int, crashes_max: int | None, is_dead: bool
) -> None:
    """Its first event is dead, and so is each of the others when its turn comes; who had it last is said."""
    note(busy, HERE, [(1, 2, DUE)], tries=tries, holder=None)
    note(busy, HERE, [(5, 6, DUE)], tries=1)
    busy.conn.execute(
        "update gapless.queue_range set token = gen_random_uuid() where deadline < now()"
    )
    others = elsewhere(busy)
    rows = aside(busy, crashes_max=crashes_max)
    assert [(row[2], row[4]) for row in rows] == [(5, 2) if is_dead else (1, tries + 1)]
    left = [(5, 5, HELD, 2, "me"), (6, 6, DUE, 1, "who")]
    assert noted(busy) == (
        [(1, 1, DONE, tries, ""), (2, 2, DONE, tries, ""), *left] if is_dead
        else [(1, 1, HELD, tries + 1, "me"), (2, 2, DUE, tries, None), (5, 6, DUE, 1, "who")]
    )  # fmt: skip
    reason = LAPSED.format(tries)
    columns = "first_offset, last_offset, state, attempts, crashes, reason, exception, worker"
    assert letters(busy, HERE, columns) == (
        [(n, n, "dead", tries, 0, reason, reason, None) for n in (1, 2)] if is_dead else []
    )
    assert not busy.conn.execute(
        "select from gapless.queue_range where deadline is null and token is not null"
    ).fetchall()
    assert elsewhere(busy) == others
