"""Where `gapless trace` puts the nodes of a forest when there is no room for all: lay_out() alone.

A forest is written by its parents, from 1, 0 for a root; ids are ten times as high.
"""

from typing import Any

import pytest
from psycopg import Connection

pytestmark = pytest.mark.writes_nothing
LAY_OUT = "select * from gapless.lay_out(%s::bigint[], %s::bigint[], %s::boolean[], %s)"
Node = tuple[
    int, int, int | None, int, int
]  # of the forest; place, parent's place, level, left out

# Name: parents, who was asked for, how many nodes; the nodes, and how many are lost below none.
FORESTS: dict[str, tuple[list[int], set[int], int, list[Node], int]] = {
    "none": ([], set(), 5, [], 0),
    "of one": ([0], {1}, 1, [(1, 1, None, 0, 0)], 0),
    "no room": ([0, 1, 0], {1}, 0, [], 3),
    "branches stay together": (
        [0, 0, 1, 1, 2, 3],
        {1},
        9,
        [
            (1, 1, None, 0, 0), (2, 5, None, 0, 0), (3, 2, 1, 1, 0), (4, 4, 1, 1, 0),
            (5, 6, 5, 1, 0), (6, 3, 2, 2, 0),
        ],
        0,
    ),
    "what leads there comes first": (
        [0, 1, 1, 3, 3, 5, 0],
        {5},
        3,
        [(1, 1, None, 0, 1), (3, 2, 1, 1, 1), (5, 3, 2, 2, 1)],
        1,
    ),
    "then what is below and beside it": (
        [0, 1, 1, 3, 3, 5, 0, 7, 6],
        {5},
        6,
        [
            (1, 1, None, 0, 0), (2, 2, 1, 1, 0), (3, 3, 1, 1, 0), (4, 4, 3, 2, 0),
            (5, 5, 3, 2, 0), (6, 6, 5, 3, 1),
        ],
        2,
    ),
    "two were asked for": (
        [0, 1, 1, 2, 2, 3, 3, 0, 8],
        {4, 7},
        6,
        [
            (1, 1, None, 0, 0), (2, 2, 1, 1, 0), (3, 5, 1, 1, 1), (4, 3, 2, 2, 0),
            (5, 4, 2, 2, 0), (7, 6, 5, 2, 0),
        ],
        2,
    ),
    "the way to it begins anew": (
        [0, 1, 2, 3, 4, 5],
        {6},
        3,
        [(4, 1, None, 0, 0), (5, 2, 1, 1, 0), (6, 3, 2, 2, 0)],
        3,
    ),
    "the nearest below it": (
        [0, 1, 2, 3, 1, 1],
        {2},
        4,
        [(1, 1, None, 0, 0), (2, 2, 1, 1, 2), (5, 3, 1, 1, 0), (6, 4, 1, 1, 0)],
        0,
    ),
}  # fmt: skip
CHAIN = [0, *range(1, 60)]


def lay_out(
    conn: Connection[Any], parents: list[int], asked: set[int], most: int
) -> tuple[list[Node], int]:
    numbers = range(1, len(parents) + 1)
    rows = conn.execute(
        LAY_OUT,
        [
            [10 * n for n in numbers],
            [10 * parent if parent else None for parent in parents],
            [n in asked for n in numbers],
            most,
        ],
    ).fetchall()
    *nodes, (none, *nulls, lost) = rows
    assert (none, nulls) == (None, [None] * 3)
    return [(first // 10, *rest) for first, *rest in nodes], lost


@pytest.mark.parametrize("name", FORESTS)
def test_where_nodes_stand(conn: Connection[Any], name: str) -> None:
    parents, asked, most, nodes, lost = FORESTS[name]
    assert lay_out(conn, parents, asked, most) == (nodes, lost)


def test_a_long_chain_ends_at_fifty(conn: Connection[Any]) -> None:
    nodes, lost = lay_out(conn, CHAIN, {1}, 100)
    straight = [(n, n, n - 1 if n > 1 else None, n - 1, 0) for n in range(1, 50)]
    assert (nodes, lost) == ([*straight, (50, 50, 49, 49, 10)], 0)


def test_what_led_there_begins_anew_at_fifty(conn: Connection[Any]) -> None:
    nodes, lost = lay_out(conn, CHAIN, {60}, 100)
    again = [(52, 51, None, 0, 0)] + [(n, n - 1, n - 2, n - 52, 0) for n in range(53, 61)]
    assert (nodes[49:], lost) == ([(50, 50, 49, 49, 1), *again], 0)


def test_of_what_led_there_the_nearest_thirty(conn: Connection[Any]) -> None:
    nodes, lost = lay_out(conn, CHAIN, {60}, 33)
    near = [(30, 3, None, 0, 0)] + [(n, n - 27, n - 28, n - 30, 0) for n in range(31, 61)]
    assert (nodes, lost) == ([(1, 1, None, 0, 0), (2, 2, 1, 1, 27), *near], 0)


def test_a_way_ends_where_another_one_joined(conn: Connection[Any]) -> None:
    """40 is led to from 10 on; 41 comes of 20, and has no thirty steps of its own beyond."""
    nodes, _ = lay_out(conn, [0, *range(1, 40), 20], {40, 41}, 33)
    assert [first for first, *_ in nodes] == [1, *range(10, 42)]
