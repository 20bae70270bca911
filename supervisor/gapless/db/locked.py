"""Locks that others hold: the longest wait for one, and the name of its holder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from psycopg import Connection
from psycopg.errors import LockNotAvailable

from gapless.db.queries import query


@contextmanager
def naming_holders(conn: Connection[Any]) -> Iterator[None]:
    """Add the name of the lock's holder to the error of a lock that is not available.

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
    """Return the sessions that hold locks on our tables for longer, each with its remedy."""
    return conn.execute(query("connect", "lock_holders"), {"open_s": open_s}).fetchall()


@contextmanager
def lock_timeout(conn: Connection[Any], timeout_ms: int) -> Iterator[None]:
    """Inside the block, wait at most this long for a lock: LockNotAvailable; then no limit.

    Before: `conn` is in autocommit, outside a transaction.
    """
    conn.execute(query("connect", "lock_timeout"), {"timeout": timeout_ms})
    try:
        yield
    finally:
        conn.execute(query("connect", "lock_timeout"), {"timeout": 0})
