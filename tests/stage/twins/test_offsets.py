"""advance_offset(): a group's offset moves on, for who says where it is, and under which fence."""

from __future__ import annotations

import pytest

from stage.twins.test_claims import OTHER, PLACES, TOKEN, ctid, moved, owned
from support.twins import Twins

__all__ = ["owned"]

ADVANCE = "select gapless.advance_offset('billing', %s, 1, %s, %s, %s, 5, null, %s::tid, %s)"


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
