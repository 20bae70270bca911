"""compact(), forget_latest(): a step is as long as it may be, of those who waited longest; and what is gone then."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from gapless.db.connect import connect
from support.compacted import keep, write
from support.twins import Changes, Twins

COMPACT = "select gapless.compact(%s)"
FORGET = "select gapless.forget_latest(%s, %s)"
PLACES = (
    "insert into gapless.compaction (topic_id, partition_id, next_offset, moved_ts)"
    " select t.topic_id, p, 1, timestamptz '2001-01-01' + p * interval '1 h' from gapless.topic t,"
    " generate_series(0, 2) p where t.name = any (%s)"
)


@pytest.fixture(scope="module")
def settled(shared: Twins) -> Twins:
    """Each event has a key of its own, in its partition."""
    for at in range(1, 9):
        write(shared, at, f"k{at}-", "1")
    return shared


@pytest.fixture
def twins(settled: Twins) -> Iterator[Twins]:
    """Orders is compacted; partition 0 waited longest, then 1, then 2."""
    with settled.undone():
        settled.conn.execute("update gapless.topic set compacted = (name = 'orders')")
        settled.conn.execute(PLACES, [["orders"]])
        yield settled


def stepped(twins: Twins, statement: str, params: list[Any]) -> tuple[Any, Changes]:
    """The answer of a call, and what changed but for rows of latest."""
    twins.conn.execute("drop table if exists pg_temp.answer")
    changed = twins.changes(f"create temp table answer on commit drop as {statement} as n", params)
    rows = {name: row for name, row in changed.items() if not name.startswith("latest ")}
    return twins.value("select n from pg_temp.answer"), rows


def places(twins: Twins, topic: str = "orders") -> list[int]:
    """Where the partitions are."""
    query = "select next_offset from gapless.compaction where topic_id = %s order by partition_id"
    return [at for (at,) in twins.conn.execute(query, [twins.topic_ids[topic]])]


def kept(twins: Twins, topic: str = "orders") -> int:
    query = "select count(*) from gapless.latest where topic_id = %s"
    return int(twins.value(query, twins.topic_ids[topic]))


# How many are wanted, how many are taken in, where the partitions are then. There are 25.
STEPS = [
    (1, 1, [2, 1, 1]), (8, 8, [9, 1, 1]), (9, 9, [10, 1, 1]), (10, 10, [10, 2, 1]), (17, 17, [10, 9, 1]),
    (18, 18, [10, 9, 2]), (25, 25, [10, 9, 9]), (26, 25, [10, 9, 9]), (10_000, 25, [10, 9, 9]),
]  # fmt: skip


@pytest.mark.parametrize(("most", "count", "upto"), STEPS)
def test_a_step_takes_in_so_many_at_most(
    twins: Twins, most: int, count: int, upto: list[int]
) -> None:
    answer, changed = stepped(twins, COMPACT, [most])
    assert (answer, places(twins)) == (count, upto)
    moved = {f"compaction orders {n}" for n, at in enumerate(upto) if at > 1}
    assert set(changed) == moved
    assert twins.value(COMPACT, 10_000) == 25 - count
    assert twins.value(COMPACT, 10_000) == 0


@pytest.mark.parametrize(
    ("longest", "ts", "upto"),
    [(2, "2000-01-01", [1, 1, 9]), (1, None, [1, 9, 1]), (0, "2002-01-01", [1, 9, 1])],
)
def test_who_waited_longest_is_first(
    twins: Twins, longest: int, ts: str | None, upto: list[int]
) -> None:
    """One that never moved before all others."""
    twins.conn.execute(
        "update gapless.compaction set moved_ts = %s where partition_id = %s", [ts, longest]
    )
    twins.value(COMPACT, 8)
    assert places(twins) == upto


def test_partitions_that_came_since_have_their_place(twins: Twins) -> None:
    """At the beginning of what retention has left; also those that the topic no longer has."""
    conn = twins.conn
    conn.execute("delete from gapless.compaction where partition_id = 2")
    conn.execute(PLACES, [["other"]])
    conn.execute("update gapless.topic set compacted = true")
    conn.execute(
        "update gapless.topic set partitions = 4, partitions_ever = 6 where name = 'orders'"
    )
    conn.execute(
        "update gapless.topic set partitions = 5, partitions_ever = 4 where name = 'other'"
    )
    conn.execute(
        "insert into gapless.log_start select topic_id, 5, 7, now() from gapless.topic where name = 'orders'"
    )
    conn.execute(
        "delete from gapless.compaction where topic_id = %s and partition_id = 2",
        [twins.topic_ids["orders"]],
    )
    twins.value(COMPACT, 10_000)
    assert places(twins) == [10, 9, 9, 1, 1, 7]
    assert places(twins, "other") == [9, 9, 9, 1, 1]


def test_without_a_compacted_topic_there_is_nothing_to_do(twins: Twins) -> None:
    twins.conn.execute("update gapless.topic set compacted = false")
    assert twins.value(COMPACT, 1) == 1, "the end of one counts"
    assert stepped(twins, COMPACT, [1]) == (None, {})
    assert kept(twins) == 0


# How many are wanted; how many go of the other topic's four, and whether that ends it; how many are taken in.
MIXED = [
    (1, 1, False, 0), (3, 3, False, 0), (4, 4, False, 0), (5, 4, True, 0), (6, 4, True, 1), (9, 4, True, 4),
]  # fmt: skip


@pytest.mark.parametrize(("most", "gone", "is_over", "count"), MIXED)
def test_what_is_kept_no_more_goes_first(
    twins: Twins, most: int, gone: int, is_over: bool, count: int
) -> None:
    """Of a topic that is compacted no longer; with the last row its places."""
    twins.conn.execute(PLACES, [["other"]])
    keep(twins, f"topic_id = {twins.topic_ids['other']} and partition_id < 2", 1, 2)
    answer, changed = stepped(twins, COMPACT, [most])
    assert answer == gone + is_over + count
    assert (kept(twins, "other"), kept(twins)) == (4 - gone, count)
    assert places(twins, "other") == ([] if is_over else [1, 1, 1])
    ended = {f"compaction other {n}" for n in range(3)} if is_over else set()
    assert set(changed) == ended | ({"compaction orders 0"} if count else set())


@pytest.mark.parametrize(
    ("most", "gone", "is_over"), [(0, 0, False), (3, 3, False), (4, 4, False), (5, 4, True)]
)
def test_rows_of_one_topic_go(twins: Twins, most: int, gone: int, is_over: bool) -> None:
    other, orders = twins.topic_ids["other"], twins.topic_ids["orders"]
    twins.conn.execute(PLACES, [["other"]])
    keep(twins, f"partition_id < 2 and topic_id in ({other}, {orders})", 1, 2)
    answer, _ = stepped(twins, FORGET, [other, most])
    assert answer == gone + is_over
    assert (kept(twins, "other"), kept(twins)) == (4 - gone, 4)
    assert places(twins, "other") == ([] if is_over else [1, 1, 1])
    assert places(twins) == [1, 1, 1]
    assert stepped(twins, FORGET, [orders, most]) == (0, {}), "it is compacted"
    assert kept(twins) == 4


def test_a_step_locks_only_what_it_takes_in(twins: Twins) -> None:
    """So that several can work on one topic; what is given up is locked as a whole."""
    locked = (
        "select t.name, c.partition_id from gapless.compaction c join gapless.topic t using (topic_id)"
        " where c.xmax <> '0' or c.moved_ts > '2020-01-01' order by 1, 2"
    )
    assert twins.value(COMPACT, 5) == 5
    assert twins.conn.execute(locked).fetchall() == [("orders", 0)]


@pytest.mark.parametrize("most", [None, 0, -1, 10_001])
def test_a_step_has_a_bound(twins: Twins, most: int | None) -> None:
    said = f"events_max is from 1 to 10000, not {'null' if most is None else most}"
    assert twins.refused(COMPACT, [most]) == ("GL400", said)


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_it_sees_what_is_true_now(settled: Twins, module_dsn: str, isolation: str) -> None:
    with connect(module_dsn, role="test") as other:
        with pytest.raises(psycopg.Error) as caught, other.transaction():
            other.execute(f"set transaction isolation level {isolation}".encode())
            other.execute(COMPACT, [1])
        assert caught.value.sqlstate == "25000"
        assert "gapless.compact() needs READ COMMITTED" in str(caught.value)


@pytest.mark.parametrize("partition", [0, 2])
def test_what_somebody_else_has_is_left(settled: Twins, module_dsn: str, partition: int) -> None:
    """Of a topic that is given up, all of it; the other one goes on."""
    conn = settled.conn
    conn.execute("update gapless.topic set compacted = (name = 'orders')")
    conn.execute(PLACES, [["other", "orders"]])
    try:
        with connect(module_dsn, role="test") as other, other.transaction(force_rollback=True):
            other.execute(
                "select from gapless.compaction where partition_id = %s for update", [partition]
            )
            with settled.undone():
                keep(settled, f"topic_id = {settled.topic_ids['other']}", 1)
                assert settled.value(FORGET, settled.topic_ids["other"], 99) == 0
                assert kept(settled, "other") == 3
                settled.value(COMPACT, 1000)
                assert places(settled) == [1 if n == partition else 10 - (n > 0) for n in range(3)]
    finally:
        conn.execute("delete from gapless.compaction")
        conn.execute("update gapless.topic set compacted = false")
