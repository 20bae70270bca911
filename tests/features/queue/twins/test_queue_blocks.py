"""take_next(): the pieces of a block that lies over segments, a queue that rests, and what a session keeps."""

from typing import Any

import pytest

from support.twin_queues import HERE, noted, put
from support.twins import Twins

TAKE = (
    "select base_offset, message_ids from gapless.take_next('sender', %s, 1, %s, 4, %s, %s)"
    " where outcome is not null"
)
IDS = "select message_id from gapless.read('orders', 1, %s, %s) order by c_offset"


def take(twins: Twins, hint: int | None, most: int = 4) -> list[Any]:
    params = [twins.topic_ids["orders"], twins.leases[HERE], most, hint]
    return twins.conn.execute(TAKE, params).fetchall()


# Where the floor is, and how many at most: of each piece the first and last offset. Blocks are of 4.
PIECES = [
    (1, 4, [(1, 3), (4, 4)]), (1, 3, [(1, 3)]), (1, 2, [(1, 2)]), (2, 4, [(2, 3), (4, 4)]), (3, 2, [(3, 3), (4, 4)]),
    (4, 4, [(4, 4)]), (5, 4, [(5, 6), (7, 8)]), (5, 3, [(5, 6), (7, 7)]), (5, 2, [(5, 6)]),
]  # fmt: skip


@pytest.mark.few(len(PIECES))
@pytest.mark.parametrize(("floor", "most", "pieces"), PIECES)
def test_a_block_comes_in_a_piece_of_each_segment(
    twins: Twins, floor: int, most: int, pieces: list[tuple[int, int]]
) -> None:
    """And in no more."""
    put(twins, HERE, floor)
    ids = [
        [row[0] for row in twins.conn.execute(IDS, [first, last]).fetchall()]
        for first, last in pieces
    ]
    bases = [first for first, _ in pieces]
    assert take(twins, None, most) == list(zip(bases, ids, strict=True))
    assert [row[:2] for row in noted(twins)] == [(floor, pieces[-1][1])]


@pytest.mark.parametrize("hint", [None, 1, 5])
def test_of_a_queue_that_rests_nothing_is_taken(twins: Twins, hint: int | None) -> None:
    """Another partition's rest is none."""
    twins.conn.execute("select gapless.pause('sender', 'orders', 1)")
    assert take(twins, hint) == [(None, None)]
    assert noted(twins) == []
    twins.conn.execute("select gapless.resume('sender', 'orders', 1)")
    twins.conn.execute("select gapless.pause('sender', 'orders', 2)")
    assert take(twins, hint)[0][0] == (hint or 1)


def test_a_session_plans_as_before(twins: Twins) -> None:
    assert take(twins, 1)
    assert twins.value("select current_setting('plan_cache_mode')") == "auto"
