"""deliver_units_again(): which units come from the dead letter queue, in order, and what is noted of each."""

from typing import Any

import pytest

from support.staff import Staff
from support.twins import Changes

AGAIN = (
    "select c_offset, first_offset, last_offset, attempt, key, event_type, payload::text, headers, host_id, user_id,"
    " transaction_id, created_ts from gapless.deliver_units_again('billing', %s, 1, 1, %s, %s, %s, 'a worker')"
)
READ = (
    "select c_offset, key, event_type, payload::text, headers, host_id, user_id, transaction_id, created_ts"
    " from gapless.read('orders', 1, 1, 8)"
)
LETTERS = ((1, 2), (3, 3), (4, 6))
AT = " where {here} and first_offset = "


@pytest.fixture
def letters(staff: Staff) -> Staff:
    """Three units are due again, in every place."""
    for first, last in LETTERS:
        staff.letters(first, last)
    return staff


def again(staff: Staff, most: int = 100, crashes_max: int = 3) -> tuple[list[Any], Changes]:
    return staff.call(AGAIN, [staff.topic, staff.fences[1], most, crashes_max])


def begun(*firsts: int, **more: Any) -> Changes:
    """What is noted of letters that are handed out."""
    row = {"crashes": (0, 1), "epoch": (None, 1), **more}
    return {f"dead_letter billing orders 1 {first}": row for first in firsts}


@pytest.mark.parametrize(
    ("most", "units"), [(100, 3), (6, 3), (4, 3), (3, 2), (2, 1), (1, 1), (0, 0), (-1, 0)]
)
def test_units_that_are_due(letters: Staff, most: int, units: int) -> None:
    """In order, whole, as the log has them; asked for again they come again, and nothing is noted."""
    rows, changed = again(letters, most)
    given = LETTERS[:units]
    assert [row[:4] for row in rows] == [
        (n, first, last, 3) for first, last in given for n in range(first, last + 1)
    ]
    log = {row[0]: row[1:] for row in letters.rows(READ)}
    assert [row[4:] for row in rows] == [log[row[0]] for row in rows]
    assert changed == begun(*(first for first, _ in given))
    assert again(letters, most) == (rows, {})


NOT_DUE = {
    "later": "next_attempt_ts = clock_timestamp() + interval '1 min'",
    "parked": "next_attempt_ts = null, state = 'parked'",
    "dead": "next_attempt_ts = null, state = 'dead'",
    "redriven": "next_attempt_ts = null, state = 'redriven'",
}


@pytest.mark.parametrize("name", NOT_DUE)
def test_units_that_are_not_due(letters: Staff, name: str) -> None:
    letters.run(f"update gapless.dead_letter set {NOT_DUE[name]} {AT} 3")
    rows, changed = again(letters)
    assert [row[0] for row in rows] == [1, 2, 4, 5, 6]
    assert changed == begun(1, 4)
    letters.run(f"update gapless.dead_letter set {NOT_DUE[name]} where {{here}}")
    assert again(letters) == ([], {})


@pytest.mark.parametrize("epoch", [None, 0, 2])
def test_a_unit_under_which_members_went_away(letters: Staff, epoch: int | None) -> None:
    """Once too often: it is dead, and the next one comes; of this owner it is no death."""
    letters.run(f"update gapless.dead_letter set crashes = 2, epoch = %s {AT} 1", [epoch])
    letters.run(f"update gapless.dead_letter set crashes = 3, epoch = %s {AT} 3", [epoch])
    letters.run(f"update gapless.dead_letter set crashes = 7, epoch = 1 {AT} 4")
    rows, changed = again(letters)
    assert [(row[0], row[3]) for row in rows] == [(1, 5), (2, 5), (4, 9), (5, 9), (6, 9)]
    why = "handed out 3 times to members that went away without an answer"
    died = {
        "state": ("waiting", "dead"), "crashes": (3, 0), "reason": ("why", why), "exception": ("why", why),
        "worker": (None, "a worker"),
    }  # fmt: skip
    if epoch is not None:
        died["epoch"] = (epoch, None)
    assert changed == begun(1, crashes=(2, 3), epoch=(epoch, 1)) | {
        "dead_letter billing orders 1 3": died
    }


def test_the_events_that_a_filter_kept(letters: Staff) -> None:
    """Of the unit, and of no other one."""
    letters.run(
        "update gapless.dead_letter_event set is_kept = false where {here} and c_offset = 5"
    )
    letters.run(
        "update gapless.dead_letter_event set first_offset = 3 where {here} and c_offset = 2"
    )
    rows, _ = again(letters)
    assert [row[:3] for row in rows] == [(1, 1, 2), (3, 3, 3), (4, 4, 6), (6, 4, 6)]
