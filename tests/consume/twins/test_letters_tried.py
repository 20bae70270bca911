"""What a worker does with a unit that was set aside, from finding it due to its end: all rows, among twins."""

from typing import Any

import pytest

from support.letters import HERE, OTHER, TOKEN, Letters

MINE = "'billing', {orders}, 1, 5, {token}"
LETTER = f"dead_letter {HERE} 3"
LATER = "clock_timestamp() + interval '{} seconds'"
UNIT_3 = "where {here} and first_offset = 3"
ELSEWHERE = "where not ({here})"
# The epoch and the token of somebody who does not own the partition.
STRANGERS = [(4, TOKEN), (6, TOKEN), (5, OTHER)]
# What is so with unit 3 here alone, so that it is not to be handled; 7, and 3 elsewhere, are due.
NOT_DUE = ["parked", "dead", "redriven", "discarded", "later"]
PAUSED = ["'billing', 'orders'", "'billing', 'orders', 1"]
PAUSED_ELSEWHERE = ["'billing', 'orders', 2", "'mail', 'orders'", "'billing', 'other'"]


def not_due(letters: Letters, how: str) -> None:
    if how == "later":
        later = LATER.format(60)
        letters.run(f"update gapless.dead_letter set next_attempt_ts = {later} {UNIT_3}")
    else:
        letters.put(how, 3)


CLAIM = f"select * from gapless.claim_letter({MINE}, 3)"


@pytest.mark.parametrize("died", [True, False])
@pytest.mark.parametrize("parks", [True, False])
def test_a_unit_that_is_due_is_claimed(letters: Letters, died: bool, parks: bool) -> None:
    letters.run(
        f"update gapless.dead_letter set parks = {parks}, attempts = 4, last_offset = 5, timeline = 6,"
        f" died_ts = case when {died} then {{old}} end {UNIT_3}"
    )
    answer, changed = letters.changes(CLAIM)
    xid = letters.value("select pg_current_xact_id()::text")
    assert answer == ("claimed", xid, 5, 4, died, parks, 6)
    assert changed == {
        LETTER: {
            "state": ("waiting", "redriven"),
            "crashes": (1, 0),
            "next_attempt_ts": ("old", None),
            "closed_ts": (None, "0 s"),
        }
    }
    assert letters.value("select current_setting('gapless.chain')") == "open"


@pytest.mark.parametrize("how", NOT_DUE)
def test_one_that_is_not_due_is_gone(letters: Letters, how: str) -> None:
    letters.put("waiting", 1)
    not_due(letters, how)
    assert letters.changes(CLAIM) == (("gone", *[None] * 6), {})
    assert not letters.value("select current_setting('gapless.chain', true)")


@pytest.mark.parametrize(("epoch", "token"), STRANGERS)
def test_a_stranger_does_nothing(letters: Letters, epoch: int, token: str) -> None:
    fence = f"'billing', {{orders}}, 1, {epoch}, '{token}'"
    calls: dict[str, Any] = {
        f"select * from gapless.claim_letter({fence}, 3)": ("fenced", *[None] * 6),
        f"select gapless.record_try({fence}, 3)": None,
        f"select gapless.letter_failed({fence}, 3, 'dead', 'r', 'e')": False,
        f"select gapless.forget_try({fence}, 3)": None,
        f"select gapless.narrow_letter({fence}, 3, '{{{{2}}}}')": None,
    }
    for call, answer in calls.items():
        assert letters.changes(call) == (answer, {}), call


@pytest.mark.parametrize(
    ("setting", "statement"),
    [
        ("gapless.chain", f"gapless.claim_letter({MINE}, 3)"),
        ("gapless.cause", "gapless.tell_cause('why', null)"),
        ("gapless.correlation", "gapless.tell_cause('why', gen_random_uuid())"),
        ("gapless.chain", "gapless.close_chain(1)"),
        ("gapless.cause", "gapless.tell_cause('why', null), gapless.close_chain(2)"),
    ],
)
def test_what_is_said_of_a_transaction_ends_with_it(
    letters: Letters, setting: str, statement: str
) -> None:
    assert letters.lasting(setting, statement) == "outer"


FINISH = "select gapless.finish_letter('billing', {{orders}}, 1, 3, {})"
FOLLOWS = {"state": ("parked", "waiting"), "next_attempt_ts": (None, "0 s")}


def claimed(letters: Letters) -> str:
    letters.keys({1: "x", 3: "ab", 4: "b", 7: "a"})
    letters.rows(CLAIM)
    return f"'{letters.value('select pg_current_xact_id()::text')}'"


def test_of_a_unit_that_only_waited_nothing_is_kept(letters: Letters) -> None:
    """And who was parked behind it follows."""
    xid = claimed(letters)
    answer, changed = letters.changes(FINISH.format(xid))
    assert answer is True
    assert list(changed) == [
        f"dead_letter {HERE} 3", f"dead_letter {HERE} 4", f"dead_letter_event {HERE} 3",
        f"dead_letter_key {HERE} a 3", f"dead_letter_key {HERE} b 3", "guard_keys billing orders",
    ]  # fmt: skip
    assert changed[f"dead_letter {HERE} 4"] == FOLLOWS
    for gone in (f"dead_letter {HERE} 3", f"dead_letter_event {HERE} 3"):
        assert changed[gone]["first_offset"] == (3, None)
    said = letters.rows(
        "select current_setting('gapless.finished'), current_setting('gapless.chain')"
    )
    assert said == [(xid.strip("'"), "closed")]


def test_one_that_was_dead_stays_as_redriven(letters: Letters) -> None:
    letters.run(f"update gapless.dead_letter set died_ts = {{old}} {UNIT_3}")
    answer, changed = letters.changes(FINISH.format(claimed(letters)))
    assert answer is True
    assert list(changed) == [
        f"dead_letter {HERE} 4", f"dead_letter_key {HERE} a 3", f"dead_letter_key {HERE} b 3",
        "guard_keys billing orders",
    ]  # fmt: skip
    assert changed[f"dead_letter {HERE} 4"] == FOLLOWS


@pytest.mark.parametrize("xid", ["'1'", "null"])
def test_another_transaction_finishes_nothing(letters: Letters, xid: str) -> None:
    claimed(letters)
    assert letters.changes(FINISH.format(xid)) == (False, {})


def test_an_event_that_is_of_a_later_unit_by_now_stays(letters: Letters) -> None:
    letters.run("update gapless.dead_letter_event set first_offset = 5 where c_offset = 5")
    _, changed = letters.changes("select gapless.close_letter('billing', {orders}, 1, 4)")
    assert list(changed) == [
        f"dead_letter {HERE} 4", f"dead_letter_event {HERE} 4", f"dead_letter_event {HERE} 6"
    ]  # fmt: skip


TRY = f"select gapless.record_try({MINE}, 3)"
UNTRY = f"select gapless.forget_try({MINE}, 3)"


def test_a_try_is_counted_and_taken_back(letters: Letters) -> None:
    assert letters.changes(TRY) == (2, {LETTER: {"crashes": (1, 2)}})
    assert letters.changes(UNTRY) == (None, {LETTER: {"crashes": (2, 1)}})
    assert letters.changes(UNTRY) == (None, {LETTER: {"crashes": (1, 0)}})
    assert letters.changes(UNTRY) == (None, {})
    assert letters.changes(TRY) == (1, {LETTER: {"crashes": (0, 1)}})


@pytest.mark.parametrize("how", NOT_DUE)
def test_no_try_of_what_is_not_due(letters: Letters, how: str) -> None:
    letters.put("waiting", 1)
    not_due(letters, how)
    assert letters.changes(TRY) == (0, {})
    taken_back = {LETTER: {"crashes": (1, 0)}} if how == "later" else {}
    assert letters.changes(UNTRY) == (None, taken_back)


DUE = "select * from gapless.letters_due('billing', {orders}, 1)"
BOTH = [(3, 0.0), (7, 0.0)]


@pytest.mark.parametrize("pause", PAUSED + PAUSED_ELSEWHERE)
def test_nothing_of_a_paused_partition_is_tried(letters: Letters, pause: str) -> None:
    letters.run(f"select gapless.pause({pause})")
    is_paused = pause in PAUSED
    assert letters.rows(DUE) == ([] if is_paused else BOTH)
    assert letters.value(TRY) == (0 if is_paused else 2)


# What is so here, with what waits elsewhere due; what is due then, or the time until something is.
WHAT_IS_DUE: dict[str, tuple[str, list[Any]]] = {
    "both": ("", BOTH),
    "lowest offset first": (
        "update gapless.dead_letter set next_attempt_ts = {old} - interval '1 day' where first_offset = 7", BOTH
    ),
    "one later": (f"update gapless.dead_letter set next_attempt_ts = {LATER.format(5)} {UNIT_3}", BOTH[1:]),
    "both later": (
        (f"update gapless.dead_letter set next_attempt_ts = case first_offset when 3 then {LATER.format(3600)}"
        f" else {LATER.format(60)} end where {{here}} and state = 'waiting'"),
        [(None, 60)],
    ),
    "nothing waits": (
        "update gapless.dead_letter set state = 'dead', next_attempt_ts = null where {here} and state = 'waiting'", []
    ),
    "only here": (
        f"update gapless.dead_letter set next_attempt_ts = {LATER.format(9)} {ELSEWHERE} and state = 'waiting'", BOTH
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WHAT_IS_DUE)
def test_what_is_due(letters: Letters, name: str) -> None:
    statement, due = WHAT_IS_DUE[name]
    letters.run(statement)
    rows = letters.rows(DUE)
    if due and due[0][0] is None:
        ((offset, wait_s),) = rows
        assert offset is None
        assert 55 < wait_s <= 60
    else:
        assert rows == due


def test_no_more_are_due_than_were_asked_for(letters: Letters) -> None:
    assert letters.rows(DUE.replace("1)", "1, 1)")) == BOTH[:1]
