"""Where the log may be cut: between transactions, over all partitions and topics."""

from collections.abc import Iterator
from typing import Any

import pytest
from psycopg import Connection

from gapless.db.connect import connect
from gapless.log.sequence import sequence
from support.twins import PUBLISH, Twins

KEY = "select 'k' || n from generate_series(1, 99) n where gapless.partition_of('k' || n, 2) = %s limit 1"


@pytest.fixture(scope="module")
def shared(module_dsn: str) -> Iterator[Twins]:
    """Beside the twins topics in which transactions lie across each other, one of them over both."""
    with connect(module_dsn, role="test") as conn, connect(module_dsn, role="test") as second:
        twins = Twins(conn)
        for topic in ("late", "mixed"):
            conn.execute("select gapless.create_topic(%s, 2)", [topic])
            twins.topic_ids[topic] = twins.value("select gapless.topic_id(%s)", topic)
        one, two = (twins.value(KEY, partition) for partition in (0, 1))

        def publish(on: Connection[Any], topic: str, *keys: str) -> None:
            with on.transaction():
                for key in keys:
                    on.execute(PUBLISH, [topic, "a", key])

        def run() -> None:
            while sequence(conn):
                pass

        publish(conn, "mixed", one, one)
        publish(conn, "late", one, two, two)
        run()
        with conn.transaction():
            publish(conn, "mixed", one)
            publish(second, "mixed", one, two, two)
            publish(conn, "mixed", two)
        publish(conn, "mixed", one)
        run()
        with second.transaction():
            publish(second, "late", one)
            with conn.transaction():
                publish(conn, "late", one, one, two)
                publish(conn, "mixed", one)
            publish(conn, "late", one, two)
            run()
        run()
        yield twins


def cut(twins: Twins, topics: str, at: list[int], most: int) -> list[int]:
    places = [
        (twins.topic_ids[topic], n)
        for topic in topics.split()
        for n in range(2 if topic in {"late", "mixed"} else 3)
    ]
    rows = twins.conn.execute(
        "select topic_id, partition_id, next_offset from gapless.cut(%s, %s, %s, %s)",
        [[t for t, _ in places], [n for _, n in places], at, most],
    ).fetchall()
    assert sorted(each[:2] for each in rows) == sorted(places)
    found = {(t, n): offset for t, n, offset in rows}
    return [found[place] for place in places]


# Transactions have 6, 3, 9, 3, 3 and 1 events of orders, in runs of 9, 9, 6 and 1.
CUTS: dict[str, tuple[list[int], int, list[int]]] = {
    "all there is": ([1, 1, 1], 25, [10, 9, 9]),
    "all but one": ([1, 1, 1], 24, [9, 9, 9]),
    "three runs": ([1, 1, 1], 23, [7, 7, 7]),
    "two": ([1, 1, 1], 18, [7, 7, 7]),
    "one": ([1, 1, 1], 17, [4, 4, 4]),
    "just the first run": ([1, 1, 1], 9, [4, 4, 4]),
    "not even the first": ([1, 1, 1], 8, [3, 3, 3]),
    "just the first transaction": ([1, 1, 1], 6, [3, 3, 3]),
    "not even that": ([1, 1, 1], 5, [3, 3, 3]),
    "one event, and so all of it": ([1, 1, 1], 1, [3, 3, 3]),
    "the rest of the run": ([3, 3, 3], 3, [4, 4, 4]),
    "one that is too large": ([4, 4, 4], 8, [7, 7, 7]),
    "of two transactions the first": ([7, 7, 7], 5, [8, 8, 8]),
    "too few for it": ([7, 7, 7], 2, [8, 8, 8]),
    "at the end": ([10, 9, 9], 5, [10, 9, 9]),
    "from one place behind the others": ([1, 4, 4], 3, [4, 4, 4]),
    "so, and too few": ([1, 4, 4], 2, [3, 4, 4]),
    "so, and fewer": ([1, 4, 4], 1, [3, 4, 4]),
    "in the middle of a transaction": ([2, 3, 3], 2, [3, 3, 3]),
    "one is far ahead": ([1, 9, 9], 1, [3, 9, 9]),
    "one is at its end": ([9, 9, 9], 9, [10, 9, 9]),
}  # fmt: skip


@pytest.mark.parametrize("name", CUTS)
def test_where_the_log_is_cut(twins: Twins, name: str) -> None:
    at, most, upto = CUTS[name]
    assert cut(twins, "orders", at, most) == upto


def test_transactions_are_whole_over_topics(twins: Twins) -> None:
    assert cut(twins, "orders other", [1] * 6, 18) == [4] * 6
    assert cut(twins, "orders other", [1] * 6, 17) == [3] * 6
    assert cut(twins, "orders other", [1] * 6, 12) == [3] * 6
    assert cut(twins, "orders other", [1] * 6, 11) == [3] * 6


# Of mixed a transaction of three events, one of two that began before it, and one; then that of late, of which
# two events are in its first partition; and there one of two, and one that began before all.
UNEVEN: dict[str, tuple[str, list[int], int, list[int]]] = {
    "all of the second": ("mixed", [3, 1], 1, [4, 3]),
    "just it": ("mixed", [3, 1], 3, [4, 3]),
    "not the rest of the first": ("mixed", [3, 1], 4, [4, 3]),
    "both": ("mixed", [3, 1], 5, [5, 4]),
    "the run": ("mixed", [3, 1], 6, [6, 4]),
    "the first, which is larger": ("mixed", [4, 3], 1, [5, 4]),
    "the first": ("mixed", [4, 3], 2, [5, 4]),
    "one that a later run has is not before it": ("late", [2, 3], 3, [4, 4]),
    "nor after it": ("late", [2, 3], 4, [4, 4]),
    "the run of late": ("late", [2, 3], 5, [5, 5]),
    "and the later one": ("late", [2, 3], 6, [6, 5]),
    "the rest of a transaction": ("late", [3, 3], 1, [4, 4]),
    "one over both topics": ("late mixed", [2, 3, 6, 4], 2, [4, 4, 7, 4]),
}  # fmt: skip


@pytest.mark.parametrize("name", UNEVEN)
def test_transactions_that_lie_across_each_other(twins: Twins, name: str) -> None:
    """The order is that of their last events, in each run."""
    topics, at, most, upto = UNEVEN[name]
    assert cut(twins, topics, at, most) == upto


def test_an_event_that_somebody_deleted_is_one_by_itself(twins: Twins) -> None:
    twins.lose(2)
    assert cut(twins, "orders", [1, 1, 1], 3) == [2, 2, 2]
    assert cut(twins, "orders", [1, 1, 1], 25) == [10, 9, 9]
    assert cut(twins, "orders", [2, 2, 2], 1) == [3, 2, 2]


@pytest.mark.parametrize(
    ("at", "most", "bases"),
    [(1, 9, [1, 4, 7]), (3, 9, [1, 4, 7]), (4, 9, [4, 7]), (8, 9, [7]), (9, 9, []), (3, 2, [1, 4]), (4, 0, [])],
)  # fmt: skip
def test_segments_from_an_offset_on(twins: Twins, at: int, most: int, bases: list[int]) -> None:
    """Of this partition; others begin elsewhere, and one goes on."""
    twins.conn.execute(
        "insert into gapless.log_segment (topic_id, partition_id, base_offset, last_offset, message_ids, unit_ends, run)"
        " values (%s, 1, 9, 12, '{1,2,3,4}', '1111', 1)",
        [twins.topic_ids["other"]],
    )
    twins.conn.execute(
        "update gapless.log_segment set base_offset = 2, last_offset = 4 where base_offset = 1"
        " and (topic_id = %(other)s or topic_id = %(orders)s and partition_id = 0)",
        twins.topic_ids,
    )
    query = "select base_offset from gapless.segments_from(%s, 1, %s, %s)"
    rows = twins.conn.execute(query, [twins.topic_ids["orders"], at, most]).fetchall()
    assert [base for (base,) in rows] == bases
