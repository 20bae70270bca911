"""Name the holder of a lock on a table of ours, where a look would wait for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from psycopg import Connection
from psycopg.errors import LockNotAvailable

from gapless.db.queries import query


@contextmanager
def naming_holders(conn: Connection[Any]) -> Iterator[None]:
    """Raise the error of a lock that is not to be had with the name of its holder.

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
    """Return the holders of locks on tables of ours, for longer than that, each with its remedy."""
    return conn.execute(query("connect", "lock_holders"), {"open_s": open_s}).fetchall()
