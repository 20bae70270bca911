"""An answer for a receipt, where everything else has the same token: which rows change, and how."""

from typing import Any

import pytest

from features.queue.twins.answers import CALLS, OTHER, TOKEN
from support.twin_queues import (
    DUE,
    ELSEWHERE,
    HELD,
    HERE,
    Notes,
    letter,
    letters,
    note,
    noted,
)
from support.twins import Twins

Pieces = list[tuple[int, int, bool]]  # first and last offset; whether they are answered for


def call(twins: Twins, how: str, receipt: str, c_offset: int | None = None) -> tuple[Any, Any]:
    """What it answers, and what it changes."""
    text = CALLS[how][0]
    given = [f"'{receipt}'", str(c_offset or "null")]
    arguments = given if "{0}" in text else [", ".join(given)]
    changed = twins.changes(
        f"create temp table answer on commit drop as select gapless.{text.format(*arguments)} as said"
    )
    return twins.value("select said from answer"), changed


@pytest.fixture
def same(twins: Twins) -> Twins:
    """Everywhere else 1 to 4 are in hand, and 5 and 6 units under a receipt, all with one token."""
    for place in ELSEWHERE:
        note(twins, place, [(1, 4, HELD)], tries=3)
        for first in (5, 6):
            letter(twins, place, first, token=TOKEN, crashes=2)
    twins.conn.execute("update gapless.queue_range set token = %s", [TOKEN])
    return twins


# What is noted with the token, what with another; receipt; offset: which pieces are there then, answered for or not.
RANGES: dict[str, tuple[Notes, Notes, tuple[int, int], int | None, Pieces]] = {
    "all": ([(1, 4, HELD)], [], (1, 4), None, [(1, 4, True)]),
    "the first": ([(1, 4, HELD)], [], (1, 4), 1, [(1, 1, True), (2, 4, False)]),
    "one between": ([(1, 4, HELD)], [], (1, 4), 3, [(1, 2, False), (3, 3, True), (4, 4, False)]),
    "the last": ([(1, 4, HELD)], [], (1, 4), 4, [(1, 3, False), (4, 4, True)]),
    "the only": ([(2, 2, HELD)], [], (2, 2), 2, [(2, 2, True)]),
    "those of the receipt": (
        [(1, 2, HELD), (3, 4, HELD), (5, 6, HELD)], [], (3, 4), None, [(1, 2, False), (3, 4, True), (5, 6, False)],
    ),
    "one of those": (
        [(1, 2, HELD), (3, 4, HELD), (5, 6, HELD)], [], (3, 4), 4,
        [(1, 2, False), (3, 3, False), (4, 4, True), (5, 6, False)],
    ),
    "what is left": ([(1, 1, HELD), (3, 4, HELD)], [(2, 2, HELD)], (1, 4), None,
                     [(1, 1, True), (2, 2, False), (3, 4, True)]),
    "one of what is left": ([(1, 1, HELD), (3, 4, HELD)], [(2, 2, HELD)], (1, 4), 3,
                            [(1, 1, False), (2, 2, False), (3, 3, True), (4, 4, False)]),
    "what is late": ([(1, 4, DUE)], [], (1, 4), None, [(1, 4, True)]),
}  # fmt: skip


def are_aside(twins: Twins, events: list[int], *, is_counted: bool) -> None:
    """What is set aside by an answer that failed: a unit each, due in an hour, or for good."""
    columns = (
        "first_offset, last_offset, state, attempts, reason, exception, exception_class, sqlstate, worker,"
        " duration_ms"
    )
    more = ("ValueError", "22000", "me", 12.5) if is_counted else (None, None, "me", None)
    state = "waiting" if is_counted else "dead"
    assert letters(twins, HERE, columns) == [
        (n, n, state, int(is_counted), "bad", "trace", *more) for n in events
    ]
    due = letters(twins, HERE, "next_attempt_ts - now() between '59 min' and '61 min'")
    assert due == [(True if is_counted else None,)] * len(events)


@pytest.mark.few(12)
@pytest.mark.parametrize("how", CALLS)
@pytest.mark.parametrize("name", RANGES)
def test_an_answer_counts_for_what_the_receipt_holds(same: Twins, name: str, how: str) -> None:
    ours, others, (first, last), c_offset, then = RANGES[name]
    lease = same.leases[HERE]
    note(same, HERE, ours, tries=3)
    same.conn.execute(
        "update gapless.queue_range set token = %s where lease_no = %s", [TOKEN, lease]
    )
    note(same, HERE, others, tries=3)
    answer, changed = call(same, how, f"R{lease}:{first}:{last}:{TOKEN}", c_offset)
    is_due = (DUE if ours[0][2] == DUE else HELD, 3, "who")
    state = CALLS[how][1]
    if state[2] == "session":
        state = (*state[:2], same.value("select session_user::text"))
    assert noted(same) == [(n, m, *(state if is_it else is_due)) for n, m, is_it in then]
    events = [n for begin, end, is_it in then if is_it for n in range(begin, end + 1)]
    tokens = same.conn.execute(
        "select first_offset, token::text from gapless.queue_range where lease_no = %s and token is not null",
        [lease],
    ).fetchall()
    kept = {n: TOKEN for n, _, is_it in then if not is_it or how == "extend"} | dict.fromkeys(
        (n for n, *_ in others), OTHER
    )
    assert {n: TOKEN if t == TOKEN else OTHER for n, t in tokens} == kept
    names = {f"queue_range {lease} {n}" for n, *_ in then}
    asides = {
        f"{table} sender orders 1 {n}"
        for n in events
        for table in ("dead_letter", "dead_letter_event")
    }
    rest = {each for each in changed if each not in names}
    assert rest == (asides if how.startswith("fail") else set())
    if how == "extend":
        late = same.value("select count(*) from gapless.queue_range where deadline between now() + interval '1 h'"
                          " and clock_timestamp() + interval '2 h'")  # fmt: skip
        assert late == len([None for *_, is_it in then if is_it])
        assert (
            same.value("select %s::timestamptz - now() between '119 min' and '121 min'", answer)
            is True
        )
    elif how == "begin":
        assert answer == same.value("select pg_current_xact_id()::text")
        assert same.value("select current_setting('gapless.chain')") == "open"
    else:
        assert answer == len(events)
    if how.startswith("fail"):
        are_aside(same, events, is_counted=how == "fail")


@pytest.mark.few(5)
@pytest.mark.parametrize("how", CALLS)
@pytest.mark.parametrize(
    ("span", "token", "c_offset"),
    [
        ("3:4", TOKEN, 2), ("1:4", OTHER, None), ("7:8", TOKEN, None), ("1:2", OTHER, 1),
        ("2:4", TOKEN, 7),
    ],
)  # fmt: skip
def test_a_receipt_that_holds_nothing(
    same: Twins, how: str, span: str, token: str, c_offset: int | None
) -> None:
    """Though the token is that of neighbours, or the offsets are others'."""
    lease = same.leases[HERE]
    note(same, HERE, [(1, 2, HELD), (3, 4, HELD), (5, 6, HELD)])
    same.conn.execute(
        "update gapless.queue_range set token = %s where lease_no = %s", [TOKEN, lease]
    )
    receipt = f"R{lease}:{span}:{token}"
    given = f"'{receipt}', {c_offset or 'null'}"
    text = CALLS[how][0]
    arguments = given.split(", ") if "{0}" in text else [given]
    assert same.refused(f"select gapless.{text.format(*arguments)}") == (
        "GL003", f"the receipt counts no more: another took the events, or they were answered for ({receipt})",
    )  # fmt: skip


COLUMNS = (
    "state, attempts, crashes, token::text, reason, exception, exception_class, sqlstate, worker, duration_ms,"
    " died_ts is null, closed_ts is null"
)
WAS = ("waiting", 2, 2, TOKEN, "why", "trace", "ValueError", "22000", "who", None, True, True)
FAILED: dict[str, tuple[Any, ...]] = {
    "release": (*WAS[:2], 1, None, *WAS[4:]),
    "extend": WAS,
    "fail": ("waiting", 3, 0, None, "bad", "trace", "ValueError", "22000", "me", 12.5, True, True),
    "fail for good": ("dead", 2, 0, None, "bad", "trace", None, None, "me", None, False, True),
}


@pytest.mark.parametrize("how", CALLS)
@pytest.mark.parametrize("was_dead", [False, True])
def test_an_answer_counts_for_the_unit(same: Twins, how: str, was_dead: bool) -> None:
    lease = same.leases[HERE]
    for first in (5, 6):
        letter(
            same, HERE, first, token=TOKEN, crashes=2, died_ts="2001-01-01" if was_dead else None
        )
    answer, changed = call(same, how, f"L{lease}:5:5:{TOKEN}")
    assert {each for each in changed if not each.startswith("dead_letter_event")} == {
        "dead_letter sender orders 1 5"
    }
    events = {each for each in changed if each.startswith("dead_letter_event")}
    is_closed = how in {"acknowledge", "begin"}
    assert events == (
        {"dead_letter_event sender orders 1 5"} if is_closed and not was_dead else set()
    )
    row, neighbour = ([None] * 2 + letters(same, HERE, COLUMNS))[-2:]
    expected = FAILED.get(how)
    if is_closed and was_dead:
        token = TOKEN if how == "acknowledge" else None
        expected = ("redriven", 2, 0, token, *WAS[4:10], False, False)
    elif expected and was_dead:
        expected = (*expected[:10], False, expected[11])
    assert neighbour == (*WAS[:10], not was_dead, True)
    assert row == expected
    due = letters(
        same,
        HERE,
        "next_attempt_ts - now() between '-1 s' and '1 min', next_attempt_ts - now() > '59 min'",
    )
    assert due[0][:2] == {
        "release": (True, False), "extend": (False, True), "fail": (False, True), "fail for good": (None, None),
    }.get(how, (None, None) if was_dead else (False, False))  # fmt: skip
    if how == "extend":
        assert (
            same.value("select %s::timestamptz - now() between '119 min' and '121 min'", answer)
            is True
        )
    elif how != "begin":
        assert answer == 1


@pytest.mark.few(5)
@pytest.mark.parametrize("how", CALLS)
@pytest.mark.parametrize("state", ["parked", "dead", "redriven", "discarded"])
def test_a_unit_that_waits_no_more_is_nobody_s(same: Twins, how: str, state: str) -> None:
    letter(same, HERE, 5, token=TOKEN, state=state)
    receipt = f"L{same.leases[HERE]}:5:5:{TOKEN}"
    text = CALLS[how][0]
    given = [f"'{receipt}'", "null"] if "{0}" in text else [f"'{receipt}', null"]
    assert same.refused(f"select gapless.{text.format(*given)}")[0] == "GL003"


@pytest.mark.parametrize(
    ("state", "attempts", "retry", "times"),
    [
        ("waiting", 0, "'1 h'", (True, False, True)), ("waiting", 2, "null", (False, True, True)),
        ("dead", 0, "'1 h'", (True, None, False)), ("dead", 1, "null", (False, None, False)),
    ],
)  # fmt: skip
def test_when_a_unit_failed(
    twins: Twins, state: str, attempts: int, retry: str, times: tuple[bool, bool | None, bool]
) -> None:
    """First, that is with its first attempt; last, and for good."""
    letter(twins, HERE, 5, token=TOKEN, attempts=attempts, crashes=1)
    twins.conn.execute(
        "update gapless.dead_letter set first_failed_ts = '2001-01-01', last_failed_ts = '2001-01-01',"
        " died_ts = '2001-01-01'"
    )
    receipt = f"L{twins.leases[HERE]}:5:5:{TOKEN}"
    twins.conn.execute(
        f"select gapless.fail_receipt('{receipt}', null, '{state}', 'bad', 'trace', _retry_after => {retry})"
    )
    (row,) = letters(
        twins, HERE, "first_failed_ts > '2002-01-01', next_attempt_ts <= clock_timestamp(), died_ts < '2002-01-01',"
        " last_failed_ts > '2002-01-01', attempts",
    )  # fmt: skip
    assert row == (*times, True, attempts + 1)


def test_tries_do_not_go_below_none(twins: Twins) -> None:
    note(twins, HERE, [(1, 1, HELD)], tries=0)
    letter(twins, HERE, 5, token=TOKEN, crashes=0)
    twins.conn.execute("update gapless.queue_range set token = %s", [TOKEN])
    lease = twins.leases[HERE]
    for receipt in (f"R{lease}:1:1:{TOKEN}", f"L{lease}:5:5:{TOKEN}"):
        assert twins.value("select gapless.release_receipt(%s)", receipt) == 1
    assert noted(twins) == [(1, 1, DUE, 0, "who")]
    assert letters(twins, HERE, "crashes") == [(0,)]


@pytest.mark.parametrize(
    ("group", "topic", "said"),
    [("auditor", "orders", True), ("sender", "other", True), ("auditor", "other", True), ("sender", "orders", False)],
)  # fmt: skip
def test_a_receipt_is_given_with_its_own_group_and_topic(
    same: Twins, group: str, topic: str, said: bool
) -> None:
    receipt = f"R{same.leases['sender', 'orders', 2]}:1:4:{TOKEN}"
    check = "select gapless.check_receipt(%s, %s, %s)"
    text = f'the receipt is not of group "{group}" and topic "{topic}": give those that it was taken with'
    if said:
        assert same.refused(check, [group, topic, receipt]) == ("GL400", text)
    else:
        same.conn.execute(check, [group, topic, receipt])
