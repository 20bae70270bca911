"""What a filter keeps of a range: which units that is, and that no event of the range is lost (I5).

Tried is every choice of events of a few small ranges; a model says what must come of it.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, combinations
from typing import Any

import pytest

from gapless.consume.read.claim import split
from gapless.consume.unit import Source, Span
from gapless.features.filters.filtered import (
    FilteredRanges,
    FilteredSpan,
    FilteredUnit,
    Kept,
    kept_spans,
)
from gapless.keys import Partition
from gapless.log.event import (
    Event,
    MatchedEvent,
    MatchedSubscription,
    Row,
    Unasked,
    transaction_uuid,
)
from support.every import every

HERE = Partition(group_id="g", topic="t", topic_id=1, partition_id=3)
FIRST = 11
LINES = ((0, 1), (13, 2))
RANGES = [(1,), (3,), (1, 1, 1, 1), (2, 1, 3), (1, 3, 1), (3, 2)]
ONE, OTHER, THIRD = (MatchedSubscription(n, f"s{n}", {}) for n in (1, 2, 3))

Choice = tuple[tuple[int, ...], tuple[int, ...]]
"""How many events the units of a range have; the offsets of events that are kept."""
Seen = tuple[int, list[int], list[int]]
"""Of a unit its first offset, the offsets of all its events, and of those that are kept."""


def id_of(offset: int) -> int:
    """Ids have gaps where offsets have none."""
    return offset * 7


def row(id_: int) -> Row:
    return (id_, "k", None, b"{}", None, None, None, None, 7, 0, None, None)


def never(ids: object) -> list[Row]:
    raise AssertionError("it has its rows")


def choices() -> Iterator[Choice]:
    for sizes in RANGES:
        offsets = range(FIRST, FIRST + sum(sizes))
        picks = chain.from_iterable(combinations(offsets, n) for n in range(len(offsets) + 1))
        yield from ((sizes, pick) for pick in picks)


def kept_of(offsets: Sequence[int], **more: Any) -> Kept:
    return Kept(ids=[id_of(each) for each in offsets], offsets=list(offsets), **more)


def spans_of(choice: Choice, **more: Any) -> FilteredRanges:
    sizes, offsets = choice
    ids = [id_of(FIRST + n) for n in range(sum(sizes))]
    marks = "".join("0" * (size - 1) + "1" for size in sizes)
    return kept_spans(split(FIRST, ids, marks, LINES), kept_of(offsets, **more))


def expected(choice: Choice) -> list[Seen]:
    sizes, offsets = choice
    found = []
    first = FIRST
    for size in sizes:
        its = list(range(first, first + size))
        if kept := [each for each in its if each in offsets]:
            found.append((first, its, kept))
        first += size
    return found


def seen(span: Span) -> Seen:
    assert isinstance(span, FilteredSpan)
    assert list(span.kept.ids) == [id_of(each) for each in span.kept.offsets]
    assert span.timeline == (2 if span.first_offset >= 13 else 1)
    return span.first_offset, [each // 7 for each in span.ids], list(span.kept.offsets)


def test_the_units_are_those_that_keep_something() -> None:
    def check(choice: Choice) -> None:
        spans, units = spans_of(choice), expected(choice)
        assert [seen(spans[at]) for at in range(len(spans))] == units
        assert [seen(spans[-1 - at]) for at in range(len(spans))] == units[::-1]
        assert list(spans.wanted) == [id_of(each) for each in choice[1]]

    every(check, choices(), str)


def test_tiles_are_the_whole_range() -> None:
    def check(choice: Choice) -> None:
        spans = spans_of(choice)
        tiles = spans.beyond(0)
        ids = [id_ for tile in tiles for id_ in tile.ids]
        assert ids == [id_of(FIRST + n) for n in range(sum(choice[0]))]
        assert [tile.first_offset for tile in tiles] == [tile.ids[0] // 7 for tile in tiles]
        assert all(tile.timeline == (2 if tile.first_offset >= 13 else 1) for tile in tiles)
        assert [seen(each) for each in tiles if not each.is_passed] == expected(choice)
        for at, tile in enumerate(tiles):
            assert spans.beyond(tile.first_offset) == tiles[at:]
        assert spans.beyond(FIRST + len(ids)) == []

    every(check, choices(), str)


def test_cut_in_two_nothing_is_lost_or_there_twice() -> None:
    """A unit that fails cuts a claim: what is before it is passed with what lies between."""

    def check(choice: Choice) -> None:
        spans, units = spans_of(choice), expected(choice)
        for low in range(len(units)):
            left, right = spans[:low], spans[low:]
            assert [*left.ids, *right.ids] == list(spans.ids)
            assert [seen(each) for each in left] == units[:low]
            assert [seen(each) for each in right] == units[low:]
            assert left.first_offset == FIRST
            assert right.first_offset == FIRST + len(left.ids)
            assert [*left.wanted, *right.wanted] == list(spans.wanted)
            for high in range(low + 1, len(units) + 1):
                assert [seen(each) for each in spans[low:high]] == units[low:high]

    every(check, ((s, o) for s, o in choices() if o), str)


@pytest.mark.parametrize("streamed", [False, True])
def test_a_unit_has_its_own_events(streamed: bool) -> None:
    source = Source(HERE, lambda ids: [row(id_) for id_ in ids], 2)

    def check(choice: Choice) -> None:
        spans = spans_of(choice)
        if streamed:
            units = [spans.unit(at, source, None) for at in range(len(spans))]
        else:
            units = spans.units(source, [row(id_) for id_ in spans.wanted])
        for unit, (first, its, kept) in zip(units, expected(choice), strict=True):
            assert [(e.offset, e.id, e.transaction_id) for e in unit] == [
                (each, id_of(each), transaction_uuid(7, 2 if first >= 13 else 1)) for each in kept
            ]
            assert (unit.first_offset, unit.last_offset, len(unit)) == (first, its[-1], len(kept))
            assert seen(unit.span) == (first, its, kept)

    every(check, choices(), str)


def test_one_unit_is_those_of_several() -> None:
    plain = Span(0, [50, 60], 3)
    assert list(plain.alone()) == [plain]
    kept = FilteredSpan(0, [id_of(0), id_of(1)], 3, kept=kept_of([1]))
    several = kept.alone()
    assert (len(several), several[0], list(several.wanted)) == (1, kept, [id_of(1)])


def test_what_an_event_tells() -> None:
    """Of one whose filter could not be asked why; of subscriptions those that match it."""
    matches = {12: (ONE, OTHER), 13: (OTHER,)}
    spans = spans_of(((4,), (11, 12, 13, 14)), errors={11: "why"}, matches=matches)
    (unit,) = spans.units(Source(HERE, never, 9), [row(id_of(n)) for n in range(11, 15)])
    one, two, three, four = unit
    assert isinstance(one, Unasked)
    assert [type(each) for each in (two, three, four)] == [MatchedEvent] * 3
    assert [each.subscriptions for each in (two, three, four)] == [(ONE, OTHER), (OTHER,), ()]
    assert unit.subscriptions == (ONE, OTHER)
    (bare,) = spans_of(((1,), (11,))).units(Source(HERE, never, 9), [row(id_of(11))])
    assert isinstance(bare, FilteredUnit)
    assert [type(each) for each in bare] == [Event]
    assert bare.subscriptions == ()


def test_what_is_kept_for_some_subscriptions() -> None:
    kept = kept_of([11, 12, 13], matches={11: (ONE, OTHER), 12: (THIRD,), 13: (OTHER,)})
    assert kept.numbers == ["1,2", "3", "2"]
    some = kept.only({2})
    assert (list(some.ids), list(some.offsets)) == ([id_of(11), id_of(13)], [11, 13])
    assert some.numbers == ["2", "2"]
    assert kept_of([11]).numbers is None
    assert list(kept_of([11]).only({2}).offsets) == []
    with pytest.raises(ValueError, match="longer"):
        Kept(ids=[1], offsets=[11, 12], matches={}).only({2})


def test_alike_is_the_same_events_for_the_same_subscriptions() -> None:
    def made(*offsets: int, **more: Any) -> FilteredRanges:
        return spans_of(((1, 2, 1), offsets), **more)

    plain = split(FIRST, [id_of(FIRST + n) for n in range(4)], "1011")
    assert made(11, 12).is_like(made(11, 12))
    assert plain.is_like(made(11, 12, 13, 14))
    assert made(11, 12, 13, 14).is_like(plain)
    assert not made(11, 12).is_like(made(11, 13))
    assert not made(11).is_like(made(11, 12))
    assert not plain.is_like(made(11, 12, 13))
    assert made(11, matches={11: (ONE,)}).is_like(made(11, matches={11: (ONE,)}))
    assert not made(11, matches={11: (ONE,)}).is_like(made(11, matches={11: (OTHER,)}))
    assert not made(11, matches={11: (ONE,)}).is_like(made(11))
