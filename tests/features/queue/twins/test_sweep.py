"""sweep(): how far the floor of a queue moves over any noted ranges, and what is noted afterwards."""

import pytest

from support.twins import Twins

HERE = ("sender", "orders", 1)
Range = tuple[int, int, bool]  # first and last offset; whether it is finished
NOTE = (
    "insert into gapless.queue_range (lease_no, first_offset, last_offset, tries, deadline, holder)"
    " select l.lease_no, %s, %s, 0, case when not %s then timestamptz 'infinity' end, 'x'"
    " from gapless.lease l join gapless.consumer_group g using (group_id, topic_id) where g.mode = 'queue'"
)
NOTED = (
    "select first_offset, last_offset, deadline is null from gapless.queue_range"
    " where lease_no = %s order by 1"
)


def singles(first: int, last: int) -> list[Range]:
    return [(n, n, True) for n in range(first, last + 1)]


HELD_1 = (1, 1, False)
# What is noted, by how much the floor moves, and what is noted then; null: the same.
PLAYS: dict[str, tuple[list[Range], int, list[Range] | None]] = {
    "nothing": ([], 0, None),
    "all is done": ([(1, 3, True), (4, 4, True)], 4, []),
    "up to what is in hand": (
        [(1, 3, True), (4, 4, False), (5, 6, True)],
        3,
        [(4, 4, False), (5, 6, True)],
    ),
    "up to what nobody took": ([(1, 3, True), (5, 6, True)], 3, [(5, 6, True)]),
    "what is in hand is first": ([(1, 2, False), (3, 4, True)], 0, None),
    "what nobody took is first": ([(3, 4, True)], 0, None),
    "too few to look": ([HELD_1, *singles(2, 256)], 0, None),
    "enough to look": ([HELD_1, *singles(2, 257)], 0, [HELD_1, (2, 257, True)]),
    "runs apart": (
        [HELD_1, *singles(2, 100), *singles(102, 164), *singles(166, 229), (230, 230, False),
         *singles(231, 294)],
        0,
        [HELD_1, (2, 100, True), *singles(102, 164), (166, 229, True), (230, 230, False),
         (231, 294, True)],
    ),
    "a run behind the floor that moves": (
        [(1, 5, True), (6, 6, False), *singles(7, 80)],
        5,
        [(6, 6, False), (7, 80, True)],
    ),
    "long ones make one": (
        [(1, 1, True), (2, 2, False), *((n, n + 2, True) for n in range(3, 3 + 64 * 3, 3))],
        1,
        [(2, 2, False), (3, 194, True)],
    ),
}  # fmt: skip


def note(twins: Twins, ranges: list[Range]) -> None:
    """In every queue the same."""
    with twins.conn.cursor() as cursor:
        cursor.executemany(NOTE, ranges)


@pytest.mark.parametrize("name", PLAYS)
def test_a_sweep(twins: Twins, name: str) -> None:
    ranges, moved, left = PLAYS[name]
    note(twins, ranges)
    lease = twins.leases[HERE]
    (version,) = set(twins.conn.execute("select max(version) from gapless.queue_floor").fetchone())
    changed = twins.changes(
        "create temp table answer on commit drop as select gapless.sweep(%s) as moved", [lease]
    )
    assert twins.value("select moved from answer") == moved
    assert twins.conn.execute(NOTED, [lease]).fetchall() == sorted(ranges if left is None else left)
    offset = changed.pop("consumer_offsets sender orders 1", {})
    assert offset == ({"next_offset": (1, 1 + moved)} if moved else {})
    of_lease = {f"queue_range {lease}", f"queue_floor {lease}"}
    assert {" ".join(row.split()[:2]) for row in changed} <= of_lease
    floors = [row for row in changed if row.startswith("queue_floor")]
    floor = twins.conn.execute(
        "select f.version, f.next_offset, f.block, f.is_paused, f.place = c.ctid"
        " from gapless.floor_of(%s) f, gapless.consumer_offsets c"
        " where c.group_id = 'sender' and c.topic_id = %s and c.partition_id = 1",
        [lease, twins.topic_ids["orders"]],
    ).fetchall()
    if moved:
        assert {int(row.split()[2]) for row in floors} == {version, version + 1}
        assert floor[0] == (version + 1, 1 + moved, 4, False, True)
    else:
        assert not floors


@pytest.mark.parametrize(
    "place",
    [
        "null::tid",
        "(select ctid from gapless.consumer_offsets where {here} limit 1)",
        "(select ctid from gapless.consumer_offsets where {group} and not {topic} and {partition})",
        "(select ctid from gapless.consumer_offsets where {group} and {topic} and not {partition} limit 1)",
        "(select ctid from gapless.consumer_offsets where not {group} and {topic} and {partition} limit 1)",
    ],
    ids=[
        "not noted",
        "of this row",
        "of another topic",
        "of another partition",
        "of another group",
    ],
)
def test_a_floor_that_notes_another_place(twins: Twins, place: str) -> None:
    """Rows move; where the row was is looked at first, and it must be the group's own."""
    where = {
        "group": "(group_id = 'sender')",
        "topic": f"(topic_id = {twins.topic_ids['orders']})",
        "partition": "(partition_id = 1)",
    }
    where["here"] = " and ".join(where.values())
    twins.conn.execute(f"update gapless.queue_floor set place = {place.format(**where)}")  # type: ignore[arg-type]
    note(twins, [(1, 2, True)])
    changed = twins.changes("select gapless.sweep(%s)", [twins.leases[HERE]])
    assert changed.pop("consumer_offsets sender orders 1") == {"next_offset": (1, 3)}
    assert not [row for row in changed if row.startswith("consumer_offsets")]


def test_of_no_queue(twins: Twins) -> None:
    note(twins, [(1, 2, True)])
    assert not twins.changes("select gapless.sweep(%s)", [twins.leases["billing", "orders", 1]])
    assert not twins.changes("select gapless.sweep(0)")


def test_the_floor_is_the_newest_of_its_own(twins: Twins) -> None:
    lease = twins.leases[HERE]
    twins.conn.execute(
        "insert into gapless.queue_floor (lease_no, version, next_offset, block)"
        " select lease_no, version + n, 10 * n + (lease_no <> %s)::int, 4"
        " from gapless.queue_floor, generate_series(7, 8) n where next_offset < 10",
        [lease],
    )
    assert twins.value("select next_offset from gapless.floor_of(%s)", lease) == 80
