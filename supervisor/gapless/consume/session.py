"""The session of a step: its transaction, and its own queries, whatever a handler did to it.

A handler is given the very connection the step works on. What it changed there (row factory,
isolation level, a ROLLBACK of its own) must not change what the step does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import Connection, Cursor, IsolationLevel
from psycopg.pq import PipelineStatus, TransactionStatus
from psycopg.rows import tuple_row

from gapless.db.prepared import fetch_all
from gapless.db.queries import query


@contextmanager
def transaction(conn: Connection[Any]) -> Iterator[None]:
    """Open the step's transaction; COMMIT at the end of the block, ROLLBACK on an exception.

    READ COMMITTED whatever the session's default is. Not in autocommit meanwhile: what a handler
    writes after a ROLLBACK of its own must not be committed statement by statement.
    Before: `conn` is idle. After: idle again, or closed when that cannot be had.
    Raises OperationalError for a closed one.
    """
    if conn.closed:  # MUST be asked first: a stream that was never finished holds its lock for ever
        raise psycopg.OperationalError("the connection is closed")
    autocommit = conn.autocommit
    conn.autocommit = False
    conn.isolation_level = IsolationLevel.READ_COMMITTED
    try:
        with conn.transaction():
            yield
    finally:
        if not conn.closed:
            _make_idle(conn)
            conn.autocommit = autocommit


def run(conn: Connection[Any], name: str, params: Mapping[str, object]) -> list[Any]:
    """Run a named query of `sql/queries/consume.sql`; return its rows as tuples."""
    return fetch_all(Cursor(conn, row_factory=tuple_row), query("consume", name), params)


def require_usable(conn: Connection[Any], error: BaseException | None = None) -> None:
    """Raise OperationalError unless the session can go on; `error` is what the handler raised."""
    if conn.broken:
        if isinstance(error, psycopg.OperationalError):
            raise error
        raise psycopg.OperationalError("the connection was lost while the handler ran") from error
    if conn.closed:
        raise psycopg.OperationalError("the handler closed the connection it was given") from error
    busy = conn.info.transaction_status == TransactionStatus.ACTIVE
    if busy or conn.pgconn.pipeline_status != PipelineStatus.OFF:
        conn.close()
        raise psycopg.OperationalError(
            "the handler left a command running on the connection it was given"
        ) from error


def _make_idle(conn: Connection[Any]) -> None:
    """Close a session whose transaction did not end: its effects must not commit later."""
    if conn.info.transaction_status != TransactionStatus.IDLE:
        conn.close()
        raise psycopg.OperationalError(
            "the handler left a transaction block open on the connection it was given"
        )
