"""Numbers of a run, each by a statement of its own, asked together."""

from collections.abc import Mapping
from typing import Any

from psycopg import Connection


def count(
    conn: Connection[Any],
    statements: Mapping[str, str],
    params: Mapping[str, Any] | None = None,
    *,
    over: str = "",
) -> dict[str, int]:
    """Return the number that each statement selects. over: the WITH that they have in common."""
    wanted = ", ".join(f"({each})" for each in statements.values())
    row = conn.execute(f"{over}select {wanted}".encode(), params).fetchone()
    assert row is not None
    return {what: int(number or 0) for what, number in zip(statements, row, strict=True)}
