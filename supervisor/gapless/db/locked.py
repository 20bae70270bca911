"""Name who has locked a table of ours, where a look would wait for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from psycopg import Connection
from psycopg.errors import LockNotAvailable

from gapless.db.queries import query


@contextmanager
def naming_holders(conn: Connection[Any]) -> Iterator[None]:
    """Raise what was raised for a lock that is not to be had with the name of who holds it.

    After the block: `conn` is outside a transaction.
    """
    try:
        yield
    except LockNotAvailable as error:
        found = lock_holders(conn, 0)
        if not found:
            raise
        raise LockNotAvailable("; ".join(found[0])) from error


def lock_holders(conn: Connection[Any], open_s: float) -> Sequence[tuple[str, str]]:
    """Return who has locked tables of ours for longer than that, and what ends it."""
    return conn.execute(query("connect", "lock_holders"), {"open_s": open_s}).fetchall()
