"""advance_offset(): a group's offset moves on, for who says where it is, and under which fence."""

from typing import Any

import pytest
from psycopg import Connection

from support.claims import OTHER, PLACES, TOKEN, ctid, moved, owned
from support.twins import Twins

__all__ = ["owned"]

ADVANCE = "select gapless.advance_offset('billing', %s, 1, %s, %s, %s, 5, null, %s::tid, %s)"

CHAIN = "select current_setting('gapless.chain', true)"


@pytest.mark.few(12)
@pytest.mark.parametrize("is_by_place", [True, False])
@pytest.mark.parametrize(
    ("epoch", "token", "first", "number", "moves"),
    [
        (5, TOKEN, 1, 0, 1), (5, TOKEN, 2, 0, 0), (4, TOKEN, 1, 0, 0), (5, OTHER, 1, 0, 0), (5, TOKEN, 1, 3, 0),
    ],
)  # fmt: skip
def test_an_offset_moves_on_from_where_its_owner_says(
    owned: Twins, *, is_by_place: bool, epoch: int, token: str, first: int, number: int, moves: int
) -> None:
    """Whether its row is found where it was, or by its key; number: of the filter."""
    topic = owned.topic_ids["orders"]
    place = ctid(owned, f"group_id = 'billing' and topic_id = {topic} and partition_id = 1")
    before = owned.conn.execute(PLACES).fetchall()
    params = [topic, epoch, token, first, place if is_by_place else None, number]
    assert (owned.value(ADVANCE, *params) is not None) == bool(moves)
    assert [row[3] for row in moved(owned, before)] == [5] * moves


def test_what_is_told_of_a_claim_ends_with_its_transaction(
    twins: Twins, second: Connection[Any]
) -> None:
    """What this session publishes afterwards is caused by nothing."""
    params = [twins.topic_ids["orders"], 4, TOKEN, 1, None, 0]
    second.execute("set gapless.chain = ''")
    with second.transaction():
        assert second.execute(ADVANCE, params).fetchall() == [(None,)]
        assert second.execute(CHAIN).fetchall() == [("open",)]
    assert second.execute(CHAIN).fetchall() == [("",)]


@pytest.mark.few(9)
@pytest.mark.parametrize(
    ("to", "change", "is_moved"),
    [
        (4, "", False), (5, "", True), (4, "latest_upto = 4", False), (4, "latest_upto = 5", True),
        (4, "latest_upto = 3", False), (4, "stopped_at = 9", True),
    ],
)  # fmt: skip
def test_who_is_there_already_stays_as_it_is(
    twins: Twins, to: int, change: str, *, is_moved: bool
) -> None:
    """Unless it is stopped there, or is still at what was the latest when it began."""
    twins.seek(4, twins.here())
    if change:
        twins.conn.execute(f"update gapless.consumer_offsets set {change} where {twins.here()}")  # type: ignore[arg-type]
    changed = twins.changes("select gapless.move_offset('billing', 'orders', 1, 4, %s)", [to])
    assert bool(changed) is is_moved
    assert ("consumer_offsets billing orders 1" in changed) is is_moved


def test_calls_that_did_not_begin_are_not_taken_back(owned: Twins) -> None:
    """One that has ended counts no crash: there is nothing to forget."""
    topic = owned.topic_ids["orders"]
    for first, crashes in ((1, 0), (4, 1), (7, 3)):
        owned.conn.execute(
            "insert into gapless.delivery values ('billing', %s, 1, %s, %s, 5, %s, false)",
            [topic, first, first + 1, crashes],
        )
    changed = owned.changes(
        "select gapless.forget_deliveries('billing', %s, 1, 5, %s)", [topic, TOKEN]
    )
    assert changed == {
        "delivery billing orders 1 4": {"crashes": (1, 0)},
        "delivery billing orders 1 7": {"crashes": (3, 2)},
    }
