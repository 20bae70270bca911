"""Which offset stands for a place of an old consumer, and back, and where an old consumer says it is."""

from typing import Any

import pytest

from features.attach.shop import (
    BEYOND,
    BY_LAST,
    BY_NEXT,
    BY_PART,
    LAST_PART,
    PLACES,
    PlacedBoxes,
    note,
)

CUTS: dict[tuple[str, int], list[tuple[int, int | str]]] = {
    ("box", 0): [
        (5, 1), (10, 1), (11, 3), (20, 3), (30, 3), (31, 4), (40, 4), (41, "40"), (45, "40"), (46, "40"), (50, "40"),
        (51, 8), (70, 8), (71, 9), (80, 9), (81, 11), (9999, 11),
    ],
    ("box", 1): [(10, 1), (20, 1), (21, 2), (60, 2), (61, 7), (1000, 7)],
    ("twin", 1): [(1000, 3), (1001, 4), (1500, 4), (1501, "1500"), (2000, "1500"), (2001, 7)],
    ("far", 0): [(1, 1), (2, "1"), (30, "1"), (100, "1"), (101, 33)],
    ("empty", 0): [(0, 11)],
    ("empty", 1): [(0, 7)],
}  # fmt: skip
CUT = "select gapless.attach_cut(a, %s, %s) from gapless.attached a where attachment_id = %s"


@pytest.mark.parametrize("where", CUTS)
def test_the_offset_that_stands_for_a_place(shop: PlacedBoxes, where: tuple[str, int]) -> None:
    table, partition = where
    for place, found in CUTS[where]:
        words = (partition, place, shop.numbers[table])
        if isinstance(found, int):
            assert (place, shop.value(CUT, *words)) == (place, found)
            continue
        said = f"no offset of partition {partition} stands for id {place}: the event of id {found} comes behind it"
        assert shop.refused(CUT, *words) == (
            "GL423", f"{said}; let the old consumer move on, and try again",
        )  # fmt: skip


BACK: dict[tuple[str, int], dict[int, int]] = {
    ("box", 0): {
        1: 10, 2: 30, 3: 30, 4: 40, 5: 40, 6: 45, 7: 70, 8: 70, 9: 80, 10: 81, 11: 81, 12: 81,
    },
    ("box", 1): {1: 20, 2: 60, 3: 81, 4: 81},
    ("twin", 0): {1: 5, 3: 5, 10: 5, 11: 2001},
    ("twin", 1): {1: 1000, 3: 1000, 4: 1500, 5: 1500, 6: 1500, 7: 2001},
    ("empty", 0): {1: 1, 11: 1},
}  # fmt: skip
PLACE = "select gapless.place_of(a, %s, %s) from gapless.attached a where attachment_id = %s"


@pytest.mark.parametrize("where", BACK)
def test_the_place_that_an_offset_stands_for(shop: PlacedBoxes, where: tuple[str, int]) -> None:
    table, partition = where
    found = {n: shop.value(PLACE, partition, n, shop.numbers[table]) for n in BACK[where]}
    assert found == BACK[where]


NOT_SAID = "GL400 say where the old consumer is, the id that is next (--place)"
SPREAD = 'GL409 "{}" has places of partitions {}, and the topic has 2 of them: make a topic with as many as it has'
# Where places are, of whom they are asked, what is said of them, and what they are.
OLD: list[tuple[dict[str, Any] | None, str, int | None, list[int] | str]] = [
    (None, "old", 7, [7, 7]),
    (None, "old", None, NOT_SAID),
    (BY_PART, "old", 7, "GL400 where the old consumer is is read from public.places, so no place is said"),
    (BY_PART, "old", None, [70, 60]),
    (BY_PART, "older", None, SPREAD.format("older", "0")),
    (BY_PART, "g", None, SPREAD.format("g", "7")),
    (BY_PART, "h", None, 'GL404 public.places has no place of "h"'),
    (BY_LAST, "old", None, [70, 70]),
    (BY_NEXT, "old", None, [70, 70]),
    (BY_NEXT, "older", None, [2, 2]),
    (LAST_PART, "old", None, [70, 60]),
    (BY_PART | {"partition": None}, "old", None, SPREAD.format("old", "0, 0")),
    (BY_PART | {"partition": None}, "g", None, [4, 4]),
]  # fmt: skip


@pytest.mark.parametrize(("places", "group", "said", "found"), OLD)
def test_where_an_old_consumer_is(
    shop: PlacedBoxes,
    places: dict[str, Any] | None,
    group: str,
    said: int | None,
    found: list[int] | str,
) -> None:
    number = note(shop, places)
    query = "select gapless.old_places(%s, %s, %s::bigint)"
    if isinstance(found, str):
        assert " ".join(shop.refused(query, number, group, said)) == found
    else:
        assert shop.value(query, number, group, said) == found


@pytest.mark.parametrize("group", ["old", "g"])
def test_a_place_that_is_null_is_no_place(shop: PlacedBoxes, group: str) -> None:
    """It may stand for the beginning; taken for the end, all events would be passed."""
    number = note(shop, BY_PART)
    shop.run("update public.places set next_offset = null where partition_id in (1, 7)")
    said = (
        f'GL409 "{group}" has a null for its place in public.places: write the id there that is next, '
        "or the last one it handled (0: none)"
    )
    refused = shop.refused("select gapless.old_places(%s, %s, null)", number, group)
    assert " ".join(refused) == said


# Where places are, the ids that are written there, and which rows change from what to what.
SET: list[tuple[dict[str, Any] | None, list[int | None], dict[str, str]]] = [
    (None, [1, 2], {}),
    (BY_PART, [11, 12], {"places old 0 70": "places old 0 11", "places old 1 60": "places old 1 12"}),
    (BY_PART, [None, None], {"places old 0 70": f"places old 0 {BEYOND}", "places old 1 60": f"places old 1 {BEYOND}"}),
    (LAST_PART, [11, None], {"places8 old 0 69": "places8 old 0 10", "places8 old 1 59": f"places8 old 1 {BEYOND}"}),
    (BY_LAST, [11, 11], {"places2 old 69": "places2 old 10"}),
    (BY_LAST, [None, None], {"places2 old 69": "places2 old 32766"}),
    (BY_NEXT, [11, 12], {"places4 old 70": "places4 old 11"}),
    (BY_NEXT, [None, None], {"places4 old 70": "places4 old 2147483646"}),
]  # fmt: skip


@pytest.mark.parametrize(("places", "ids", "changed"), SET)
def test_an_old_place_is_written(
    shop: PlacedBoxes, places: dict[str, Any] | None, ids: list[int | None], changed: dict[str, str]
) -> None:
    number = note(shop, places)
    before = [line for (line,) in shop.rows(PLACES)]
    shop.run(
        "select gapless.set_old_places(a, 'old', %s::bigint[]) from gapless.attached a where attachment_id = %s",
        ids,
        number,
    )
    assert [line for (line,) in shop.rows(PLACES)] == sorted(
        changed.get(each, each) for each in before
    )
