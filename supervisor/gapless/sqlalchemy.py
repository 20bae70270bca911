"""A session of SQLAlchemy 2 within a handler's transaction; extra `gapless[sqlalchemy]`.

    @gapless.handler(topic="orders", group="billing")
    def bill(unit, conn):
        with session_on(conn) as session:
            session.add(Bill(…))

Its writes commit with the group's offset (I6), or not at all. `session.commit()` ends a savepoint
of its own, never the transaction of the step. To publish through a session, give it to
gapless.publish().
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from contextvars import ContextVar
from functools import cache
from typing import Any, overload

from psycopg import AsyncConnection, Connection
from sqlalchemy import Engine, NullPool, create_engine
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from gapless.db.twin import AsyncWithin, Within, twin
from gapless.errors import UsageError

_URL = "postgresql+psycopg://"
_MODE: Any = "create_savepoint"
_lent: ContextVar[Any] = ContextVar("gapless_sqlalchemy_lent")


@overload
def session_on(conn: Connection[Any], **options: Any) -> AbstractContextManager[Session]: ...
@overload
def session_on(
    conn: AsyncConnection[Any], **options: Any
) -> AbstractAsyncContextManager[AsyncSession]: ...
def session_on(
    conn: Connection[Any] | AsyncConnection[Any], **options: Any
) -> AbstractContextManager[Session] | AbstractAsyncContextManager[AsyncSession]:
    """Return a session within the transaction that is open on `conn`, for one `with` block.

    conn: the connection that the handler got; for that of an async handler the result is an
    AsyncSession (`async with`). options: for the session, such as expire_on_commit=False.
    At the end of the block it is flushed; if the block raises, its writes since its last commit()
    are undone. Nothing ends the transaction itself. Afterwards the session leads nowhere.
    Raises UsageError for another kind of connection.
    """
    if isinstance(conn, AsyncConnection):
        return _async_session_on(conn, options)
    if isinstance(conn, Connection):
        return _session_on(conn, options)
    raise UsageError(f"session_on() takes the handler's connection, not {type(conn).__name__}")


@contextmanager
def _session_on(conn: Connection[Any], options: dict[str, Any]) -> Iterator[Session]:
    with twin(conn, Within) as lent:
        token = _lent.set(lent)
        try:
            with _engine().connect() as connection:
                connection.begin()  # the step's, as SQLAlchemy sees it; `lent` ends nothing
                with Session(connection, join_transaction_mode=_MODE, **options) as session:
                    try:
                        yield session
                    except BaseException:
                        session.rollback()
                        raise
                    session.commit()
        finally:
            _lent.reset(token)


@asynccontextmanager
async def _async_session_on(
    conn: AsyncConnection[Any], options: dict[str, Any]
) -> AsyncIterator[AsyncSession]:
    with twin(conn, AsyncWithin) as lent:
        token = _lent.set(lent)
        try:
            async with _async_engine().connect() as connection:
                await connection.begin()
                session = AsyncSession(connection, join_transaction_mode=_MODE, **options)
                async with session:
                    try:
                        yield session
                    except BaseException:
                        await session.rollback()
                        raise
                    await session.commit()
        finally:
            _lent.reset(token)


@cache
def _engine() -> Engine:
    """Return the engine of this process; its only connection is the one lent at the moment."""
    return create_engine(_URL, creator=_lent.get, poolclass=NullPool, pool_reset_on_return=None)


@cache
def _async_engine() -> AsyncEngine:
    async def lent() -> Any:
        return _lent.get()

    return create_async_engine(
        _URL, async_creator=lent, poolclass=NullPool, pool_reset_on_return=None
    )
