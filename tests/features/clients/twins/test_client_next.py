"""next_units(): which units a client would be given next, whole ones, up to what is missing."""

import pytest

from support.staff import Staff

NEXT = "select * from gapless.next_units('billing', %s, 1, %s, %s, %s)"
UNITS = {1: (1, 2), 3: (3,), 4: (4, 5, 6), 7: (7,), 8: (8,)}
# Where the group is, how many it wants, which events and segments are gone; the last that it gets, or the hole.
NEXTS: list[tuple[int, int, tuple[int, ...], tuple[int, ...], int | tuple[int, int]]] = [
    (1, 1, (), (), 2), (1, 2, (), (), 2), (1, 3, (), (), 3), (1, 4, (), (), 6), (1, 6, (), (), 6), (1, 7, (), (), 7),
    (1, 100, (), (), 8), (2, 1, (), (), 2), (2, 3, (), (), 6), (3, 1, (), (), 3), (5, 1, (), (), 6), (5, 3, (), (), 7),
    (7, 1, (), (), 7), (8, 1, (), (), 8),
    (1, 100, (1,), (), (1, 2)), (1, 100, (2,), (), (1, 2)), (1, 100, (3,), (), 2), (1, 100, (4,), (), 3),
    (1, 100, (5,), (), 3), (1, 100, (6, 8), (), 3), (1, 100, (7,), (), 6), (1, 100, (8,), (), 7), (1, 1, (3,), (), 2),
    (4, 100, (6,), (), (4, 6)), (4, 1, (4,), (), (4, 6)), (8, 1, (8,), (), (8, 8)), (3, 100, (3, 4), (), (3, 3)),
    (3, 100, (1, 2), (), 8), (2, 100, (1,), (), 8),
    (1, 100, (), (4,), 3), (1, 100, (), (7,), 6), (1, 100, (5,), (7,), 3), (2, 100, (), (4,), 3), (4, 100, (), (7,), 6),
    (7, 1, (), (1, 4), 7), (4, 100, (), (1,), 8), (4, 1, (), (4,), (4, 6)), (5, 1, (), (4,), (5, 6)),
]  # fmt: skip


@pytest.mark.parametrize(("at", "most", "events", "segments", "wanted"), NEXTS)
def test_which_units_are_next(
    staff: Staff, at: int, most: int, events: tuple[int, ...], segments: tuple[int, ...],
    wanted: int | tuple[int, int],
) -> None:  # fmt: skip
    """Whole ones, up to what is missing; nothing is claimed by that."""
    staff.twins.seek(at, staff.here())
    ids = dict(staff.rows("select c_offset, message_id from gapless.read('orders', 1)"))
    staff.twins.lose(*events)
    staff.run("delete from gapless.log_segment where base_offset = any (%s)", [list(segments)])
    staff.run(
        "update gapless.log_segment set timeline = case base_offset when 1 then null when 4 then 5 else 2 end"
    )
    staff.conn.execute("select set_config('gapless.chain', 'none', true)")
    ((outcome, first, last, *lists),), changed = staff.call(
        NEXT, [staff.topic, 1, staff.fences[1], most]
    )
    if isinstance(wanted, tuple):
        assert (outcome, first, last) == ("hole", *wanted)
    else:
        offsets = range(at, wanted + 1)
        unit_of = {n: max(unit, at) for unit, members in UNITS.items() for n in members}
        assert (outcome, first, last) == ("claimed", at, wanted)
        assert lists == [
            [ids[n] for n in offsets], [unit_of[n] for n in offsets],
            [1 if n < 4 else 5 if n < 7 else 2 for n in offsets],
        ]  # fmt: skip
    assert changed == {}
    assert staff.twins.value("select current_setting('gapless.chain')") == "none"


WHY_NOT: dict[str, tuple[int, str, int, tuple[str, int | None, int | None]]] = {
    "the end": (9, "", 1, ("idle", 9, None)),
    "beyond the end": (10, "", 1, ("beyond", 10, 9)),
    "fenced": (1, "", 2, ("fenced", None, None)),
    "without a place": (1, "delete from gapless.consumer_offsets where {here}", 1, ("unplaced", None, None)),
    "a filter": (1, "update gapless.consumer_offsets set filter_no = 3 where {here}", 1, ("filtered", 1, None)),
    "dropped": (3, "insert into gapless.log_start values ({topic}, 1, 4, now())", 1, ("overrun", 3, 3)),
    "stopped": (1, "update gapless.consumer_offsets set stopped_at = 7 where {here}", 1, ("beyond", 1, 7)),
}  # fmt: skip


@pytest.mark.parametrize("name", WHY_NOT)
def test_why_no_unit_is_next(staff: Staff, name: str) -> None:
    at, change, epoch, wanted = WHY_NOT[name]
    staff.twins.seek(at, staff.here())
    staff.run(change or "select 1")
    rows, changed = staff.call(NEXT, [staff.topic, epoch, staff.fences[1], 100])
    assert rows == [(*wanted, [], [], [])]
    assert changed == {}
