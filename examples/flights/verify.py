"""Compare what is in the database with the truth: the last thing the demo does.

checks = verify(conn, compute(limit))
agreed = all(not check.differences for check in checks)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from .queries import query  # noqa: TID252 - see __init__.py: two package names
from .truth import Difference, compare  # noqa: TID252

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg import Connection

    from .truth import Truth  # noqa: TID252


class Check(NamedTuple):
    """One result compared: the numbers of expected and present rows, and the differences."""

    name: str
    expected_count: int
    actual_count: int
    differences: list[Difference]


def verify(conn: Connection[Any], truth: Truth) -> list[Check]:
    """Compare the two tables, the dead letters and the ledger. Reads only.

    Before: both groups have handled every event (lag 0).
    """
    return [
        _check(conn, "punctuality", "punctuality_rows", truth.punctuality, key_columns=2),
        _check(conn, "positions", "position_rows", truth.positions, key_columns=1),
        _check(conn, "dead letters", "dead_letter_rows", truth.dead_letters, key_columns=4),
        _check(conn, "handled exactly once", "handled_rows", truth.handled, key_columns=1),
    ]


def _check(
    conn: Connection[Any],
    name: str,
    query_name: str,
    expected: Sequence[tuple[object, ...]],
    key_columns: int,
) -> Check:
    actual = conn.execute(query(query_name)).fetchall()
    return Check(name, len(expected), len(actual), compare(expected, actual, key_columns))
