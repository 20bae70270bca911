"""How reads are cut into tasks, and how options are refused; no database, no Spark."""

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gapless.errors import UsageError
from gapless.features.spark.offsets import from_json, timeline_in, to_json
from gapless.features.spark.options import read_options
from gapless.features.spark.ranges import Range, chunks, plan_tasks


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
    marked = to_json(from_json(document), 2)
    assert (from_json(marked), timeline_in(marked)) == (from_json(document), 2)
    assert timeline_in(document) is None


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "which topics"),
        ({"subscribe": "a", "topic": "b"}, "which topics"),
        ({"subscribe": " , "}, "is empty"),
        ({"assign": '{"a": 1}'}, "assign is not"),
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
    ],
)
def test_a_wrong_option_is_one_sentence(options: dict[str, str], says: str) -> None:
    with pytest.raises(UsageError, match=says) as refused:
        read_options({"url": "host=x", **options})
    assert "\n" not in str(refused.value)
