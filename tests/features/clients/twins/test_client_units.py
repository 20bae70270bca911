"""deliver_units(): which units a client is given of its partition, and what is noted of each."""

from typing import Any

import pytest

from support.staff import Staff
from support.twins import Changes

OUT = (
    "select c_offset, first_offset, last_offset, attempt, key, event_type, payload::text, headers, host_id, user_id,"
    " transaction_id, created_ts from gapless.deliver_units('billing', %s, 1, 1, %s, %s, %s, 'a worker')"
)
READ = (
    "select c_offset, key, event_type, payload::text, headers, host_id, user_id, transaction_id, created_ts"
    " from gapless.read('orders', 1, 1, 8)"
)
LEASE, PLACE = "lease billing orders 1", "consumer_offsets billing orders 1"
UNITS = {1: (1, 2), 3: (3,), 4: (4, 5, 6), 7: (7,), 8: (8,)}
FRESH = "delete from gapless.delivery where {here}"


def out(staff: Staff, most: int = 100, crashes_max: int = 3) -> tuple[list[Any], Changes]:
    return staff.call(OUT, [staff.topic, staff.fences[1], most, crashes_max])


def noted(changed: Changes, *columns: str) -> dict[int, list[Any]]:
    """What is noted of units in hand; it is taken out of what changed."""
    begin = "delivery billing orders 1 "
    names = [name for name in changed if name.startswith(begin)]
    return {
        int(name.removeprefix(begin)): [row[each] for each in columns if each in row]
        for name in names
        for row in [changed.pop(name)]
    }


# How many are wanted of those from where on; which units come; who is to blame if it ends badly.
OUTS = [
    (1, 100, [1, 3, 4, 7, 8], 0), (1, 1, [1], 1), (1, 2, [1], 1), (1, 3, [1, 3], 0), (1, 4, [1, 3, 4], 0),
    (3, 1, [3], 1), (4, 1, [4], 1), (4, 4, [4, 7], 0), (8, 100, [8], 1), (7, 100, [7, 8], 0), (1, 0, [1], 1),
    (1, -7, [1], 1),
]  # fmt: skip


@pytest.mark.parametrize(("at", "most", "units", "crashes"), OUTS)
def test_what_is_handed_out(
    staff: Staff, at: int, most: int, units: list[int], crashes: int
) -> None:
    """As the log has it; of elsewhere everything is finished, and an error is over."""
    staff.run(FRESH)
    staff.run("update gapless.delivery set finished = true")
    staff.run("update gapless.log_segment set timeline = 5 where base_offset = 4")
    staff.run("update gapless.lease set error = 'bad'")
    staff.twins.seek(at, staff.here())
    rows, changed = out(staff, most)
    offsets = [n for unit in units for n in UNITS[unit]]
    assert [row[:4] for row in rows] == [
        (n, unit, UNITS[unit][-1], 1) for unit in units for n in UNITS[unit]
    ]
    log = {row[0]: row[1:] for row in staff.rows(READ)}
    assert [row[4:] for row in rows] == [log[n] for n in offsets]
    assert changed.pop(LEASE) == {"error": ("bad", None)}
    assert noted(changed, "last_offset", "attempts", "crashes", "epoch", "finished") == {
        unit: [(None, UNITS[unit][-1]), (None, 1), (None, crashes), (None, 1), (None, False)]
        for unit in units
    }
    assert changed == {}


# What is noted of the first unit; what of it then. It comes alone, whatever else there is.
AGAIN: dict[str, tuple[str, dict[str, tuple[Any, Any]]]] = {
    "by this owner": ("crashes = 0", {"attempts": (1, 2)}),
    "by this owner, often": ("crashes = 9, attempts = 6", {"attempts": (6, 7)}),
    "by an owner before": ("epoch = 0", {"attempts": (1, 2), "crashes": (0, 1), "epoch": (0, 1)}),
    "by one that let go": ("epoch = null", {"attempts": (1, 2), "crashes": (0, 1), "epoch": (None, 1)}),
    "for the last time": (
        "epoch = null, crashes = 2", {"attempts": (1, 2), "crashes": (2, 3), "epoch": (None, 1)},
    ),
    "it was longer": ("last_offset = 3", {"attempts": (1, 2), "last_offset": (3, 2)}),
}  # fmt: skip


@pytest.mark.parametrize("others", ["", "and first_offset = 1"])
@pytest.mark.parametrize("name", AGAIN)
def test_what_was_handed_out_before(staff: Staff, name: str, others: str) -> None:
    change, row = AGAIN[name]
    if others:
        staff.run(FRESH + " and first_offset > 1")
    staff.run("update gapless.delivery set crashes = 3, epoch = 0 where not ({here})")
    staff.run(f"update gapless.delivery set {change} where {{here}} and first_offset = 1")
    attempt = row["attempts"][1]
    rows, changed = out(staff)
    assert [each[:4] for each in rows] == [(1, 1, 2, attempt), (2, 1, 2, attempt)]
    assert changed == {"delivery billing orders 1 1": row}


@pytest.mark.parametrize("crashes_max", [2, 3])
def test_who_kills_its_members_is_dead(staff: Staff, crashes_max: int) -> None:
    """With its whole unit; and the next unit is handed out."""
    staff.run(
        "update gapless.delivery set crashes = 3, epoch = 0, attempts = 5 where first_offset = 1"
    )
    ids = dict(staff.rows("select c_offset, message_id from gapless.read('orders', 1)"))
    rows, changed = out(staff, crashes_max=crashes_max)
    assert [row[:4] for row in rows] == [(3, 3, 3, 2)]
    letter = changed.pop("dead_letter billing orders 1 1")
    why = "handed out 3 times to members that went away without an answer"
    columns = "last_offset events state attempts reason exception worker"
    assert [letter[each][1] for each in columns.split()] == [2, 2, "dead", 5, why, why, "a worker"]
    for n in (1, 2):
        assert changed.pop(f"dead_letter_event billing orders 1 {n}")["message_id"][1] == ids[n]
    assert noted(changed, "attempts") == {1: [(5, None)], 3: [(1, 2)]}
    assert changed == {PLACE: {"next_offset": (1, 3)}}


def test_what_a_worker_had_finished_is_passed(staff: Staff) -> None:
    """At the beginning the group goes on behind it; amid others it is left out."""
    for first in (1, 4):
        staff.run(f"update gapless.delivery set finished = true where first_offset = {first}")
    staff.run("delete from gapless.delivery where {here} and first_offset = 3")
    rows, changed = out(staff)
    assert [row[:4] for row in rows] == [(3, 3, 3, 1), (7, 7, 7, 2), (8, 8, 8, 2)]
    assert noted(changed, "attempts") == {1: [(1, None)], 3: [(None, 1)], 7: [(1, 2)], 8: [(1, 2)]}
    assert changed == {PLACE: {"next_offset": (1, 3)}}


def test_all_was_finished(staff: Staff) -> None:
    staff.run("update gapless.delivery set finished = true, crashes = 9, epoch = 0")
    rows, changed = out(staff)
    assert rows == []
    assert set(noted(changed)) == set(UNITS)
    assert changed == {PLACE: {"next_offset": (1, 9)}}


PARKS = (
    "select gapless.set_aside(l.group_id, l.topic_id, 1, 1, l.ids[1:2], 'dead', 'why', 'why', _parks => true) from ("
    "select c.group_id, c.topic_id, s.message_ids as ids from gapless.consumer_offsets c join gapless.log_segment s"
    " using (topic_id, partition_id) where s.base_offset = 1 and {where}) l"
)


def test_a_unit_of_a_key_that_is_held_is_parked(staff: Staff) -> None:
    """Those before it are handed out; when it is the first, it is set aside, and so are all of its key behind it."""
    staff.run(
        "update gapless.outbox_message_t set key = 'free' where id in ("
        "select message_id from gapless.read('orders', 1, 3, 6))"
    )
    staff.run(FRESH)
    staff.run(PARKS.replace("{where}", "{here}"))
    staff.twins.seek(3, staff.here())
    rows, changed = out(staff)
    assert [row[0] for row in rows] == [3, 4, 5, 6]
    assert set(noted(changed)) == {3, 4}
    rows, changed = out(staff)
    assert [row[0] for row in rows] == [3], "it was handed out before: it comes alone"
    staff.twins.seek(7, staff.here())
    staff.run("update gapless.delivery set crashes = 3, epoch = 0")
    rows, changed = out(staff)
    assert rows == []
    why = "parked behind an earlier unit of its key"
    for n in (7, 8):
        letter = changed.pop(f"dead_letter billing orders 1 {n}")
        columns = "last_offset events state attempts reason exception worker parks"
        assert [letter[each][1] for each in columns.split()] == [
            n, 1, "parked", 0, why, why, "a worker", True,
        ]  # fmt: skip
    kinds = {name.split()[0] for name in changed}
    assert changed[PLACE] == {"next_offset": (7, 9)}
    assert kinds <= {
        "consumer_offsets",
        "delivery",
        "dead_letter_event",
        "dead_letter_key",
        "guard_keys",
    }
    assert (
        "guard_keys" in kinds or staff.twins.value("select count(*) from gapless.guard_keys") == 1
    )


def test_a_key_that_is_held_elsewhere_is_free_here(staff: Staff) -> None:
    staff.run(FRESH)
    staff.run(PARKS.replace("{where}", "partition_id = 1 and not ({here})"))
    assert len(out(staff)[0]) == 8


def test_a_parked_unit_follows_when_nobody_is_before_it(staff: Staff) -> None:
    """Of a unit of two events, both are set aside."""
    staff.run(FRESH)
    staff.run(PARKS.replace("{where}", "{here}"))
    staff.twins.seek(4, staff.here())
    rows, changed = out(staff, 1)
    assert rows == []
    assert changed["dead_letter billing orders 1 4"]["last_offset"] == (None, 6)
    assert [n for n in range(4, 9) if f"dead_letter_event billing orders 1 {n}" in changed] == [
        4,
        5,
        6,
        7,
        8,
    ]


STILL: dict[str, tuple[int, list[str], str, int | None]] = {
    "the end": (9, [], "", None),
    "a hole": (
        4, ["delete from gapless.log_segment where base_offset = 4"],
        "offsets 4 to 6 are not all there: gapless skip billing/orders/1@4 passes the missing ones", None,
    ),
    "dropped": (
        1, ["insert into gapless.log_start values ({topic}, 1, 4, now())"],
        ("retention dropped offsets 1 to 3 before group billing handled them:"
        " gapless seek --earliest continues without them"), None,
    ),
    "beyond the end": (
        10, [],
        ("the group is at offset 10, beyond the end of the log, where the next event had offset 9:"
        " gapless seek billing/orders/1@9 --pause --yes"), 9,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STILL)
def test_why_it_stands_still(staff: Staff, name: str) -> None:
    at, changes, said, stopped = STILL[name]
    staff.twins.seek(at, staff.here())
    for change in changes:
        staff.run(change)
    rows, changed = out(staff)
    assert rows == []
    assert changed.pop(LEASE, None) == ({"error": (None, said)} if said else None)
    assert set(changed) == ({PLACE} if stopped else set())
    ask = "select stopped_at from gapless.consumer_offsets where " + staff.here()
    assert staff.twins.value(ask) == stopped


@pytest.mark.parametrize(
    "change",
    [("insert into gapless.group_filter (group_id, topic_id, event_types, filter_no) overriding system value"
     " values ('billing', {topic}, '{{a}}', 3)"),
     "select 1"],
)  # fmt: skip
def test_of_a_group_with_a_filter(staff: Staff, change: str) -> None:
    staff.run(change)
    staff.run("update gapless.consumer_offsets set filter_no = 3 where {here}")
    state, text = staff.twins.refused(OUT, [staff.topic, staff.fences[1], 100, 3])
    assert (state, text[:42]) == ("GL409", 'group "billing" has a filter or subscripti')
