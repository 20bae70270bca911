"""What waits for what when the number of partitions has changed: looks, which see no other group, topic or partition."""

import pytest

from support.twins import Twins

LETTER = (
    "insert into gapless.dead_letter (group_id, topic_id, partition_id, first_offset, last_offset, events,"
    " transaction_id, state, attempts, reason, exception, next_attempt_ts, discard_reason)"
    " select c.group_id, c.topic_id, c.partition_id, 3, 3, 1, gen_random_uuid(), s.state, 1, 'no', 'no',"
    " case s.state when 'waiting' then now() end, case s.state when 'discarded' then 'of no use' end"
    " from gapless.consumer_offsets c, (values ({})) s (state) where {}"
)
# Topic orders had 6 partitions, then 4, and has 3; the other one 7, 8, and 9. Each has ended twice, with
# offsets 5 and 6. Six partitions have a row in each group.
CHANGES = """
insert into gapless.layout (topic_id, layout, partitions)
select t.topic_id, l - 1, (case t.name when 'orders' then '{6,4,3}'::int[] else '{7,8,9}'::int[] end)[l]
from gapless.topic t, generate_series(1, 3) l;
insert into gapless.barrier (topic_id, layout, partition_id, last_offset)
select o.topic_id, o.layout, p, 5 + o.layout from gapless.layout o, generate_series(0, o.partitions - 1) p
where o.layout < 2;
insert into gapless.consumer_offsets (group_id, topic_id, partition_id)
select g.group_id, g.topic_id, p from gapless.consumer_group g, generate_series(3, 9) p;
"""
LATER = (
    "insert into gapless.log_segment (topic_id, partition_id, base_offset, last_offset, message_ids, unit_ends, run)"
    " select t.topic_id, 1, 9, 12, '{1,2,3,4}', '1111', 1 from gapless.topic t where t.name = 'other'"
)


@pytest.fixture(params=[1, 1000])
def changed(twins: Twins, request: pytest.FixtureRequest) -> Twins:
    """Other groups, and this one elsewhere, are far behind or far ahead: it makes no difference."""
    twins.conn.execute(CHANGES)
    twins.seek(request.param)
    return twins


def at(twins: Twins, offsets: list[int]) -> None:
    """Put the group to an offset of each partition of orders."""
    for partition, offset in enumerate(offsets):
        twins.seek(offset, twins.here(partition=partition))


# Of a partition, for events of a layout: the offsets of partitions 0 to 5, and those it waits for.
BLOCKERS: dict[str, tuple[int, int, list[int], list[int]]] = {
    "of the first layout nothing waits": (1, 0, [1, 1, 1, 1, 1, 1], []),
    "none has come to the first barrier": (1, 1, [5, 5, 5, 5, 5, 5], [3, 5]),
    "all have, but not to the second": (1, 1, [6, 6, 6, 6, 6, 6], []),
    "one of another remainder": (1, 1, [1, 1, 1, 6, 1, 6], []),
    "one of two": (1, 1, [6, 6, 6, 6, 6, 5], [5]),
    "itself is not in its own way": (1, 1, [6, 1, 6, 6, 6, 6], []),
    "of all layouts before": (1, 2, [1, 1, 1, 1, 1, 1], [0, 2, 3, 4]),
    "of the last layout alone": (1, 2, [6, 6, 6, 6, 6, 6], [0, 2, 3]),
    "of the first alone": (1, 2, [7, 7, 7, 7, 5, 5], [4]),
    "the last offset of the second": (1, 2, [7, 7, 6, 7, 6, 6], [2]),
    "all are behind it": (1, 2, [7, 7, 7, 7, 6, 6], []),
    "another remainder": (0, 2, [7, 7, 7, 5, 5, 5], [3]),
    "a layout that is not there": (1, 3, [1, 1, 1, 1, 1, 1], []),
}  # fmt: skip


@pytest.mark.parametrize("name", BLOCKERS)
def test_whom_a_partition_waits_for(changed: Twins, name: str) -> None:
    partition, layout, offsets, blockers = BLOCKERS[name]
    at(changed, offsets)
    found = changed.conn.execute(
        "select blocker from gapless.blockers('billing', %s, %s, %s) order by 1",
        [changed.topic_ids["orders"], partition, layout],
    ).fetchall()
    assert found == [(each,) for each in blockers]


# Of a partition that has passed barriers from one layout to another: the offsets of all, and how many are woken.
ANNOUNCED: dict[str, tuple[int, int, int, list[int], int]] = {
    "both that share keys with it": (3, 0, 1, [6, 6, 6, 6, 6, 6], 2),
    "it is taken at its word": (3, 0, 1, [6, 6, 6, 1, 6, 6], 2),
    "one waits for the fifth, too": (3, 0, 1, [6, 6, 6, 6, 6, 5], 1),
    "one waits for the first, too": (3, 0, 1, [5, 6, 6, 6, 6, 6], 1),
    "one that shares no key is behind": (3, 0, 1, [6, 6, 1, 6, 6, 6], 2),
    "a remainder by subtraction": (4, 0, 1, [6, 6, 6, 6, 6, 5], 3),
    "one waits for another one": (4, 0, 1, [6, 5, 6, 6, 6, 6], 2),
    "the layout before only": (3, 0, 1, [7, 7, 7, 7, 7, 7], 2),
    "the second layout": (3, 1, 2, [7, 7, 7, 7, 7, 7], 3),
    "the second layout, one is at its last event": (3, 1, 2, [7, 7, 6, 7, 7, 7], 0),
    "each is woken once": (3, 0, 2, [7, 7, 7, 7, 7, 7], 3),
    "no layout": (3, 1, 1, [7, 7, 7, 7, 7, 7], 0),
    "one it never was part of": (5, 1, 2, [7, 7, 7, 7, 7, 7], 0),
}  # fmt: skip


@pytest.mark.parametrize("name", ANNOUNCED)
def test_how_many_are_woken(changed: Twins, name: str) -> None:
    partition, since, upto, offsets, woken = ANNOUNCED[name]
    at(changed, offsets)
    call = "select gapless.announce('billing', %s, %s, %s, %s)"
    assert changed.value(call, changed.topic_ids["orders"], partition, since, upto) == woken


def test_a_partition_that_never_had_an_event_wakes_nobody(changed: Twins) -> None:
    """It has no barrier: nobody waits for it."""
    at(changed, [6] * 6)
    topic_id = changed.topic_ids["orders"]
    changed.conn.execute(
        f"delete from gapless.barrier where topic_id = {topic_id} and partition_id = 3"
    )
    assert changed.value(f"select gapless.announce('billing', {topic_id}, 3, 0, 1)") == 0


@pytest.mark.parametrize(
    ("offset", "layout"), [(0, 0), (3, 0), (4, 2), (6, 2), (7, 2), (8, 2), (100, 2)]
)
def test_which_layout_placed_an_offset(twins: Twins, offset: int, layout: int) -> None:
    """Of this partition the first and the last segment are gone; all others have theirs."""
    here = f"topic_id = {twins.topic_ids['orders']} and partition_id = 1"
    twins.conn.execute(
        f"delete from gapless.log_segment where {here} and base_offset <> 4;"
        f"update gapless.log_segment set layout = case when {here} then 2 else base_offset end"
    )
    call = "select gapless.layout_of(%s, 1, %s)"
    assert twins.value(call, twins.topic_ids["orders"], offset) == layout


def test_the_newest_layout_counts(twins: Twins) -> None:
    twins.conn.execute("update gapless.log_segment set layout = base_offset")
    call = "select array_agg(gapless.layout_of(%s, 1, n) order by n) from generate_series(1, 8) n"
    assert twins.value(call, twins.topic_ids["orders"]) == [1, 1, 1, 4, 4, 4, 7, 7]


@pytest.mark.parametrize(("offset", "is_finished"), [(3, False), (8, False), (9, True), (10, True)])
@pytest.mark.parametrize("elsewhere", [1, 1000])
def test_when_a_group_is_done_with_a_partition(
    twins: Twins, offset: int, is_finished: bool, elsewhere: int
) -> None:
    """The first partition has one event more, and this one of the other topic four."""
    twins.conn.execute(LATER)
    twins.seek(elsewhere)
    twins.seek(offset, twins.here())
    call = "select gapless.is_finished('billing', %s, 1)"
    assert twins.value(call, twins.topic_ids["orders"]) is is_finished


def test_a_partition_without_an_event_is_done(twins: Twins) -> None:
    here = f"topic_id = {twins.topic_ids['orders']} and partition_id = 1"
    twins.conn.execute(f"delete from gapless.log_segment where {here}")
    call = "select gapless.is_finished('billing', %s, 1)"
    assert twins.value(call, twins.topic_ids["orders"]) is True


@pytest.mark.parametrize("state", ["waiting", "parked", "dead", "redriven", "discarded"])
def test_which_letters_a_partition_owes(twins: Twins, state: str) -> None:
    """What waits everywhere else is not its."""
    twins.conn.execute(LETTER.format("'waiting'", f"not ({twins.here()})"))
    call = "select gapless.owes_letters('billing', %s, 1)"
    assert twins.value(call, twins.topic_ids["orders"]) is False
    twins.conn.execute(LETTER.format(f"'{state}'", twins.here()))
    assert twins.value(call, twins.topic_ids["orders"]) is (state in {"waiting", "parked"})


# Offsets of partitions 1 and 2, what else is done, and whether a lease is to be retired.
FINISHED: dict[str, tuple[int, int, str, bool]] = {
    "neither is done": (8, 8, "", False),
    "the first that went": (9, 8, "", True),
    "the last": (8, 9, "", True),
    "it owes a letter": (9, 8, LETTER.format("'parked'", "{here}"), False),
    "its letter is dead": (9, 8, LETTER.format("'dead'", "{here}"), True),
    "its lease went": (9, 8, "delete from gapless.lease where {here}", False),
    "the partition is there again": (9, 8, "update gapless.topic set partitions = 2 where topic_id = {orders}", False),
    "all are": (9, 9, "update gapless.topic set partitions = 3 where topic_id = {orders}", False),
    "all are, and it changed": (
        9, 9, "update gapless.topic set partitions = 3, partitions_ever = 2 where topic_id = {orders}", False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FINISHED)
def test_whether_a_lease_is_to_be_retired(twins: Twins, name: str) -> None:
    """Everybody else is done with all there is, and so is this group with the partition that stays."""
    first, last, statement, is_finished = FINISHED[name]
    twins.conn.execute("update gapless.topic set partitions = 1, partitions_ever = 3, layout = 1")
    twins.seek(10)
    at(twins, [10, first, last])
    words = {"here": twins.here(), "orders": twins.topic_ids["orders"]}
    if statement:
        twins.conn.execute(statement.format(**words))
    call = "select gapless.has_finished('billing', %s)"
    assert twins.value(call, twins.topic_ids["orders"]) is is_finished
    assert twins.value(call, twins.topic_ids["other"]) is True


# layout, partitions, partitions_ever of orders; the same of the other one; where keys of partition 1 may be
KEYS: list[tuple[str, str, list[int]]] = [
    ("0, 3, null", "1, 5, 6", [1]),
    ("1, 3, 2", "0, 5, null", [0, 1, 2]),
    ("1, 2, 3", "0, 5, null", [0, 1, 2]),
    ("2, 2, 3", "1, 5, 6", [0, 1, 2]),
]


@pytest.mark.parametrize(("orders", "other", "places"), KEYS)
def test_where_events_with_a_key_may_be(
    twins: Twins, orders: str, other: str, places: list[int]
) -> None:
    for topic, columns in (("other", other), ("orders", orders)):
        twins.conn.execute(
            "update gapless.topic set (layout, partitions, partitions_ever)"
            f" = ({columns}) where name = '{topic}'"
        )
    call = "select gapless.key_partitions(%s, 1)"
    assert twins.value(call, twins.topic_ids["orders"]) == places
    assert twins.value(call, twins.topic_ids["other"]) != places
