"""What is found in the log: by a time, by an id, of one partition of one topic alone."""

from typing import Any

import pytest

from support.apart import DROPPED, date, ids, move, run
from support.twins import Twins


@pytest.fixture
def dated(twins: Twins) -> Twins:
    return date(move(twins))


# Segments 1, 4 and 7 are of the 2nd, 3rd and 4th; the events of each of 22, 23 and 24 o'clock.
SINCE = [
    ("-infinity", 1, 1), ("2020-01-01 21:00Z", 1, 1), ("2020-01-01 22:00Z", 1, 1), ("2020-01-01 22:00:00.000001Z", 1, 2),
    ("2020-01-01 23:00Z", 1, 2), ("2020-01-02Z", 1, 3), ("2020-01-02 00:00:00.000001Z", 4, 4), ("2020-01-02 22:00Z", 4, 4),
    ("2020-01-02 22:00:00.000001Z", 4, 5), ("2020-01-03Z", 4, 6), ("2020-01-03 00:00:00.000001Z", 7, 7),
    ("2020-01-03 23:00Z", 7, 8), ("2020-01-03 23:00:00.000001Z", 7, 9), ("2020-01-04Z", 7, 9),
    ("2020-01-04 00:00:00.000001Z", None, 9), ("infinity", None, 9),
]  # fmt: skip


@pytest.mark.parametrize(("since", "segment", "offset"), SINCE)
def test_where_a_time_is(dated: Twins, since: str, segment: int | None, offset: int) -> None:
    topic = dated.topic_ids["orders"]
    assert dated.value("select gapless.segment_since(%s, 1, %s)", topic, since) == segment
    assert dated.value("select gapless.offset_since(%s, 1, %s)", topic, since) == offset


def test_what_is_later_elsewhere_is_not_looked_at(dated: Twins) -> None:
    run(
        dated,
        "update gapless.outbox_message_t o set created_ts = '2100-01-01Z' where not exists (select from"
        " gapless.log_segment s where topic_id = {topic} and partition_id = 1 and o.id = any (s.message_ids))",
    )
    topic = dated.topic_ids["orders"]
    for since, _, offset in SINCE:
        assert dated.value("select gapless.offset_since(%s, 1, %s)", topic, since) == offset


@pytest.mark.parametrize("segments", [1, 2, 5, 16, 33])
def test_a_time_among_many_segments(twins: Twins, segments: int) -> None:
    """Each of the same length, or of others: it is found by halving, whichever it is."""
    topic = twins.topic_ids["orders"]
    twins.conn.execute("delete from gapless.log_segment")
    for partition, more in ((1, 0), (0, 1), (2, 2)):
        twins.conn.execute(
            "insert into gapless.log_segment (topic_id, partition_id, base_offset, last_offset, message_ids, unit_ends,"
            " run, sequenced_ts) select %s, %s, 1 + coalesce(sum(size) over w, 0), sum(size) over v,"
            " array_fill(1::bigint, array[size]), repeat('1', size)::varbit, 1,"
            " timestamptz '2020-01-01Z' + (n + %s) * interval '1 s'"
            " from (select n, 1 + n * 7 %% 5 as size from generate_series(1, %s) n) x"
            " window v as (order by n), w as (order by n rows between unbounded preceding and 1 preceding)",
            [topic, partition, 7 * more, segments],
        )
    rows = twins.conn.execute(
        "select base_offset, sequenced_ts from gapless.log_segment where partition_id = 1 order by 1"
    ).fetchall()
    since = "select gapless.segment_since(%s, 1, %s::timestamptz + %s::interval)"
    for number, (base, moment) in enumerate(rows):
        after = rows[number + 1][0] if number + 1 < len(rows) else None
        assert twins.value(since, topic, moment, "0") == base
        assert twins.value(since, topic, moment, "-1 us") == base
        assert twins.value(since, topic, moment, "1 us") == after


def test_a_time_in_what_was_dropped(dated: Twins) -> None:
    """Its chunk may be there still: the log begins later."""
    topic = dated.topic_ids["orders"]
    since = "select gapless.offset_since(%s, 1, '-infinity')"
    run(dated, f"{DROPPED} values ({{topic}}, 1, 3, now())")
    assert dated.value(since, topic) == 3
    run(dated, "delete from gapless.log_segment where topic_id = {topic} and partition_id = 1")
    assert dated.value(since, topic) == 1
    assert dated.value("select gapless.segment_since(%s, 1, '-infinity')", topic) is None


def find(
    twins: Twins, wanted: list[int], since: str = "-infinity", partition: int = 1
) -> list[Any]:
    ask = "select * from gapless.offsets_of(%s, %s, %s, %s)"
    params = [twins.topic_ids["orders"], partition, wanted, since]
    return sorted(twins.conn.execute(ask, params).fetchall())


@pytest.mark.parametrize("partition", [0, 1, 2, 9])
def test_where_events_are(dated: Twins, partition: int) -> None:
    """Wherever they are said to be; those of another topic, and of nobody, are not found."""
    run(dated, "update gapless.log_segment set timeline = base_offset")
    log = ids(dated)
    other = dated.value(
        "select min(message_ids[1]) from gapless.log_segment where topic_id <> %s",
        dated.topic_ids["orders"],
    )
    wanted = [log[8], log[3], log[5], other, 999999]
    assert find(dated, wanted, partition=partition) == sorted(
        [(log[8], 1, 8, 7), (log[3], 1, 3, 1), (log[5], 1, 5, 4)]
    )
    assert find(dated, [], partition=partition) == []


def test_events_of_several_partitions(dated: Twins) -> None:
    first = dict(dated.conn.execute(
        "select partition_id, message_ids[2] from gapless.log_segment where topic_id = %s and base_offset <= 2",
        [dated.topic_ids["orders"]],
    ).fetchall())  # fmt: skip
    assert [row[1:3] for row in sorted(find(dated, list(first.values())), key=lambda row: row[1])] == [
        (0, 3), (1, 2), (2, 3),
    ]  # fmt: skip
    dated.conn.execute("update gapless.topic set partitions = 1, partitions_ever = 2")
    assert sorted(row[1] for row in find(dated, list(first.values()))) == [0, 1]
    dated.conn.execute("update gapless.topic set partitions = 3, partitions_ever = 1")
    assert sorted(row[1] for row in find(dated, list(first.values()))) == [0, 1, 2]


@pytest.mark.parametrize(("since", "found"), [("2020-01-02Z", 3), ("2020-01-02 00:00:01Z", 2), ("2020-01-04Z", 1),
                                              ("2020-01-04 00:00:01Z", 0)])  # fmt: skip
def test_events_are_looked_for_from_a_time_on(dated: Twins, since: str, found: int) -> None:
    log = ids(dated)
    assert len(find(dated, [log[1], log[4], log[8]], since)) == found


def test_events_that_are_far_apart(twins: Twins) -> None:
    """Many segments, more of them at each look; one event twice asked for is found at its place."""
    topic = twins.topic_ids["orders"]
    twins.conn.execute("delete from gapless.log_segment")
    twins.conn.execute(
        "insert into gapless.log_segment (topic_id, partition_id, base_offset, last_offset, message_ids, unit_ends, run)"
        " select %s, 1, 2 * n - 1, 2 * n, array[2 * n, 2 * n - 1], '01', 1 from generate_series(1, 120) n",
        [topic],
    )
    wanted = [1, 2, 8, 9, 10, 39, 40, 41, 42, 167, 168, 169, 170, 240, 241]
    swapped = [(n, 1, n + 1 if n % 2 else n - 1, None) for n in wanted[:-1]]
    assert find(twins, wanted) == swapped
    assert find(twins, [240], partition=0) == [(240, 1, 239, None)]
