"""stop_subscriptions(), resume_subscription(): what one missed is set aside for it, and for nobody else.

Four groups have the same subscriptions, deliveries and letters; each event of a partition has its offset in it.
"""

import json
from collections.abc import Iterator

import pytest

from features.filters.twins.stopping import (
    DELIVER,
    NO_AUDIT,
    PLACE,
    RESUME,
    ask_for,
    letters,
    resumed,
    settled,
    stopped,
)
from support.subscribed import number, numbers, rows, stop, subscribe
from support.twins import Twins

__all__ = ["settled"]  # fixtures


@pytest.fixture
def twins(settled: Twins) -> Iterator[Twins]:
    with settled.undone():
        settled.conn.execute("set local statement_timeout = '3s'")  # what goes on forever ends
        yield settled


# Which events it matches, from where it was stopped, where the group is; units, and what of them it matches.
MISSED: list[tuple[list[int], int, int, dict[int, list[int]]]] = [
    ([2, 5, 6, 8], 1, 9, {1: [2], 4: [5, 6], 8: [8]}),
    ([1, 3, 4, 5, 6, 7, 8], 1, 9, {1: [1], 3: [3], 4: [4, 5, 6], 7: [7], 8: [8]}),
    ([1, 2, 5, 6], 2, 6, {1: [2], 4: [5]}),
    ([1, 3, 4, 5], 3, 5, {3: [3], 4: [4]}),
    ([3], 3, 4, {3: [3]}),
    ([7], 7, 8, {7: [7]}),
    ([8], 8, 9, {8: [8]}),
    ([7, 8], 5, 8, {7: [7]}),
    ([1, 2, 3], 4, 9, {}),
    ([5], 5, 5, {}),
    ([5], 6, 5, {}),
    ([4, 5], 2, 9, {4: [4, 5]}),  # asked about 2, 3 to 4, 5 to 8: the unit is one
    ([3, 5], 2, 9, {3: [3], 4: [5]}),
    ([4, 5], 4, 9, {4: [4, 5]}),
    ([5, 6], 5, 9, {4: [5, 6]}),
]  # fmt: skip


@pytest.mark.parametrize(("of", "first", "upto", "units"), MISSED)
def test_what_one_missed_is_set_aside_for_it(
    twins: Twins, of: list[int], first: int, upto: int, units: dict[int, list[int]]
) -> None:
    """From exactly where it was stopped to exactly where the group is; the owner of the partition begins anew."""
    ann = ask_for(twins, *of)
    stopped(twins, first, upto)
    answer, changed = resumed(twins, 1)
    found = {unit: sorted(hits) for unit, hits in letters(changed, ann).items()}
    assert (answer, found) == (len(units), units)
    assert twins.value(RESUME) is None


def test_in_each_partition_what_was_missed_there(twins: Twins) -> None:
    ann = ask_for(twins, 3, 8)
    stopped(twins, 1, 9, "0, 2")
    stop(twins, "s.group_id = 'billing' and t.name = 'orders' and s.name = 'ann' and n = 1", 4)
    answer, changed = resumed(twins, 0, 1, 2)
    assert answer == 5
    for partition, units in enumerate(({3: [3], 8: [8]}, {8: [8]}, {3: [3], 8: [8]})):
        here = {name: row for name, row in changed.items() if f"orders {partition} " in name}
        assert letters(here, ann, partition) == units
        changed = {name: row for name, row in changed.items() if name not in here}
    assert changed == {}


def test_by_values_as_well(twins: Twins) -> None:
    """One without SQL; others of its values are not told."""
    for name in ("bob", "cid"):
        subscribe(twins, name, match={"n": "$.n"}, params={"n": 5})
    stop(twins, "s.name in ('bob', 'cid') and n = 1")
    twins.conn.execute(NO_AUDIT)
    changed = twins.changes(RESUME.replace("ann", "bob"))
    bob = number(twins, "bob")
    del changed[f"subscription_stop {bob} 1"], changed[PLACE]
    del changed["audit resume_subscription billing orders None"]
    assert letters(changed, bob) == {4: [5]}


# Which topics take direct messages, to which group and subscription one at offset 7 is; what ann is told of.
MESSAGES: list[tuple[str, str, str | None, dict[int, list[int]]]] = [
    ("'orders'", "billing", "ann", {3: [3], 7: [7]}),
    ("'orders', 'other'", "billing", "ann", {3: [3], 7: [7]}),
    ("'other'", "billing", "ann", {3: [3]}),
    ("'orders'", "billing", "ben", {3: [3]}),
    ("'orders'", "billing", None, {3: [3]}),
    ("'orders'", "mail", "ann", {3: [3]}),
]


@pytest.mark.parametrize(("direct", "group", "name", "units"), MESSAGES)
def test_a_message_to_it_was_missed_too(
    twins: Twins, direct: str, group: str, name: str | None, units: dict[int, list[int]]
) -> None:
    """Whatever it matches; and not one to others."""
    ann = ask_for(twins, 3)
    twins.conn.execute(f"update gapless.topic set direct = true where name in ({direct})")
    headers = {"gapless-to-group": group, "gapless-to-subscription": name}
    twins.conn.execute(
        "update gapless.outbox_message_t set headers = jsonb_strip_nulls(%s)"
        " where id = (select message_id from gapless.read('orders', 1, 7, 7))",
        [json.dumps(headers)],
    )
    stopped(twins, 1, 9)
    assert letters(resumed(twins, 1)[1], ann) == units


def test_what_was_finished_ahead_was_missed_too(twins: Twins) -> None:
    """Here, not elsewhere; what is in hand was killed by nobody."""
    ann = ask_for(twins, 3, 4, 5, 6, 7, 8)
    stopped(twins, 1, 4)
    everywhere, here = False, True
    twins.conn.execute(DELIVER, [3, 3, 3, True, everywhere])
    twins.conn.execute(DELIVER, [4, 6, 2, True, here])
    twins.conn.execute(DELIVER, [7, 7, 2, False, everywhere])
    twins.conn.execute(DELIVER, [8, 8, 0, False, everywhere])
    twins.conn.execute(
        "update gapless.delivery set finished = true where first_offset = 8"
        " and not (group_id = 'billing' and topic_id = gapless.topic_id('orders') and partition_id = 1)"
    )
    _, changed = resumed(twins, 1)
    assert changed.pop("delivery billing orders 1 7") == {"crashes": (2, 1)}
    assert letters(changed, ann) == {3: [3], 4: [4, 5, 6]}


def test_a_seek_moves_what_is_stopped_of_its_place_alone(twins: Twins) -> None:
    """What waits for a subscription that is stopped waits again, from there on; not what waits from before."""
    twins.conn.execute("delete from gapless.subscription_stop")
    stop(twins, "true", 7)
    twins.conn.execute(
        "update gapless.subscription_stop set from_offset = 2 where partition_id = 0"
    )
    before = rows(twins)
    twins.conn.execute("select gapless.move_offset('billing', 'orders', 1, 9, 3)")
    twins.conn.execute("select gapless.move_offset('billing', 'orders', 0, 9, 3)")
    after = rows(twins)
    stops = (name for name in after if name.startswith("stop "))
    moved = {name: after[name]["from_offset"] for name in stops if after[name] != before[name]}
    assert moved == {f"stop billing orders {name} 1": 3 for name in numbers(twins).values()}
