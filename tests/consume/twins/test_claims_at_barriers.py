"""claim_at() before a barrier: not across it, and behind it when all partitions of the group are there, and at the end of the log."""

import pytest

from support.claims import OTHER, PLACES, TOKEN, claim, ctid, here, moved
from support.twins import Twins

# With as many partitions as before nobody waits for another one.
FEWER = "update gapless.layout set partitions = 2 where layout = 1"


@pytest.fixture
def changed(twins: Twins) -> Twins:
    """The last segment is of the next layout; this partition has an owner."""
    owned = twins
    owned.conn.execute("update gapless.consumer_offsets set epoch = 5, token = %s", [TOKEN])
    owned.conn.execute(
        "insert into gapless.layout (topic_id, layout, partitions)"
        " select topic_id, l, 3 from gapless.topic, generate_series(0, 1) l"
    )
    owned.conn.execute("update gapless.topic set layout = 1")
    owned.conn.execute("update gapless.log_segment set layout = 1 where base_offset >= 7")
    owned.conn.execute(
        "insert into gapless.barrier (topic_id, layout, partition_id, last_offset)"
        " select topic_id, l, p, 6 - l - (topic_id <> %s or p <> 1)::int from gapless.topic,"
        " generate_series(0, 1) l, generate_series(0, 2) p",
        [owned.topic_ids["orders"]],
    )
    return owned


@pytest.mark.parametrize(("at", "size", "ahead"), [(1, 100, 0), (1, 100, 100), (4, 4, 4)])
def test_a_claim_ends_before_it(changed: Twins, at: int, size: int, ahead: int) -> None:
    changed.seek(at, changed.here())
    before = changed.conn.execute(PLACES).fetchall()
    bases = [base for base in (1, 4) if base >= at]
    rows = claim(changed, size=size, ahead=ahead)
    assert [(*row[:3], row[5]) for row in rows] == [("claimed", at, 6, base) for base in bases]
    assert moved(changed, before) == here(changed, 7, 0, 0)


def test_reading_ahead_ends_there(changed: Twins) -> None:
    assert [row[5] for row in claim(changed, size=1, ahead=100)] == [1, 4]


def test_what_is_behind_it_when_they_are(changed: Twins) -> None:
    changed.seek(7, "group_id = 'billing'")
    changed.conn.execute(
        "update gapless.consumer_offsets set passed = 1 where group_id = 'billing'"
    )
    before = changed.conn.execute(PLACES).fetchall()
    assert [row[:3] for row in claim(changed)] == [("claimed", 7, 8)]
    assert moved(changed, before) == here(changed, 9, 1, 1)


def test_at_the_end_it_is_passed(changed: Twins) -> None:
    """Whatever becomes of the other topic."""
    changed.conn.execute("update gapless.topic set layout = 0 where name = 'other'")
    changed.seek(9, changed.here())
    before = changed.conn.execute(PLACES).fetchall()
    assert [row[:3] for row in claim(changed)] == [("idle", 9, None)]
    assert [row[5] for row in moved(changed, before)] == [1]
    assert moved(changed, before)[0][:4] == here(changed, 9)[0]


@pytest.mark.parametrize("passed", [0, 1])
def test_who_comes_to_it_has_passed_it(changed: Twins, passed: int) -> None:
    """Written down once, of this place alone, and before it is known whether the others are there."""
    changed.conn.execute(FEWER)
    changed.seek(7, changed.here())
    change = f"update gapless.consumer_offsets set passed = {passed} where {changed.here()}"
    changed.conn.execute(change.encode())
    before = changed.conn.execute(PLACES).fetchall()
    place = ctid(changed, changed.here())
    assert [row[:3] for row in claim(changed)] == [("idle", 7, None)]
    assert moved(changed, before) == ([] if passed else here(changed, 7, 0, 1))
    assert (ctid(changed, changed.here()) == place) is bool(passed), "nothing is written twice"
    changed.seek(7, "group_id = 'billing'")
    before = changed.conn.execute(PLACES).fetchall()
    assert [row[:3] for row in claim(changed)] == [("claimed", 7, 8)]
    assert moved(changed, before) == here(changed, 9, 1, 1)


@pytest.mark.parametrize("change", ["epoch = 6", f"token = '{OTHER}'"])
def test_who_lost_its_place_at_it_writes_nothing(changed: Twins, change: str) -> None:
    """What announces the barrier stands for the one who takes the place at that moment."""
    changed.conn.execute(FEWER)
    changed.seek(7, changed.here())
    changed.conn.execute(
        "create or replace function gapless.announce(_group_id text, _topic_id int, _partition_id int,"
        " _since int, _upto int) returns bigint language sql as $$"
        f" update gapless.consumer_offsets set {change} where {changed.here()} returning 1::bigint $$".encode()
    )
    before = changed.conn.execute(PLACES).fetchall()
    assert [row[:3] for row in claim(changed)] == [("idle", 7, None)]
    assert moved(changed, before) == []


def test_what_was_admitted_stays_so(changed: Twins) -> None:
    """Who has claimed behind a barrier claims across it, wherever the others are."""
    change = f"update gapless.consumer_offsets set layout = 1, passed = 1 where {changed.here()}"
    changed.conn.execute(change.encode())
    assert [row[:3] for row in claim(changed)] == [("claimed", 1, 8)] * 3


def test_between_two_barriers_nobody_is_asked_about_the_first_again(changed: Twins) -> None:
    """The other partitions of the group are at their begin."""
    topic = changed.topic_ids["orders"]
    for change in (
        FEWER,
        "insert into gapless.layout (topic_id, layout, partitions) select topic_id, 2, 3 from gapless.topic",
        "update gapless.log_segment set layout = base_offset / 3",
        f"update gapless.barrier set last_offset = 3 + 3 * layout where topic_id = {topic} and partition_id = 1",
        f"update gapless.consumer_offsets set layout = 1, passed = 1 where {changed.here()}",
    ):
        changed.conn.execute(change.encode())
    changed.seek(4, changed.here())
    before = changed.conn.execute(PLACES).fetchall()
    assert [row[:3] for row in claim(changed)] == [("claimed", 4, 6)]
    assert moved(changed, before) == here(changed, 7, 1, 1)
