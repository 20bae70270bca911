"""Where units are: their offsets, their names, the timelines on which they were given, however a claim is cut."""

import gc
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from gapless.consume.read.claim import split
from gapless.consume.unit import (
    FIRST_TIMELINE,
    MADE_AT_ONCE,
    NOTHING,
    Source,
    Span,
    Timelines,
    Unit,
    timeline_at,
)
from gapless.keys import Partition
from gapless.log.event import Row, transaction_uuid

PLACE = Partition(group_id="g", topic="t", topic_id=1, partition_id=3)
LINES: Timelines = ((0, 1), (13, 2), (15, 7))


def row(number: int, headers: bytes | None = None) -> Row:
    return (number, None, None, b"1", headers, None, None, None, 9, 0, None, None)


class _Log:
    """What is read of a log, and in which pieces."""

    def __init__(
        self, slice_events: int = 2, timelines: Timelines = FIRST_TIMELINE, attempt: int = 1
    ) -> None:
        self.read: list[list[int]] = []
        self.source = Source(PLACE, self._fetch, slice_events, attempt, timelines)

    def _fetch(self, ids: Sequence[int]) -> list[Row]:
        self.read.append([*ids])
        return [row(number, b'{"n": %d}' % number if number % 2 else None) for number in ids]


@pytest.mark.parametrize(
    ("offset", "timeline"), [(1, 1), (12, 1), (13, 2), (14, 2), (15, 7), (16, 7), (10**9, 7)]
)
def test_an_offset_was_given_on_one_timeline(offset: int, timeline: int) -> None:
    assert timeline_at(LINES, offset) == timeline
    assert timeline_at(FIRST_TIMELINE, offset) == 1
    assert timeline_at(((0, 5),), offset) == 5


@pytest.mark.parametrize("ends", ["1111111", "0101011", "0000001", "1000001"])
@pytest.mark.parametrize("timelines", [FIRST_TIMELINE, LINES])
def test_a_range_is_cut_into_units(ends: str, timelines: Timelines) -> None:
    """Each, and each run of them, is the same whether it is asked for alone or all are."""
    ids = list(range(101, 108))
    spans = split(11, ids, ends, timelines)
    cut = [n + 1 for n, end in enumerate(ends) if end == "1"]
    starts = [0, *cut[:-1]]
    expected = [
        Span(11 + start, ids[start:end], timeline_at(timelines, 11 + start))
        for start, end in zip(starts, cut, strict=True)
    ]
    assert (list(spans), len(spans)) == (expected, len(expected))
    assert [span.last_offset for span in spans] == [10 + end for end in cut]
    for n in range(-len(cut), len(cut)):
        assert spans[n] == expected[n]
    for n in (len(cut), -len(cut) - 1):
        with pytest.raises(IndexError):
            spans[n]
    for first in range(len(cut) + 1):
        for stop in range(first, len(cut) + 1):
            some = spans[first:stop]
            assert list(some) == expected[first:stop]
            assert (some.wanted, some.cuts) == (some.ids, some.ends)
            for again in range(stop - first + 1):
                assert list(some[again:]) == expected[first:stop][again:]
    with pytest.raises(AssertionError):
        spans[::2]
    units = spans.units(_Log().source, [row(number) for number in ids])
    assert [(unit.span.first_offset, [*unit.span.ids], unit.span.timeline) for unit in units] == [
        (span.first_offset, span.ids, span.timeline) for span in expected
    ]


def test_of_none_there_is_nothing() -> None:
    units = NOTHING.units(_Log().source, [])
    assert (len(NOTHING), list(NOTHING), list(NOTHING[:5]), list(units)) == (0, [], [], [])


def test_one_is_several() -> None:
    span = Span(15, [101, 102], 7)
    spans = span.alone()
    assert (list(spans), spans.ends, spans.timelines) == ([span], [2], ((0, 7),))


@pytest.mark.parametrize("timelines", [FIRST_TIMELINE, LINES])
@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_unit_that_is_read_while_it_is_iterated_over(at: int, timelines: Timelines) -> None:
    log = _Log()
    spans = split(11, list(range(101, 108)), "1000101", timelines)
    unit = spans.unit(at, log.source, None)
    first, ids = ((11, [101]), (12, [102, 103, 104, 105]), (16, [106, 107]))[at]
    line = timeline_at(timelines, first)
    assert (unit.first_offset, len(unit), unit.last_offset, unit.is_streamed) == (
        first,
        len(ids),
        first + len(ids) - 1,
        True,
    )
    assert (unit.span, unit.idempotency_key) == (
        Span(first, ids, line),
        f"g/t/3@{first}" + (f"~{line}" if line > 1 else ""),
    )
    assert (list(unit.raw_headers()), log.read) == ([], [])
    found = [
        (event.topic, event.partition, event.offset, event.id, event.transaction_id)
        for event in unit
    ]
    assert found == [
        ("t", 3, first + n, number, transaction_uuid(9, line)) for n, number in enumerate(ids)
    ]
    assert log.read == [ids[n : n + 2] for n in range(0, len(ids), 2)]
    assert [
        (single.first_offset, [*single.span.ids], len(single)) for single in unit.singles()
    ] == [(first + n, [number], 1) for n, number in enumerate(ids)]
    log.read.clear()
    assert unit.transaction_id == unit.correlation == transaction_uuid(9, line)
    assert (unit.cause, log.read) == (None, [ids[:1]])
    assert list(unit.raw_headers()) == ([b'{"n": %d}' % ids[0]] if ids[0] % 2 else [])
    assert log.read == [ids[:1]]


def test_a_unit_that_is_read() -> None:
    log = _Log(attempt=4)
    rows = [row(101, b"{}"), row(102), row(103, b'{"a": 1}')]
    unit: Unit[Any] = Unit(log.source, 11, rows)
    assert (unit.topic, unit.partition, unit.group, unit.is_replay, unit.attempt) == (
        "t",
        3,
        "g",
        False,
        4,
    )
    assert (unit.is_streamed, unit.subscriptions, repr(unit)) == (False, (), "Unit(t/3@11..13)")
    assert list(unit.raw_headers()) == [b"{}", b'{"a": 1}']
    assert (unit.span, log.read) == (Span(11, [101, 102, 103], 1), [])
    replay = Unit(replace(log.source, partition=replace(PLACE, is_replay=True)), 11, rows)
    assert replay.is_replay
    same = split(11, [101, 102, 103], "001").unit(0, log.source, rows)
    assert ([event.id for event in same], same.is_streamed, log.read) == (
        [101, 102, 103],
        False,
        [],
    )


@pytest.mark.parametrize(
    ("first", "name"), [(12, "g/t/3@12..14"), (13, "g/t/3@12..14~2"), (15, "g/t/3@12..14~7")]
)
def test_offsets_are_named_with_the_timeline_of_the_first(first: int, name: str) -> None:
    assert _Log(timelines=LINES).source.key("12..14", first) == name


@pytest.mark.parametrize(
    ("ids", "ends"), [([1, 2], "1"), ([1], "11"), ([1, 2], "10"), ([1, 2], "00")]
)
def test_a_range_that_ends_within_a_unit_is_a_defect(ids: list[int], ends: str) -> None:
    with pytest.raises(AssertionError):
        split(1, ids, ends)


@pytest.mark.parametrize("size", [1, 2])
def test_few_units_wait_for_their_turn(size: int) -> None:
    """A thousand that wait are work for the garbage collector."""
    many = MADE_AT_ONCE * 2 + 1
    ids = [*range(1, 1 + size * many)]
    spans = split(1, ids, ("0" * (size - 1) + "1") * many)
    before = _units_alive()
    units = iter(spans.units(_Log().source, [row(number) for number in ids]))
    for at in range(many):
        assert next(units).first_offset == ids[at * size]
        if at in (0, MADE_AT_ONCE):
            assert _units_alive() <= before + MADE_AT_ONCE
    assert not [*units]


def _units_alive() -> int:
    return sum(type(each) is Unit for each in gc.get_objects())
