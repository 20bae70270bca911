"""What passing a barrier, retiring a partition and taking it back write, row by row."""

from typing import Any

import pytest

from gapless.db.connect import connect
from support.twins import Changes, Twins

LETTER = (
    "insert into gapless.dead_letter (group_id, topic_id, partition_id, first_offset, last_offset, events,"
    " transaction_id, state, attempts, reason, exception)"
    " select group_id, topic_id, partition_id, 3, 3, 1, gen_random_uuid(), 'parked', 1, 'no', 'no'"
    " from gapless.consumer_offsets where {here};"
)
MEMBER = "00000000-0000-0000-0000-00000000000a"
TOKEN = "00000000-0000-0000-0000-00000000000b"
OTHER_TOKEN = "00000000-0000-0000-0000-00000000000c"
OWNED = f"update gapless.consumer_offsets set epoch = 5, token = '{TOKEN}', installed_offset = 2, layout = 1"
PLANNED = f"update gapless.consumer_group set planned_for = array['{MEMBER}']::uuid[]"
SHRUNK = "update gapless.topic set partitions = 1, partitions_ever = 3, layout = 2"
BLOCK = (
    "update gapless.consumer_group set block = 6 where group_id = 'sender' and topic_id = {orders}"
)
NO_FLOORS = (
    "delete from gapless.queue_floor f using gapless.lease l where l.lease_no = f.lease_no and {where};"
    "delete from gapless.lease where {where};"
)


def run(twins: Twins, statements: str, **words: object) -> None:
    """Run statements in which {here} stands for what is true of billing/orders/1."""
    ids = dict(twins.topic_ids)
    twins.conn.execute(statements.format(here=twins.here(), **ids, **words))


def changes(twins: Twins, call: str) -> Changes:
    return twins.changes(f"select gapless.{call}".format(**twins.topic_ids))


def written(twins: Twins, call: str) -> int:
    """Run it, and return how many rows of offsets it has updated."""
    query = "select pg_stat_get_xact_tuples_updated('gapless.consumer_offsets'::regclass)"
    before = twins.value(query)
    twins.conn.execute(f"select gapless.{call}".format(**twins.topic_ids))
    return int(twins.value(query) - before)


PASS = f"pass_barrier('billing', {{orders}}, 1, 5, '{TOKEN}')"
PASSES = {
    "once": ("", 9, True),
    "one event is left": ("", 8, False),
    "another epoch": ("update gapless.consumer_offsets set epoch = 6 where {here}", 9, False),
    "another token": (f"update gapless.consumer_offsets set token = '{OTHER_TOKEN}' where {{here}}", 9, False),
    "it has passed": ("update gapless.consumer_offsets set passed = 2 where {here}", 9, False),
    "it has passed an earlier one": ("update gapless.consumer_offsets set passed = 1 where {here}", 9, True),
    "all others are done": ("update gapless.consumer_offsets set passed = 2 where not ({here})", 9, True),
}  # fmt: skip


@pytest.mark.parametrize("name", PASSES)
def test_a_partition_with_nothing_left_is_past_the_barriers(twins: Twins, name: str) -> None:
    statement, offset, passes = PASSES[name]
    twins.conn.execute(
        "update gapless.topic set layout = case name when 'orders' then 2 else 3 end"
    )
    twins.conn.execute(OWNED)
    twins.seek(offset, twins.here())
    run(twins, statement or "select 1")
    was = twins.value(f"select passed from gapless.consumer_offsets where {twins.here()}")
    assert changes(twins, PASS) == (
        {"consumer_offsets billing orders 1": {"passed": (was, 2)}} if passes else {}
    )
    assert written(twins, PASS) == 0, "again"


def test_nothing_is_written_of_what_is_passed_or_entered(twins: Twins) -> None:
    run(twins, f"update gapless.topic set layout = 2; {OWNED}, passed = 2")
    twins.seek(9, twins.here())
    assert written(twins, PASS) == 0
    assert written(twins, "enter_layout('billing', {orders}, 1, 1)") == 0
    assert written(twins, "enter_layout('billing', {orders}, 1, 2)") == 1


@pytest.mark.parametrize("everywhere", [True, False])
@pytest.mark.parametrize("group", ["billing", "sender"])
def test_a_retired_partition_gets_its_lease_again(
    twins: Twins, group: str, everywhere: bool
) -> None:
    """With the epoch of its offsets; a queue gets its floor, of the size of its blocks."""
    where = "partition_id > 0" if everywhere else twins.here(group)
    run(twins, f"{SHRUNK}; {OWNED}; {PLANNED}; {BLOCK}; {NO_FLOORS}", where=where)
    run(twins, f"update gapless.consumer_offsets set epoch = 7 where {twins.here(group)}")
    changed = changes(twins, f"reopen('{group}', {{orders}}, 1)")
    lease = changed.pop(f"lease {group} orders 1")
    assert lease["epoch"] == (None, 7)
    if group == "sender":
        floor = changed.pop(f"queue_floor {lease['lease_no'][1]} 1")
        assert (floor["block"], floor["next_offset"]) == ((None, 6), (None, 1))
    plan = (f'["{MEMBER}"]', "[]")
    assert changed == {f"consumer_group {group} orders": {"planned_for": plan}}
    assert changes(twins, f"reopen('{group}', {{orders}}, 1)") == {}, "again"


@pytest.mark.parametrize("partitions", [1, 2, 3])
def test_a_partition_that_the_topic_has_is_not_reopened(twins: Twins, partitions: int) -> None:
    """Its lease is somebody else's matter; the other topic has one partition."""
    run(twins, f"{SHRUNK}; {NO_FLOORS}", where="partition_id > 0")
    run(twins, "update gapless.topic set partitions = {n} where name = 'orders'", n=partitions)
    changed = changes(twins, "reopen('billing', {orders}, 1)")
    assert bool(changed) is (partitions == 1)


def test_who_reopens_a_partition_holds_its_group(twins: Twins, module_dsn: str) -> None:
    """So nobody retires it at this moment; other groups go on."""
    run(twins, "update gapless.topic set partitions = 1 where name = 'orders'")
    assert changes(twins, "reopen('billing', {orders}, 1)") == {}, "its lease is there"
    free = (
        "select g.group_id, t.name from gapless.consumer_group g join gapless.topic t using (topic_id)"
        " for no key update of g skip locked"
    )
    with connect(module_dsn, role="test") as conn, conn.transaction(force_rollback=True):
        others = set(conn.execute(free).fetchall())
    every = {
        (group, topic)
        for group in ("billing", "mail", "auditor", "sender")
        for topic in ("orders", "other")
    }
    assert others == every - {("billing", "orders")}


MOVED: list[tuple[int, int]] = [(2, 3), (2, 2), (0, 1), (1, 1), (0, 0)]


@pytest.mark.parametrize("retired", [True, False])
@pytest.mark.parametrize(("layout", "passed"), MOVED)
def test_a_group_that_is_moved_back_meets_the_barriers_again(
    twins: Twins, layout: int, passed: int, retired: bool
) -> None:
    run(twins, PLANNED)
    if retired:
        run(twins, f"{SHRUNK}; {NO_FLOORS}", where="partition_id > 0")
    twins.seek(9)
    twins.conn.execute(
        "update gapless.consumer_offsets set layout = %s, passed = %s", [layout, passed]
    )
    seek = (
        "select set_config('gapless.seeking', pg_current_xact_id()::text, true);"
        f"update gapless.consumer_offsets set next_offset = {{}} where {twins.here()}"
    )
    assert list(twins.changes(seek.format(10))) == ["consumer_offsets billing orders 1"]
    updates = "select pg_stat_get_xact_tuples_updated('gapless.consumer_offsets'::regclass)"
    before = twins.value(updates)
    changed = twins.changes(seek.format(9))
    assert twins.value(updates) - before == 1 + (passed > 0)
    assert changed.pop("consumer_offsets billing orders 1") == {
        "next_offset": (10, 9),
        **({"layout": (layout, 0)} if layout else {}),
        **({"passed": (passed, 0)} if passed else {}),
    }
    came = {"lease billing orders 1", "consumer_group billing orders"}
    assert set(changed) == (came if retired else set())


# Of partition 1 of orders: its offset, what else is, and whether it goes with partition 2.
RETIRED: dict[str, tuple[int, str, bool]] = {
    "all is handled": (9, "", True),
    "one event is left": (8, "", False),
    "a letter waits": (9, LETTER, False),
    "its row is gone": (9, "delete from gapless.consumer_offsets where {here};", False),
    "its lease has gone": (9, NO_FLOORS.replace("{where}", "{here}"), False),
}  # fmt: skip


@pytest.mark.parametrize("name", RETIRED)
@pytest.mark.parametrize("group", ["billing", "sender"])
def test_what_a_partition_leaves_behind(twins: Twins, group: str, name: str) -> None:
    offset, statements, goes = RETIRED[name]
    twins.conn.execute(OWNED)
    twins.conn.execute("update gapless.lease set epoch = 3 + partition_id")
    run(
        twins,
        "update gapless.lease set epoch = 8 where {here}".replace("{here}", twins.here(group, 2)),
    )
    twins.seek(10)
    twins.seek(offset, twins.here(group))
    run(twins, SHRUNK)
    if statements:
        run(twins, statements.replace("{here}", twins.here(group)))
    changed = changes(twins, f"retire('{group}', {{orders}})")
    wanted: set[str] = set()
    for partition, epoch in {1: 5, 2: 8}.items():
        if partition == 2 or goes:
            row = f"{group} orders {partition}"
            wanted |= {f"lease {row}", f"consumer_offsets {row}"}
            assert changed[f"lease {row}"]["partition_id"] == (partition, None)
            wanted |= floors(twins, group, partition)
            offsets: dict[str, Any] = {
                "token": (TOKEN, None), "installed_offset": (2, None), "passed": (0, 2),
            }  # fmt: skip
            if epoch == 8:
                offsets["epoch"] = (5, 8)
            assert changed[f"consumer_offsets {row}"] == offsets
    assert set(changed) == wanted
    assert twins.value(f"select gapless.retire('{group}', %s)", twins.topic_ids["orders"]) == 0


def floors(twins: Twins, group: str, partition: int) -> set[str]:
    return (
        {f"queue_floor {twins.leases[group, 'orders', partition]} 1"}
        if group == "sender"
        else set()
    )


@pytest.mark.parametrize(("topic", "elsewhere"), [("orders", "other"), ("other", "orders")])
def test_how_many_are_retired_of_which_topic(twins: Twins, topic: str, elsewhere: str) -> None:
    """The same is handled of both, and of one all partitions are there still."""
    twins.seek(10)
    run(twins, SHRUNK.replace("= 1", f"= case name when '{elsewhere}' then 3 else 1 end"))
    call = "select gapless.retire('billing', %s)"
    assert twins.value(call, twins.topic_ids[elsewhere]) == 0
    assert twins.value(call, twins.topic_ids[topic]) == 2
