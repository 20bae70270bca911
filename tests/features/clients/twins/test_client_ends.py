"""commit_redriven(), reject_unit(): units that end otherwise than by the group's offset, and no row beside them."""

from typing import Any

import pytest

from support.staff import Staff, gone
from support.twins import Changes

REDRIVEN = "select gapless.commit_redriven(%s, 1, %s)::text as done"
REJECT = "select gapless.reject_unit(%s, 1, %s, %s)::text as done"
PLACE = "consumer_offsets billing orders 1"
OF_HIS = " where {here} and first_offset = 3"


@pytest.mark.parametrize("has_died", [True, False])
def test_a_redriven_unit_that_is_handled(staff: Staff, has_died: bool) -> None:
    """One that was dead stays, as redriven; of one that only waited nothing is kept."""
    for first, last in ((1, 2), (3, 3), (4, 6)):
        staff.letters(first, last, epoch=1, crashes=1)
    if has_died:
        staff.conn.execute("update gapless.dead_letter set died_ts = now()")
    rows, changed = staff.call(REDRIVEN, [staff.token, 3])
    assert rows == [("",)]
    assert [name for name in changed if name.startswith("guard_keys ")], "others park meanwhile"
    changed = {name: row for name, row in changed.items() if not name.startswith("guard_keys ")}
    if has_died:
        row = {"state": ("waiting", "redriven"), "epoch": (1, None), "crashes": (1, 0)}
        assert changed == {"dead_letter billing orders 1 3": row}
        ask = f"select next_attempt_ts is null and closed_ts is not null from gapless.dead_letter where {staff.here()}"
        assert staff.twins.value(f"{ask} and first_offset = 3") is True
    else:
        assert gone(changed, "dead_letter") == {3}
        assert gone(changed, "dead_letter_event") == {3}
        assert changed == {}
    xid = staff.twins.value("select pg_current_xact_id()::text")
    assert staff.twins.value("select current_setting('gapless.finished')") == xid
    assert staff.twins.refused(REDRIVEN, [staff.token, 3])[0] == "GL409", "it is none any more"


NO_LETTER = {
    "another's": "epoch = 2",
    "nobody's": "epoch = null",
    "of one before": "epoch = 0",
    "dead again": "state = 'dead', next_attempt_ts = null",
    "parked": "state = 'parked', next_attempt_ts = null",
}


@pytest.mark.parametrize("name", [*NO_LETTER, "behind it", "nowhere"])
def test_what_is_no_redriven_unit_of_its_own(staff: Staff, name: str) -> None:
    """Those of all others are in hand."""
    staff.letters(3, 3, epoch=1)
    staff.letters(4, 6, epoch=1)
    if name in NO_LETTER:
        staff.run(f"update gapless.dead_letter set {NO_LETTER[name]} {OF_HIS}")
    at = {"behind it": 5, "nowhere": None}.get(name, 3)
    said = f"this member has no redriven unit at offset {at or 'null'} of partition 1 in hand (any more)"
    assert staff.twins.refused(REDRIVEN, [staff.token, at]) == ("GL409", said)


def events(changed: Changes) -> dict[int, tuple[Any, ...]]:
    begin = "dead_letter_event billing orders 1 "
    rows = [name for name in changed if name.startswith(begin)]
    return {
        int(name.removeprefix(begin)): (row["first_offset"][1], row["message_id"][1], row["is_kept"][1])
        for name in rows for row in [changed.pop(name)]
    }  # fmt: skip


# Where the group is, which unit it has in hand there: of one segment, of two.
@pytest.mark.parametrize(
    ("first", "last"), [(1, 2), (3, 3), (4, 6), (3, 5), (2, 7), (8, 8), (1, 8), (6, 7)]
)
@pytest.mark.parametrize("reason", ["no such customer", "x" * 499 + "yz\n" + "x" * 100])
def test_a_unit_that_is_rejected(staff: Staff, first: int, last: int, reason: str) -> None:
    staff.conn.execute("delete from gapless.delivery")
    staff.conn.execute(
        "insert into gapless.delivery (group_id, topic_id, partition_id, first_offset, last_offset, attempts, epoch)"
        " select group_id, topic_id, partition_id, %s, %s, 7, epoch from gapless.consumer_offsets",
        [first, last],
    )
    staff.twins.seek(first)
    ids = dict(staff.rows("select c_offset, message_id from gapless.read('orders', 1)"))
    moved = "base_offset = base_offset + 1, last_offset = last_offset + 1"
    place = f"topic_id = {staff.topic} and partition_id = 1"
    staff.conn.execute(f"update gapless.log_segment set {moved} where not ({place})".encode())
    rows, changed = staff.call(REJECT, [staff.token, first, reason])
    assert rows == [("",)]
    assert events(changed) == {n: (first, ids[n], True) for n in range(first, last + 1)}
    assert gone(changed, "delivery") == {first}
    assert changed.pop(PLACE)["next_offset"] == (first, last + 1)
    letter = changed.pop(f"dead_letter billing orders 1 {first}")
    columns = "last_offset events state attempts reason exception worker crashes parks"
    assert [letter[column][1] for column in columns.split()] == [
        last, last - first + 1, "dead", 7, reason[:500], reason, "billing of orders", 0, False
    ]  # fmt: skip
    assert changed == {}


NOT_FIRST = (
    "the unit at offset {} of partition 1 is not the first that this member has in hand, and no redriven one:"
    " commit those before it"
)


@pytest.mark.parametrize(
    ("change", "at"),
    [
        ("", 3), ("", 2), ("", 4), ("", None), ("", 0),
        ("update gapless.delivery set finished = true where {here} and first_offset = 1", 1),
        ("update gapless.delivery set epoch = 0 where {here} and first_offset = 1", 1),
        ("update gapless.delivery set epoch = null where {here} and first_offset = 1", 1),
        ("delete from gapless.delivery where {here} and first_offset = 1", 1),
    ],
)  # fmt: skip
def test_what_is_not_the_first_in_hand(staff: Staff, change: str, at: int | None) -> None:
    staff.run(change or "select 1")
    text = NOT_FIRST.format("null" if at is None else at)
    assert staff.twins.refused(REJECT, [staff.token, at, "bad"]) == ("GL409", text)


@pytest.mark.parametrize("at", [1, 3])
def test_a_redriven_unit_that_is_rejected(staff: Staff, at: int) -> None:
    """The offset stays where it is, though the unit there is in hand too."""
    staff.letters(1, 2, epoch=1, crashes=1)
    staff.letters(3, 3, epoch=1, crashes=1)
    _, changed = staff.call(REJECT, [staff.token, at, "x" * 501])
    row = changed.pop(f"dead_letter billing orders 1 {at}")
    assert row == {
        "state": ("waiting", "dead"), "epoch": (1, None), "crashes": (1, 0), "attempts": (2, 3),
        "reason": ("why", "x" * 500), "exception": ("why", "x" * 501), "worker": (None, "billing of orders"),
    }  # fmt: skip
    assert changed == {}


@pytest.mark.parametrize("at", [1, 3])
def test_a_letter_beside_the_unit_in_hand(staff: Staff, at: int) -> None:
    """Each is rejected by its own offset."""
    staff.letters(3, 3, epoch=1)
    _, changed = staff.call(REJECT, [staff.token, at, "bad"])
    if at == 3:
        assert list(changed) == ["dead_letter billing orders 1 3"]
    else:
        assert gone(changed, "delivery") == {1}
        assert "dead_letter billing orders 1 1" in changed
        assert "dead_letter billing orders 1 3" not in changed


@pytest.mark.parametrize("name", NO_LETTER)
def test_a_letter_at_the_first_unit_that_is_not_in_hand(staff: Staff, name: str) -> None:
    """It is the unit that is rejected: of the letter, which is dead then, it is one attempt more."""
    staff.letters(1, 2, epoch=1)
    staff.run(
        f"update gapless.dead_letter set {NO_LETTER[name]} where {{here}} and first_offset = 1"
    )
    _, changed = staff.call(REJECT, [staff.token, 1, "bad"])
    assert changed[PLACE] == {"next_offset": (1, 3)}
    assert changed["dead_letter billing orders 1 1"]["attempts"] == (2, 3)
    assert gone(changed, "delivery") == {1}


@pytest.mark.parametrize("reason", [None, "", "  "])
def test_a_reason_to_reject_is_needed(staff: Staff, reason: str | None) -> None:
    said = ("GL400", "a unit is rejected with a reason")
    assert staff.twins.refused(REJECT, [staff.token, 1, reason]) == said
