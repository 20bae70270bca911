"""kept_in(): which events of a range a filter keeps, and how far that is known where some are missing."""

import json
from typing import Any

import pytest

from support.filtered import NUL, ODD, ids, write
from support.subscribed import numbers, subscribe
from support.twins import Twins

KEPT_IN = (
    "select kept_offsets, kept, filter_errors, upto, lost_offset, lost_id, matched from gapless.kept_in("
    "%(topic_id)s, 1, %(first)s, %(last)s, jsonb_populate_record(null::gapless.group_filter, %(filter)s),"
    " %(to_group)s)"
)
BIG = f"{ODD}value overflows numeric format"
ALL = list(range(1, 9))
Filter = dict[str, Any]
FILTERS: dict[str, tuple[int, int, Filter, str | None, list[int], list[str | None] | None]] = {
    "all": (1, 8, {}, None, ALL, None),
    "one": (5, 5, {}, None, [5], None),
    "of a segment": (2, 3, {}, None, [2, 3], None),
    "of two segments": (3, 4, {}, None, [3, 4], None),
    "beyond the end": (7, 20, {}, None, [7, 8], None),
    "for a group": (1, 8, {}, "billing", [1, 2, 4, 5, 6, 7, 8], None),
    "for another group": (1, 8, {}, "mail", [1, 3, 4, 5, 6, 7, 8], None),
    "a type": (1, 8, {"event_types": ["a"]}, None, [1, 4, 8], None),
    "a type for a group": (1, 8, {"event_types": ["b", "order.paid"]}, "mail", [3, 7], None),
    "types": (1, 8, {"event_types": ["order.paid", "b"]}, None, [2, 3, 7], None),
    "a pattern": (1, 8, {"event_types": ["order*"]}, None, [3, 5], None),
    "a pattern with a dot": (1, 8, {"event_types": ["*r.p*"]}, None, [3], None),
    "both": (1, 8, {"event_types": ["order*", "a"]}, None, [1, 3, 4, 5, 8], None),
    "no type is like none": (1, 8, {"event_types": ["*"]}, None, ALL, None),
    "no such type": (1, 8, {"event_types": ["c"]}, None, [], None),
    "a condition": (1, 3, {"condition": "$.n > 1"}, None, [2, 3], None),
    "a condition with a value": (
        1, 6, {"condition": "$.n > $min", "params": {"min": 3}}, None, [4, 5, 6], [NUL, None, None],
    ),
    "both kinds": (
        1, 8, {"event_types": ["a", "b"], "condition": "$.n > 1"}, None, [2, 4, 7], [None, NUL, BIG],
    ),
    "not to be asked, twice": (4, 7, {"condition": "$.n < 0"}, None, [4, 7], [NUL, BIG]),
}  # fmt: skip
# Of all of 1 to 8: events and segments that are missing; what is kept, up to where is looked, what is lost.
HOLES: dict[str, tuple[int, set[int], set[int], list[int], int, int | None, int | None]] = {
    "an event": (1, {5}, set(), [1, 2, 3, 4], 4, 5, 5),
    "the first": (1, {1, 7}, set(), [], 0, 1, 1),
    "the last": (1, {8}, set(), ALL[:7], 7, 8, 8),
    "one where the range begins": (4, {4}, set(), [], 3, 4, 4),
    "one before it": (4, {3}, set(), [4, 5, 6, 7, 8], 8, None, None),
    "a segment": (1, set(), {4}, [1, 2, 3], 3, 4, None),
    "a segment, from its middle": (2, set(), {4}, [2, 3], 3, 4, None),
    "the first segment": (1, set(), {1}, [], 0, 1, None),
    "where the range begins": (5, set(), {4}, [], 4, 5, None),
    "the last segment": (1, set(), {7}, [1, 2, 3, 4, 5, 6], 6, None, None),
    "all": (1, set(), {1, 4, 7}, [], 0, None, None),
    "an event before a segment": (1, {2}, {4}, [1], 1, 2, 2),
    "a segment before an event": (1, {7}, {4}, [1, 2, 3], 3, 4, None),
}


def ask(
    twins: Twins, first: int, last: int, given: Filter | None = None, to_group: str | None = None
) -> tuple[Any, ...]:
    params = {
        "topic_id": twins.topic_ids["orders"], "first": first, "last": last,
        "filter": json.dumps({"params": {}, "subscribed": False} | (given or {})),
        "to_group": to_group,
    }  # fmt: skip
    (row,) = twins.conn.execute(KEPT_IN, params).fetchall()
    return tuple(row)


@pytest.mark.parametrize("name", FILTERS)
def test_what_a_filter_keeps(twins: Twins, name: str) -> None:
    first, last, given, to_group, kept, errors = FILTERS[name]
    write(twins)
    found = ask(twins, first, last, given, to_group)
    assert found == (kept, ids(twins, kept), errors, min(last, 8), None, None, None)


@pytest.mark.parametrize("name", HOLES)
def test_what_is_missing_ends_it(twins: Twins, name: str) -> None:
    first, events, segments, kept, upto, lost_offset, lost = HOLES[name]
    numbers = dict(zip(ALL, ids(twins, ALL), strict=True))
    twins.lose(*events)
    twins.conn.execute(
        "delete from gapless.log_segment where base_offset = any (%s)", [list(segments)]
    )
    found = ask(twins, first, 8)
    lost_id = None if lost is None else numbers[lost]
    expected = (kept, [numbers[n] for n in kept], None, upto, lost_offset, lost_id, None)
    assert found == expected


def test_what_others_miss_is_not_missing_here(twins: Twins) -> None:
    """Of the other topic and of the other partitions a segment is gone, and one is where none is here."""
    elsewhere = f"not (topic_id = {twins.topic_ids['orders']} and partition_id = 1)"
    moved = "base_offset = base_offset + 1, last_offset = last_offset + 1"
    for change in (
        f"delete from gapless.log_segment where {elsewhere} and base_offset in (1, 4)",
        f"update gapless.log_segment set {moved} where {elsewhere}",
    ):
        twins.conn.execute(change)  # type: ignore[arg-type]
        for first, last in ((1, 8), (4, 8), (5, 6), (7, 9), (5, 8), (2, 4)):
            kept = [n for n in ALL if first <= n <= last]
            assert ask(twins, first, last)[:5] == (kept, ids(twins, kept), None, kept[-1], None)
    twins.conn.execute(
        f"delete from gapless.log_segment where not ({elsewhere}) and base_offset = 4"
    )  # type: ignore[arg-type]
    assert ask(twins, 1, 8)[3:5] == (3, 4)


def test_how_others_are_cut_does_not_matter(twins: Twins) -> None:
    """Elsewhere segments begin one further, and have one event; here the second of three is missing."""
    here = f"topic_id = {twins.topic_ids['orders']} and partition_id = 1"
    twins.conn.execute(f"delete from gapless.log_segment where {here} and base_offset = 4".encode())
    twins.conn.execute(
        "update gapless.log_segment set base_offset = base_offset + 1, last_offset = base_offset + 1,"
        " message_ids = message_ids[:1], unit_ends = '1'"
        f" where not ({here})".encode()
    )
    assert ask(twins, 1, 8)[3:5] == (3, 4)
    assert ask(twins, 2, 8)[3:5] == (3, 4)


@pytest.mark.parametrize(
    ("first", "last", "kept", "matched", "errors"),
    [
        (1, 8, [4, 6, 7], [None, "ann,ben", None], [NUL, None, BIG]), (5, 6, [6], ["ann,ben"], None),
        (4, 4, [4], [None], [NUL]), (7, 8, [7], [None], [BIG]), (1, 3, [], [], None),
    ],
)  # fmt: skip
def test_what_subscriptions_match(
    twins: Twins,
    first: int,
    last: int,
    kept: list[int],
    matched: list[str | None],
    errors: list[str | None] | None,
) -> None:
    """Two match the sixth event; what cannot be asked is kept, and says why."""
    write(twins)
    for name, match in (("ann", {"n": "$.n"}), ("ben", {"m": "$.n"})):
        subscribe(twins, name, match=match, params=dict.fromkeys(match, 6))
    given = {"group_id": "billing", "topic_id": twins.topic_ids["orders"], "subscribed": True}
    found = ask(twins, first, last, given)
    assert found[:2] == (kept, ids(twins, kept))
    said = [
        each and each.removeprefix("no subscription could be asked: ") for each in found[2] or ()
    ]
    assert said == [each and each.removeprefix(ODD) for each in errors or ()]
    assert found[3:6] == (last, None, None)
    names = numbers(twins)
    assert [
        each and ",".join(names[int(number)] for number in each.split(",")) for each in found[6]
    ] == matched


@pytest.mark.parametrize(("first", "upto"), [(1, 2), (2, 2), (4, 5), (3, 2), (7, 8)])
def test_the_first_of_two_gaps_counts(twins: Twins, first: int, upto: int) -> None:
    """Every event is a segment of its own; the third and the sixth are missing, here and elsewhere others."""
    conn, here = twins.conn, f"topic_id = {twins.topic_ids['orders']} and partition_id = 1"
    conn.execute(
        "create temp table each on commit drop as select s.*, u.n, u.id from gapless.log_segment s"
        " cross join lateral unnest(s.message_ids) with ordinality as u (id, n)"
    )
    conn.execute("delete from gapless.log_segment")
    conn.execute(
        "insert into gapless.log_segment (topic_id, partition_id, base_offset, last_offset, message_ids, unit_ends,"
        " run, layout, timeline) select topic_id, partition_id, base_offset + n - 1, base_offset + n - 1, array[id],"
        f" '1', run, layout, timeline from each where not ({here}) or base_offset + n - 1 not in (3, 6)"  # type: ignore[arg-type]
    )
    found = ask(twins, first, 8)
    kept = [n for n in ALL if first <= n <= upto]
    lost = None if upto == 8 else upto + 1
    assert found == (kept, found[1], None, upto, lost, None, None)
    assert len(found[1]) == len(kept)
