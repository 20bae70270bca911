"""Which events are read together: each once, in order, of whole units, so many at a time (I3, I5)."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, product
from typing import Any

import psycopg
import pytest

from gapless.consume.read import units as read
from gapless.consume.read.claim import Claim, split
from gapless.consume.read.units import (
    FETCH_EVENTS,
    at_once,
    load_units,
    read_apart,
    read_units,
    under_settings,
    with_settings_checked,
)
from gapless.consume.session import ChangedError
from gapless.consume.unit import Fetch, Span, UnitRanges
from gapless.consume.user.handler import handler
from gapless.errors import HoleError
from gapless.features.filters.filtered import Kept, kept_spans
from gapless.keys import Partition
from gapless.log.event import Row
from support.every import every
from support.turn import terms

HERE = Partition(group_id="g", topic="t", topic_id=1, partition_id=3)
FIRST = 11
MOST = 3
TERMS = replace(terms(handler(topic="t")(lambda unit, conn: None)), stream_above_events=MOST)
NOBODY: Any = None  # no session: what reads is told by the test

Sizes = tuple[int, ...]


def row(id_: int) -> Row:
    return (id_, "k", None, b"{}", None, None, None, None, 7, 0, None, None)


class Shelf:
    """Where events are read, but for those that are missing."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[list[int]] = []
        self.missing: set[int] = set()
        monkeypatch.setattr(read, "fetch", self._fetch)

    def _fetch(self, conn: object, ids: Sequence[int]) -> list[Row]:
        self.asked.append(list(ids))
        for id_ in ids:
            if id_ in self.missing:
                raise HoleError(f"{id_} is missing", missing_id=id_)
        return [row(id_) for id_ in ids]


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch) -> Shelf:
    return Shelf(monkeypatch)


def spans_of(sizes: Sizes) -> UnitRanges:
    marks = "".join("0" * (size - 1) + "1" for size in sizes)
    return split(FIRST, [100 + n for n in range(sum(sizes))], marks)


def all_sizes() -> Iterator[Sizes]:
    return chain.from_iterable(product((1, 2, 3), repeat=count) for count in range(1, 5))


def together(sizes: Sizes) -> list[int]:
    """How many events each statement reads: neighbours, as many as go into one."""
    found = [0]
    for size in sizes:
        if found[-1] and found[-1] + size > MOST:
            found.append(0)
        found[-1] += size
    return found


def test_neighbours_are_read_together(shelf: Shelf) -> None:
    def check(sizes: Sizes) -> None:
        shelf.asked.clear()
        spans = spans_of(sizes)
        units = list(read_units(NOBODY, HERE, spans, TERMS, attempt=4))
        assert [unit.span for unit in units] == list(spans)
        assert {unit.attempt for unit in units} == {4}
        assert [[e.offset for e in unit] for unit in units] == [
            [span.first_offset + n for n in range(len(span.ids))] for span in spans
        ]
        assert [*chain(*shelf.asked)] == list(spans.ids)
        assert [len(ids) for ids in shelf.asked] == together(sizes)

    every(check, all_sizes(), str)


def test_what_was_read_with_the_claim_is_not_read_again(shelf: Shelf) -> None:
    spans = spans_of((1, 2))
    claimed = Claim(outcome="claimed", spans=spans)
    assert [unit.span for unit in load_units(NOBODY, HERE, claimed, TERMS)] == list(spans)
    assert shelf.asked == [[100, 101, 102]]
    with_rows = replace(claimed, rows=[row(id_) for id_ in spans.ids])
    assert [unit.span for unit in load_units(NOBODY, HERE, with_rows, TERMS)] == list(spans)
    assert len(shelf.asked) == 1


def test_units_apart_are_read_together_each_with_its_attempt(shelf: Shelf) -> None:
    def check(sizes: Sizes) -> None:
        shelf.asked.clear()
        spans = list(spans_of(sizes))
        attempts = {span.first_offset: n for n, span in enumerate(spans, 1)}
        units = list(apart(spans, attempts))
        assert [unit.span for unit in units] == spans
        assert [unit.attempt for unit in units] == list(attempts.values())
        assert [len(ids) for ids in shelf.asked] == together(sizes)

    every(check, all_sizes(), str)


def test_units_apart_with_a_hole_are_read_up_to_it(shelf: Shelf) -> None:
    spans = list(spans_of((1, 1, 1, 1)))
    shelf.missing = {101}
    units = apart(spans, dict.fromkeys(range(FIRST, FIRST + 4), 2))
    assert (unit := next(units)).first_offset == FIRST
    assert unit.attempt == 2
    with pytest.raises(HoleError) as raised:
        next(units)
    assert (raised.value.first_offset, raised.value.whole) == (FIRST + 1, 0)
    assert shelf.asked == [[100, 101, 102], [100], [101]]
    shelf.asked.clear()
    with pytest.raises(HoleError):
        next(apart(spans[1:2], {FIRST + 1: 1}))
    assert shelf.asked == [[101]], "one alone is not read twice"


def apart(spans: Sequence[Span], attempts: dict[int, int]) -> Iterator[Any]:
    return read_apart(NOBODY, HERE, spans, TERMS, attempts=attempts, through=lambda fetch: fetch)


def test_a_hole_says_how_much_stands_before_it(shelf: Shelf) -> None:
    shelf.missing = {105}
    with pytest.raises(HoleError) as raised:
        list(read_units(NOBODY, HERE, spans_of((1, 2, 1, 2, 1)), TERMS))
    assert (raised.value.first_offset, raised.value.whole) == (FIRST, 4)


def test_nothing_is_read_of_what_a_filter_passes(shelf: Shelf) -> None:
    """And a unit is read with others by what is kept of it, not by its size."""
    whole = spans_of((3, 3, 3))
    none = kept_spans(whole, Kept(ids=[], offsets=[]))
    assert list(read_units(NOBODY, HERE, none, TERMS)) == []
    assert shelf.asked == []
    some = kept_spans(whole, Kept(ids=[101, 104, 108], offsets=[12, 15, 19]))
    assert [len(unit) for unit in read_units(NOBODY, HERE, some, TERMS)] == [1, 1, 1]
    assert shelf.asked == [[101, 104, 108]]
    shelf.asked.clear()
    attempts = {11: 1, 14: 2, 17: 3}
    assert [unit.attempt for unit in apart(list(some), attempts)] == [1, 2, 3]
    assert shelf.asked == [[101, 104, 108]]


def test_it_reads_through_what_it_is_given_only_while_it_is_iterated(shelf: Shelf) -> None:
    def through(fetch: Fetch) -> Fetch:
        return lambda ids: fetch(ids)[::-1]

    (unit,) = read_units(NOBODY, HERE, spans_of((2,)), TERMS, through=through)
    assert [event.id for event in unit] == [100, 101], "it is read with its neighbours"
    assert unit.source.slice_events == FETCH_EVENTS
    assert [found[0] for found in unit.source.fetch([7, 8])] == [8, 7]
    (alone,) = read_apart(
        NOBODY, HERE, list(spans_of((2,))), TERMS, attempts={FIRST: 1}, through=through
    )
    assert [found[0] for found in alone.source.fetch([7, 8])] == [8, 7]


def test_so_many_are_read_at_once() -> None:
    limits = (1, FETCH_EVENTS - 1, FETCH_EVENTS, FETCH_EVENTS + 1)
    found = [at_once(replace(TERMS, stream_above_events=each)) for each in limits]
    assert found == [1, FETCH_EVENTS - 1, FETCH_EVENTS, FETCH_EVENTS]


def test_settings_are_suspected_unless_they_are_put_back() -> None:
    """Of an error that settings may have made; never of another."""
    made = handler(topic="t")(lambda unit, conn: None)

    def failing(error: Exception) -> Iterator[int]:
        yield 1
        raise error

    for error, sets, becomes in (
        (psycopg.errors.QueryCanceled("slow"), False, ChangedError),
        (psycopg.errors.QueryCanceled("slow"), True, psycopg.errors.QueryCanceled),
        (psycopg.errors.UniqueViolation("twice"), False, psycopg.errors.UniqueViolation),
        (ValueError("other"), False, ValueError),
    ):
        made.habits.sets = sets
        with pytest.raises(becomes) as raised, under_settings(made):
            raise error
        assert type(raised.value) is becomes
        with pytest.raises(becomes):
            list(with_settings_checked(made, failing(error)))
