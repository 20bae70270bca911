"""Another psycopg connection over an existing session: for a handler, while it is called.

A session is one connection of libpq. Code that needs it through another class of psycopg (async, or
with the adapters of an ORM) is given a twin: same transaction, same server process. Work through it
is the handler's work, so I6 holds. Afterwards the twin leads nowhere: a handler that kept it cannot
write into the transaction of the next unit.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

from psycopg import AsyncConnection, Connection, pq
from psycopg.pq.abc import PGconn

Twin = TypeVar("Twin", bound=Connection[Any] | AsyncConnection[Any])


class Within(Connection[Any]):
    """A connection inside a transaction that it must not end: its commit() does nothing.

    For libraries that would end it: SQLAlchemy rolls back connections that return to its pool.
    """

    def commit(self) -> None:
        """Leave the transaction to the step."""

    def rollback(self) -> None:
        """Leave the transaction to the step."""

    def close(self) -> None:
        """Leave the session to the step."""


class AsyncWithin(AsyncConnection[Any]):
    """The same, async."""

    async def commit(self) -> None:
        """Leave the transaction to the step."""

    async def rollback(self) -> None:
        """Leave the transaction to the step."""

    async def close(self) -> None:
        """Leave the session to the step."""


@contextmanager
def twin(conn: Connection[Any] | AsyncConnection[Any], kind: type[Twin]) -> Iterator[Twin]:
    """Yield a connection of another kind over the session of `conn`; close it afterwards.

    Inside the block, `conn` MUST NOT be in the middle of a statement when the twin begins one. They
    share prepared statements, adapters, and the count of open blocks.
    """
    made = over_session(conn, kind)
    try:
        yield made
    finally:
        # The step finds a block that was left open, as if `conn` itself had opened it.
        conn._num_transactions = made._num_transactions  # noqa: SLF001
        made.pgconn = _nowhere()


def over_session(conn: Connection[Any] | AsyncConnection[Any], kind: type[Twin]) -> Twin:
    """Return a connection of another kind over the session of `conn`, as long as that is open.

    Only one of the two may be used at a time. They share prepared statements and adapters.
    """
    session = conn.pgconn
    heard = session.notice_handler, session.notify_handler
    made = kind(session)
    session.notice_handler, session.notify_handler = heard  # otherwise the worker would sleep on
    made._autocommit = conn.autocommit  # noqa: SLF001 - as it is, without a look at the session
    # Two connections that prepare would both call their first statement _pg3_0.
    made._prepared = conn._prepared  # noqa: SLF001
    made._adapters = conn._adapters  # noqa: SLF001
    made._num_transactions = conn._num_transactions  # noqa: SLF001
    return made


@cache
def _nowhere() -> PGconn:
    """Return a connection of libpq that is closed."""
    made = pq.PGconn.connect_start(b"=")
    made.finish()
    return made
