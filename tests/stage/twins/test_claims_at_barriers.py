"""claim_at() before a barrier: not across it, and behind it when all partitions of the group are there, and at the end of the log."""

from __future__ import annotations

import pytest

from stage.twins.test_claims import PLACES, TOKEN, claim, here, moved
from support.twins import Twins


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
    changed.seek(9, changed.here())
    before = changed.conn.execute(PLACES).fetchall()
    assert [row[:3] for row in claim(changed)] == [("idle", 9, None)]
    assert [row[5] for row in moved(changed, before)] == [1]
    assert moved(changed, before)[0][:4] == here(changed, 9)[0]
