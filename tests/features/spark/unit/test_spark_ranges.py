"""How reads are cut into tasks, and how options are refused; no database, no Spark."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gapless.errors import UsageError
from gapless.features.spark.columns import require_own_schema, schema_ddl
from gapless.features.spark.offsets import (
    StartPosition,
    created_in,
    from_json,
    mark,
    timeline_in,
    to_json,
)
from gapless.features.spark.options import read_options
from gapless.features.spark.ranges import Range, chunks, plan_tasks

SECOND = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)


def _range(partition_id: int, first: int, events: int) -> Range:
    return Range(
        topic="t",
        topic_id=1,
        partition_id=partition_id,
        first_offset=first,
        last_offset=first + events - 1,
    )


_RANGES = st.lists(st.tuples(st.integers(1, 50), st.integers(0, 300)), max_size=8).map(
    lambda made: [_range(n, first, events) for n, (first, events) in enumerate(made)]
)


def _offsets(ranges: Iterable[Range]) -> dict[int, list[int]]:
    """Return the offsets of each partition, in the order they are read."""
    found: dict[int, list[int]] = {}
    for each in ranges:
        offsets = range(each.first_offset, each.last_offset + 1)
        found.setdefault(each.partition_id, []).extend(offsets)
    return {partition_id: offsets for partition_id, offsets in found.items() if offsets}


@settings(deadline=None)
@given(_RANGES, st.integers(1, 400), st.integers(1, 9))
@example([_range(0, 1, 4)], 2, 3)
def test_tasks_hold_every_offset_once_and_in_order(
    ranges: list[Range], events_max: int, tasks_min: int
) -> None:
    tasks = plan_tasks(ranges, events_max=events_max, tasks_min=tasks_min)
    assert _offsets(each for task in tasks for each in task) == _offsets(ranges)
    sizes = [sum(each.events for each in task) for task in tasks]
    total = sum(each.events for each in ranges)
    assert all(0 < size <= events_max for size in sizes)
    assert len(tasks) >= min(tasks_min, total)
    assert not sizes or max(sizes) - min(sizes) <= 1
    assert all(len(task) <= len(ranges) for task in tasks)


@settings(deadline=None)
@given(_RANGES, st.integers(1, 400))
def test_chunks_hold_every_offset_once_and_in_order(ranges: list[Range], events_max: int) -> None:
    cut = chunks(ranges, events_max)
    assert _offsets(each for one in cut for each in one) == _offsets(ranges)
    assert all(sum(each.events for each in one) <= events_max for one in cut)


def test_a_task_reads_all_partitions_from_the_same_place() -> None:
    ranges = [_range(0, 1, 8000), _range(1, 1, 4000), _range(2, 1, 4000)]
    for n, task in enumerate(plan_tasks(ranges, events_max=4000, tasks_min=1)):
        for each in task:
            place = (each.first_offset - 1) / ranges[each.partition_id].events
            assert place == pytest.approx(n / 4, abs=0.05)


def test_what_is_archived_is_read_before_what_is_not() -> None:
    live = _range(0, 501, 500)
    archived = replace(_range(0, 1, 500), archive="/somewhere")
    tasks = plan_tasks([live, archived], events_max=300, tasks_min=1)
    offsets = [
        offset
        for task in tasks
        for each in sorted(task, key=lambda one: one.archive is None)
        for offset in range(each.first_offset, each.last_offset + 1)
    ]
    assert offsets == list(range(1, 1001))


def test_offsets_are_kafkas_json() -> None:
    document = {"orders": {"0": 23, "1": -2}}
    assert from_json(document) == {"orders": {0: 23, 1: -2}}
    assert to_json(from_json(document)) == document
    marked = to_json(from_json(document), mark(2, {"orders": 7}))
    assert (from_json(marked), timeline_in(marked)) == (from_json(document), 2)
    assert (created_in(marked, "orders"), created_in(marked, "other")) == (7, None)
    assert (timeline_in(document), created_in(document, "orders")) == (None, None)


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({"startingOffsets": "EARLIEST"}, {"kind": "earliest"}),
        ({"startingOffsets": "group:lab"}, {"kind": "group", "group_id": "lab"}),
        ({"startingOffsets": '{"a": {"0": -1}}'}, {"kind": "offsets", "offsets": {"a": {0: -1}}}),
        ({"startingOffsets": "-1000"}, {"kind": "back", "back": 1000}),
        ({"startingOffsets": " -90s "}, {"kind": "ago", "ago": timedelta(seconds=90)}),
        ({"startingOffsets": "-7D"}, {"kind": "ago", "ago": timedelta(days=7)}),
        ({"startingTimestamp": "1000"}, {"kind": "moment", "moment": SECOND}),
        ({"startingTimestamp": "1970-01-01T00:00:01"}, {"kind": "moment", "moment": SECOND}),
        (
            {
                "startingOffsetsByTimestamp": '{"a": {"1": 1000}, "b": {"0": "1970-01-01T00:00:01Z"}}'
            },
            {"kind": "moments", "moments": {"a": {1: SECOND}, "b": {0: SECOND}}},
        ),
        ({}, None),
    ],
)
def test_a_place_is_read_from_one_option(
    options: dict[str, str], place: dict[str, Any] | None
) -> None:
    read = read_options({"url": "host=x", "subscribe": "a,b", **options})
    expected = None if place is None else StartPosition(option=next(iter(options)), **place)
    assert read.starting == expected
    assert read.ending is None


@pytest.mark.parametrize(
    ("options", "schema"),
    [
        ({}, "`key` STRING, `value` STRING, `headers` STRING"),
        (
            {"keyFormat": "binary", "valueFormat": "binary", "includeHeaders": "true"},
            "`key` BINARY, `value` BINARY, `headers` ARRAY<STRUCT<key: STRING, value: BINARY>>",
        ),
    ],
)
def test_a_schema_of_another_is_refused(options: dict[str, str], schema: str) -> None:
    """Spark would compare it with the first batch of each task, and fail them all."""
    read = read_options({"url": "x", "subscribe": "a", "columns": "key,value,headers", **options})
    assert schema_ddl(read.columns, read.formats) == schema
    short = [
        ("key", "binary" if options else "string"),
        ("value", "binary" if options else "string"),
        ("headers", "array<struct<key:string,value:binary>>" if options else "string"),
    ]
    require_own_schema(short, read.columns, read.formats)
    for other in (short[:2], [*short[:2], ("headers", "map<string,string>")], short[::-1]):
        with pytest.raises(UsageError, match=r"leave \.schema\(\.\.\.\) out, and choose columns"):
            require_own_schema(other, read.columns, read.formats)


def test_a_tasks_size_has_kafkas_name_too() -> None:
    for name in ("recordsPerTask", "maxRecordsPerPartition"):
        assert read_options({"url": "x", "subscribe": "a", name: "7"}).records_per_task == 7


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "which topics"),
        ({"subscribe": "a", "topic": "b"}, "which topics"),
        ({"subscribe": " , "}, "is empty"),
        ({"assign": '{"a": 1}'}, "assign is not"),
        ({"assign": "{}"}, "assign names no partition"),
        ({"assign": '{"a": [0], "b": []}'}, "assign names no partition"),
        ({"subscribe": "a", "partitions": ""}, "partitions is empty"),
        ({"subscribe": "a", "eventTypes": " "}, "eventTypes is empty"),
        ({"subscribe": "a", "startingOffsets": "{"}, "startingOffsets is not JSON"),
        ({"subscribe": "a", "startingOffsets": '{"a": {"0": "x"}}'}, "startingOffsets is not JSON"),
        ({"subscribe": "a", "startingOffsets": '{"a": {"0": -3}}'}, "startingOffsets is not JSON"),
        ({"subscribe": "a", "startingOffsets": "soon"}, "earliest, latest"),
        ({"subscribe": "a", "startingOffset": "latest"}, "did you mean startingOffsets"),
        ({"subscribe": "a", "columns": "vlaue"}, "did you mean value"),
        ({"subscribe": "a", "columns": "key,key"}, "each once"),
        ({"subscribe": "a", "maxOffsetsPerTrigger": "0"}, "1 or more"),
        ({"subscribe": "a", "maxTriggerDelay": "soon"}, "maxTriggerDelay"),
        ({"subscribe": "a", "failOnDataLoss": "maybe"}, "true or false"),
        ({"subscribe": "a", "startingTimestamp": "noon"}, "startingTimestamp"),
        ({"subscribe": "a", "partitions": "x"}, "numbers of partitions"),
        ({"subscribe": "a", "startingTimestamp": "1", "startingOffsets": "latest"}, "not both"),
        ({"subscribe": "a", "pushdown": "true"}, "there is no option"),
        ({"subscribe": "a", "subscribePattern": "b"}, "one of them"),
        ({"subscribePattern": "orders[.*"}, "is no regular expression"),
        ({"subscribePatern": "a"}, "did you mean subscribePattern"),
        ({"subscribe": "a", "kafka.bootstrap.servers": "x:9092"}, "url, or GAPLESS_DSN"),
        ({"subscribe": "a", "kafka.group.id": "x"}, "groupId shows"),
        ({"subscribe": "a", "startingOffsets": "-10y"}, "-10m is a time ago"),
        ({"subscribe": "a", "startingOffsets": "-"}, "-1000 events back"),
        ({"subscribe": "a", "startingOffsets": "-1"}, "within JSON only"),
        ({"subscribe": "a", "startingOffsets": "-2"}, "within JSON only"),
        ({"subscribe": "a", "startingOffsets": "-36501d"}, "36500 days at most"),
        ({"subscribe": "a", "startingOffsets": "10m"}, "-10m, -1000 or JSON"),
        (
            {"subscribe": "a", "startingOffsets": "-10m", "endingOffsets": "-1h"},
            "goes back less far",
        ),
        (
            {"subscribe": "a", "startingOffsets": "-100", "endingOffsets": "-1000"},
            "goes back less far",
        ),
        ({"subscribe": "a", "startingTimestamp": "2", "endingTimestamp": "1"}, "is later than"),
        (
            {"subscribe": "a", "startingOffsets": "latest", "endingOffsets": "earliest"},
            "wrong way round",
        ),
        ({"subscribe": "a", "startingOffsetsByTimestamp": "17"}, "ByTimestamp is not JSON"),
        ({"subscribe": "a", "endingOffsetsByTimestamp": '{"a": {"x": 1}}'}, "is not JSON"),
        ({"subscribe": "a", "endingOffsetsByTimestamp": '{"a": {"0": true}}'}, "is not JSON"),
        ({"subscribe": "a", "endingOffsetsByTimestamp": '{"a": {"0": "noon"}}'}, "milliseconds"),
        (
            {"subscribe": "a", "endingOffsetsByTimestamp": "{}", "endingOffsets": "latest"},
            "not both",
        ),
        (
            {"subscribe": "a", "recordsPerTask": "5", "maxRecordsPerPartition": "5"},
            "not both: they are one",
        ),
        ({"subscribe": "a", "keyFormat": "avro"}, "string or binary"),
        ({"subscribe": "a", "includeHeaders": "yes"}, "true or false"),
    ],
)
def test_a_wrong_option_is_one_sentence(options: dict[str, str], says: str) -> None:
    with pytest.raises(UsageError, match=says) as refused:
        read_options({"url": "host=x", **options})
    assert "\n" not in str(refused.value)
