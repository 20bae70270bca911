"""add_partitions(): where a group begins in a partition that it has no row of, and what it leaves as it is."""

from typing import Any

import pytest

from support.twins import Changes, Twins

CALL = "select gapless.add_partitions('{group}', {orders}, '{start}')"
# The log of this partition begins at 4; that of the others later, or ends later.
STARTS = """
insert into gapless.log_start values ({orders}, 1, 4, now()), ({orders}, 0, 5, now()),
  ({orders}, 2, 6, now()), ({other}, 1, 7, now());
insert into gapless.log_segment (topic_id, partition_id, base_offset, last_offset, message_ids, unit_ends, run)
values ({other}, 1, 9, 12, '{{1,2,3,4}}', '1111', 1);
"""
# Taken in up to the middle of the unit of offsets 4 to 6; of others less, and keys of theirs are older.
TAKEN_IN = """
insert into gapless.compaction (topic_id, partition_id, next_offset)
select t.topic_id, p, case when t.name = 'orders' and p = 1 then 6 else 3 end
from gapless.topic t, generate_series(0, 2) p where {taken};
insert into gapless.latest (topic_id, key_digest, partition_id, c_offset, timeline, id, xid, payload, created_ts)
select t.topic_id, sha256(format('%s %s %s', t.name, p, o)::bytea), p, o, 1, 1, '1', '1', now()
from gapless.topic t, generate_series(0, 2) p, unnest(
  case when t.name = 'orders' and p = 1 then '{{{offsets}}}'::bigint[] else '{{1}}' end) o;
"""
GONE = (
    "delete from gapless.queue_floor f using gapless.lease l where l.lease_no = f.lease_no and {where};"
    "delete from gapless.lease where {where};"
)
NO_PLACE = "delete from gapless.consumer_offsets where {where};"
BLOCK = (
    "update gapless.consumer_group set block = 6 where group_id = 'sender' and topic_id = {orders};"
)
# start, what of this partition was taken in and the offsets in latest; next_offset, latest_upto
BEGINS: dict[str, tuple[str, str, str, int, int | None]] = {
    "the oldest event": ("earliest", "true", "2", 4, None),
    "the newest": ("latest", "true", "2", 9, None),
    "the oldest of those that are the latest of their key": ("latest-per-key", "true", "2,3,5", 2, 4),
    "the last before the unit": ("latest-per-key", "true", "3,4,5", 3, 4),
    "none is before the unit": ("latest-per-key", "true", "4,5", 4, None),
    "no event has a key": ("latest-per-key", "true", "", 4, None),
    "it was never taken in": ("latest-per-key", "not (t.name = 'orders' and p = 1)", "2", 4, None),
}  # fmt: skip


def run(twins: Twins, statements: str, **words: object) -> None:
    twins.conn.execute(statements.format(**twins.topic_ids, **words))


def add(twins: Twins, group: str = "billing", start: str = "earliest") -> Changes:
    return twins.changes(CALL.format(group=group, start=start, **twins.topic_ids))


@pytest.mark.parametrize("everywhere", [True, False])
@pytest.mark.parametrize("name", BEGINS)
def test_where_a_group_begins(twins: Twins, name: str, everywhere: bool) -> None:
    """In the one partition that it has no row of, or where nobody has one of any, but for partition 0."""
    start, taken, offsets, next_offset, latest_upto = BEGINS[name]
    where = "partition_id > 0" if everywhere else twins.here()
    run(twins, STARTS + TAKEN_IN + GONE + NO_PLACE, where=where, taken=taken, offsets=offsets)
    changed = add(twins, start=start)
    added = (1, 2) if everywhere else (1,)
    assert set(changed) == {
        f"{table} billing orders {n}" for table in ("consumer_offsets", "lease") for n in added
    }
    row = changed["consumer_offsets billing orders 1"]
    assert row["next_offset"] == (None, next_offset)
    assert row.get("latest_upto") == (None if latest_upto is None else (None, latest_upto))
    assert changed["lease billing orders 1"]["epoch"] == (None, 0)
    assert add(twins, start=start) == {}, "again"


@pytest.mark.parametrize("everywhere", [True, False])
@pytest.mark.parametrize("group", ["billing", "sender"])
def test_a_lease_that_is_gone_has_the_epoch_of_the_place(
    twins: Twins, group: str, everywhere: bool
) -> None:
    """An epoch below it would keep every owner out. A queue gets its floor there, too."""
    where = "partition_id > 0" if everywhere else twins.here(group)
    run(twins, GONE + BLOCK, where=where)
    twins.conn.execute("update gapless.consumer_offsets set epoch = 5")
    twins.conn.execute(f"update gapless.consumer_offsets set epoch = 7 where {twins.here(group)}")
    changed = add(twins, group)
    leases = {n: changed.pop(f"lease {group} orders {n}") for n in ((1, 2) if everywhere else (1,))}
    assert leases[1]["epoch"] == (None, 7)
    if group == "sender":
        floors = {
            n: changed.pop(f"queue_floor {row['lease_no'][1]} 1") for n, row in leases.items()
        }
        assert {row["block"] for row in floors.values()} == {(None, 6)}
    assert changed == {}


def test_a_place_that_was_lost_is_not_a_new_one(twins: Twins) -> None:
    """Its lease says that it was there: no place is as good as the one it had."""
    run(twins, NO_PLACE, where=twins.here())
    assert add(twins) == {}


# partitions, partitions_ever; at the oldest or the newest event; which offsets come, and which leases
WIDTHS: dict[str, tuple[str, str, list[int], list[int]]] = {
    "it never changed": ("3, null", "earliest", [0, 1, 2], [0, 1, 2]),
    "it had fewer": ("3, 2", "earliest", [0, 1, 2], [0, 1, 2]),
    "it had more, with events": ("1, 3", "earliest", [0, 1, 2], [0, 1, 2]),
    "it had more, and all there is has been": ("1, 3", "latest", [0, 1, 2], [0]),
    "it had none more": ("2, 2", "earliest", [0, 1], [0, 1]),
}  # fmt: skip


@pytest.mark.parametrize("name", WIDTHS)
def test_which_partitions_are_added(twins: Twins, name: str) -> None:
    """Also those of an earlier layout, as long as there is something in them; the other topic has five."""
    columns, start, offsets, leases = WIDTHS[name]
    run(twins, GONE + NO_PLACE, where="true")
    twins.conn.execute("update gapless.topic set partitions = 5")
    run(
        twins,
        "update gapless.topic set (partitions, partitions_ever) = ({columns}) where name = 'orders'",
        columns=columns,
    )
    expected: list[Any] = [f"consumer_offsets billing orders {n}" for n in offsets]
    expected += [f"lease billing orders {n}" for n in leases]
    assert sorted(add(twins, start=start)) == sorted(expected)


def test_a_queue_that_has_all_stays_as_it_is(twins: Twins) -> None:
    run(twins, BLOCK)
    assert add(twins, "sender") == {}
