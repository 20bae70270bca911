"""What is read of the log: its ends, its events and its units, of one partition of one topic alone."""

import pytest

from support.apart import DROPPED, date, ids, move, run
from support.twins import Twins

ENDS = {0: (1, 10), 1: (1, 9), 2: (1, 9), 3: (1, 1)}
UNITS = [(1, 2), (3, 3), (4, 6), (7, 7), (8, 8)]


@pytest.fixture
def apart(twins: Twins) -> Twins:
    return move(twins)


@pytest.fixture
def dated(apart: Twins) -> Twins:
    return date(apart)


@pytest.mark.parametrize("partition", ENDS)
def test_the_ends_of_a_partition(twins: Twins, partition: int) -> None:
    topic = twins.topic_ids["orders"]
    found = twins.conn.execute(
        "select * from gapless.log_ends(%s, %s)", [topic, partition]
    ).fetchall()
    assert found == [ENDS[partition]]


def test_the_ends_of_one_that_others_are_beside(apart: Twins) -> None:
    topic = apart.topic_ids["orders"]
    ends = "select * from gapless.log_ends(%s, %s)"
    for place, expected in (
        ((topic, 1), (1, 9)),
        ((topic, 2), (3, 10)),
        ((topic, 3), (1, 1)),
        ((topic + 99, 1), (1, 1)),
    ):
        assert apart.conn.execute(ends, place).fetchall() == [expected]
        assert apart.value("select gapless.log_first(%s, %s)", *place) == expected[0]
    base = "select gapless.last_base(%s, %s)"
    assert [apart.value(base, topic, p) for p in (0, 1, 2, 3)] == [10, 7, 8, None]
    run(apart, f"{DROPPED} values ({{topic}}, 1, 5, now())")
    assert apart.conn.execute(ends, [topic, 1]).fetchall() == [(5, 9)]


@pytest.mark.parametrize(
    ("topics", "names"),
    [(["orders"], ["orders"]), (["orders", "other", "nothing"], ["orders", "other"]), ([], []), (["nothing"], [])],
)  # fmt: skip
def test_the_ends_of_topics(twins: Twins, topics: list[str], names: list[str]) -> None:
    found = twins.conn.execute("select * from gapless.ends(%s)", [topics]).fetchall()
    assert found == [
        (name, twins.topic_ids[name], p, 1, 10 if (name, p) == ("orders", 0) else 9)
        for name in names for p in range(3)
    ]  # fmt: skip


def test_the_ends_of_partitions_that_only_one_of_both_knows(twins: Twins) -> None:
    """Those that the topic no longer has, and those without an event; of the other topic there are others."""
    run(twins, "update gapless.topic set partitions = 5 where name = 'orders'")
    run(
        twins,
        "update gapless.log_segment set partition_id = 7 where partition_id = 2 and topic_id = {topic}",
    )
    run(
        twins,
        "update gapless.log_segment set partition_id = 6 where partition_id = 0 and topic_id <> {topic}",
    )
    found = twins.conn.execute(
        "select partition_id, first_offset, next_offset from gapless.ends('{orders}')"
    )
    assert found.fetchall() == [(0, 1, 10), (1, 1, 9), (2, 1, 1), (3, 1, 1), (4, 1, 1), (7, 1, 9)]
    found = twins.conn.execute("select partition_id, next_offset from gapless.ends('{other}')")
    assert found.fetchall() == [(0, 1), (1, 9), (2, 9), (6, 9)]
    run(twins, "delete from gapless.log_segment where topic_id = {topic}")
    found = twins.conn.execute("select partition_id, next_offset from gapless.ends('{orders}')")
    assert found.fetchall() == [(p, 1) for p in range(5)]


READS: list[tuple[int | None, int | None, list[int]]] = [
    (1, None, [1, 2, 3, 4, 5, 6, 7, 8]), (1, 1, [1]), (2, 2, [2]), (3, 4, [3, 4]), (4, 6, [4, 5, 6]), (4, 7, [4, 5, 6, 7]),
    (5, 5, [5]), (6, 100, [6, 7, 8]), (8, None, [8]), (9, None, []), (5, 4, []), (0, 1, [1]), (-5, 2, [1, 2]), (7, 7, [7]),
    (None, 2, [1, 2]),
]  # fmt: skip


@pytest.mark.parametrize(("first", "last", "offsets"), READS)
def test_what_is_read(
    apart: Twins, first: int | None, last: int | None, offsets: list[int]
) -> None:
    """All that an event has, of the segment that it is in."""
    run(apart, "update gapless.log_segment set timeline = 5 where base_offset = 4")
    run(apart, "update gapless.outbox_message_t set headers = '{{\"h\": 1}}', host_id = 'h' || id, user_id = 'u' || id,"
               " transaction_id = case when event_type = 'a' then gen_random_uuid() end")  # fmt: skip
    rows = apart.conn.execute(
        "select * from gapless.read('orders', 1, %s, %s)", [first, last]
    ).fetchall()
    assert [row[0] for row in rows] == offsets
    for row in rows:
        ((n, *event),) = apart.conn.execute(
            "select n, o.key, o.event_type, o.payload, o.headers, o.host_id, o.user_id,"
            " coalesce(o.transaction_id, gapless.transaction_uuid(o.xid, s.timeline)), o.created_ts, o.id"
            " from gapless.log_segment s, unnest(s.message_ids) with ordinality u (id, n)"
            " join gapless.outbox_message_t o using (id) where s.topic_id = %s and s.partition_id = 1"
            " and s.base_offset + n - 1 = %s",
            [apart.topic_ids["orders"], row[0]],
        ).fetchall()
        assert list(row[1:]) == event
        assert n >= 1


@pytest.mark.parametrize(
    ("kept", "first", "offsets"), [(5, 1, [5, 6, 7, 8]), (5, 7, [7, 8]), (5, 5, [5, 6, 7, 8])]
)
def test_what_is_dropped_is_not_read(
    apart: Twins, kept: int, first: int, offsets: list[int]
) -> None:
    run(apart, f"{DROPPED} values ({{topic}}, 1, {kept}, now())")
    rows = apart.conn.execute(
        "select c_offset from gapless.read('orders', 1, %s)", [first]
    ).fetchall()
    assert [row[0] for row in rows] == offsets


def test_what_is_missing_is_not_read(apart: Twins) -> None:
    """An event, and a segment; nor what is not in order of its ids."""
    run(apart, "update gapless.log_segment set message_ids = array[message_ids[3], message_ids[1], message_ids[2]]"
               " where topic_id = {topic} and partition_id = 1 and base_offset = 4")  # fmt: skip
    rows = apart.conn.execute(
        "select c_offset, message_id from gapless.read('orders', 1, 4, 6)"
    ).fetchall()
    assert [row[0] for row in rows] == [4, 5, 6]
    assert rows[0][1] > rows[2][1] > rows[1][1]
    run(
        apart,
        "delete from gapless.log_segment where topic_id = {topic} and partition_id = 1 and base_offset = 1",
    )
    assert list(ids(apart)) == [4, 5, 6, 7, 8]
    apart.conn.execute("delete from gapless.outbox_message_t where id = %s", [rows[1][1]])
    assert list(ids(apart)) == [4, 6, 7, 8]
    assert apart.conn.execute(
        "select c_offset from gapless.read('orders', 1, 2, 4)"
    ).fetchall() == [(4,)]


@pytest.mark.parametrize(("first", "last"), UNITS)
def test_the_ends_of_a_unit(dated: Twins, first: int, last: int) -> None:
    topic = dated.topic_ids["orders"]
    moment = dated.value("select max(sequenced_ts) from gapless.log_segment where topic_id = %s and partition_id = 1"
                         " and base_offset <= %s", topic, last)  # fmt: skip
    for offset in range(first, last + 1):
        ends = dated.conn.execute(
            "select * from gapless.unit_end(%s, 1, %s)", [topic, offset]
        ).fetchall()
        assert ends == [(last, moment)]
        assert dated.value("select gapless.unit_start(%s, 1, %s)", topic, offset) == first


def test_what_is_no_unit(dated: Twins) -> None:
    topic = dated.topic_ids["orders"]
    start, end = (
        "select gapless.unit_start(%s, %s, %s)",
        "select last_offset from gapless.unit_end(%s, %s, %s)",
    )
    for partition, offset in ((1, 9), (1, 0), (1, -3), (3, 5), (2, 10)):
        assert dated.value(start, topic, partition, offset) == min(
            offset, 9 if partition == 1 else 10
        )
    assert dated.value(start, topic, 1, 100) == 9
    for partition, offset in ((1, 9), (3, 1)):
        assert (
            dated.value(
                f"select ({end.replace('last_offset', 'max(last_offset)')})",
                topic,
                partition,
                offset,
            )
            is None
        )


# Units over the ends of segments: where each segment begins, and its marks; then each unit.
LONG = [
    ([(1, "001"), (4, "000"), (7, "01")], [(1, 3), (4, 8)]),
    ([(1, "000"), (4, "000"), (7, "01")], [(1, 8)]),
    ([(1, "010"), (4, "100"), (7, "11")], [(1, 2), (3, 4), (5, 7), (8, 8)]),
    ([(1, "100"), (4, "000"), (7, "01")], [(1, 1), (2, 8)]),
]


@pytest.mark.parametrize(("marks", "units"), LONG)
def test_units_of_several_segments(
    dated: Twins, marks: list[tuple[int, str]], units: list[tuple[int, int]]
) -> None:
    topic = dated.topic_ids["orders"]
    for base, bits in marks:
        run(dated, f"update gapless.log_segment set unit_ends = '{bits}' where topic_id = {{topic}} and partition_id = 1"
                   f" and base_offset = {base}")  # fmt: skip
    for first, last in units:
        for offset in range(first, last + 1):
            assert dated.value("select gapless.unit_start(%s, 1, %s)", topic, offset) == first
            assert (
                dated.value("select last_offset from gapless.unit_end(%s, 1, %s)", topic, offset)
                == last
            )
    run(
        dated,
        "delete from gapless.log_segment where topic_id = {topic} and partition_id = 1 and base_offset = 4",
    )
    assert dated.value("select gapless.unit_start(%s, 1, 8)", topic) <= 8
