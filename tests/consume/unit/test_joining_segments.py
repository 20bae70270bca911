"""A claim is made of segments: what of them it takes, and which hole is in its way (I3, I5).

Tried is every claim of a small log of four segments, with each of them missing; a model says what
must come of it.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from gapless.consume.read.claim import before_hole, join, split
from gapless.consume.unit import FIRST_TIMELINE, NOTHING
from gapless.errors import HoleError
from support.every import every

BASES = {1: "11", 3: "011", 6: "1", 7: "0101"}
"""By their first offsets the segments, by the marks of their events: units are 1, 2, 3-4, 5, …"""
END = 10
MARKS = "".join(BASES.values())
LAST_OF_UNITS = [n for n, mark in enumerate(MARKS, 1) if mark == "1"]
FIRST_OF_UNITS = [1, *(n + 1 for n in LAST_OF_UNITS[:-1])]


class Asked(NamedTuple):
    """What is claimed, up to where is read ahead, and which segment is missing (0: none)."""

    first: int
    last: int
    until: int
    missing: int


def segments(asked: Asked, timelines: dict[int, int | None] | None = None) -> list[Any]:
    """Return what the database answers: what overlaps the claim and what is read ahead."""
    return [
        ("claimed", asked.first, asked.last, "7", None, base, ids(base, base + len(marks)), marks,
         (timelines or {}).get(base))
        for base, marks in BASES.items()
        if base != asked.missing and base <= asked.until and base + len(marks) > asked.first
    ]  # fmt: skip


def ids(start: int, stop: int) -> list[int]:
    return [100 + n for n in range(start, stop)]


def all_asked() -> Iterator[Asked]:
    """Yield claims of which at least the first event is there: the database tells of others."""
    for missing in (0, *BASES):
        for first in FIRST_OF_UNITS:
            if missing and missing <= first < missing + len(BASES[missing]):
                continue
            for last in (each for each in LAST_OF_UNITS if each >= first):
                yield from (Asked(first, last, n, missing) for n in range(last, END + 3))


def test_a_claim_is_what_was_asked_for_up_to_the_first_hole() -> None:
    def check(asked: Asked) -> None:
        hole = asked.missing if asked.missing > asked.first else END + 1
        if hole <= asked.last and any(base > hole for _, _, _, _, _, base, *_ in segments(asked)):
            with pytest.raises(HoleError) as raised:
                join(segments(asked), asked.last, asked.until)
            before = MARKS[asked.first - 1 : hole - 1].rfind("1") + 1
            assert (raised.value.first_offset, raised.value.whole) == (asked.first, before)
            assert f"offsets {hole} to {hole + len(BASES[hole]) - 1} are" in str(raised.value)
        elif hole <= asked.last:
            with pytest.raises(HoleError) as raised:
                join(segments(asked), asked.last, asked.until)
            assert raised.value.first_offset == asked.first
        else:
            stop = min(asked.until, hole - 1, END) + 1
            found, marks, lines = join(segments(asked), asked.last, asked.until)
            assert found == ids(asked.first, stop)
            assert marks == MARKS[asked.first - 1 : stop - 1]
            assert lines is FIRST_TIMELINE

    every(check, all_asked(), str)


@pytest.mark.parametrize(
    ("by_base", "lines"),
    [
        ({1: None, 3: 1, 6: None, 7: 1}, ((0, 1),)),
        ({1: 2, 3: 2, 6: 2, 7: 2}, ((0, 2),)),
        ({1: None, 3: 2, 6: 2, 7: 3}, ((0, 1), (3, 2), (7, 3))),
        ({1: 2, 3: 2, 6: 3, 7: 3}, ((0, 2), (6, 3))),
    ],
)
def test_which_timeline_gave_an_offset(
    by_base: dict[int, int | None], lines: tuple[tuple[int, int], ...]
) -> None:
    asked = Asked(1, END, END, 0)
    assert join(segments(asked, by_base), END, END)[2] == lines


def test_a_claim_that_ends_amid_a_unit_is_a_hole_behind_the_last_whole_one() -> None:
    for first, last, whole in ((1, 3, 2), (2, 3, 1), (1, 7, 6), (1, 9, 8)):
        with pytest.raises(HoleError, match=f"offset {last} ends no unit") as raised:
            join(segments(Asked(first, last, END, 0)), last, END)
        assert (raised.value.first_offset, raised.value.whole) == (first, whole)
    with pytest.raises(HoleError, match="2 ids for the offsets 1 to 5"):
        join(segments(Asked(1, 2, 2, 0)), 5, 5)


def test_what_is_missing_among_events_says_how_much_is_whole_before_it() -> None:
    spans = split(11, ids(1, 11), MARKS)
    for missing_id, whole in ((101, 0), (102, 1), (103, 2), (104, 2), (105, 4), (110, 8)):
        with pytest.raises(HoleError) as raised, before_hole(spans):
            raise HoleError("x", missing_id=missing_id)
        assert (raised.value.first_offset, raised.value.whole) == (11, whole), missing_id
    with pytest.raises(HoleError) as raised, before_hole(spans):
        raise HoleError("x", missing_id=99, whole=3)
    assert raised.value.whole == 3, "of another range: it says itself"
    with pytest.raises(ValueError, match="other"), before_hole(NOTHING):
        raise ValueError("other")
