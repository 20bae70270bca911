"""Find the driver's session inside a connection of SQLAlchemy, Django, asyncpg or psycopg2.

Connections are recognized by the modules of their classes, so none of these libraries is imported.
The session that is found works in the open transaction, or in the one that the other library's next
statement would begin.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from typing import Any, Protocol

from psycopg import AsyncConnection, Connection

from gapless.errors import UsageError

PSYCOPG = (Connection, AsyncConnection)


class _RunsSync(Protocol):
    """An AsyncConnection or AsyncSession of SQLAlchemy, as types can recognize it."""

    async def run_sync(self, fn: Any, /, *arg: Any, **kw: Any) -> Any: ...


class _Scoped(Protocol):
    async def close_all(self) -> None: ...
    async def remove(self) -> None: ...


class _Fetches(Protocol):
    """A connection of asyncpg."""

    async def fetchrow(self, query: Any, /, *args: Any) -> Any: ...


AsyncHost = AsyncConnection[Any] | _RunsSync | _Scoped | _Fetches
"""Connections with which publish() has to be awaited."""

_TAKEN = "a connection of psycopg, psycopg2 or asyncpg, of SQLAlchemy (or a session), or of Django"
# Objects that are no session, but lead to one.
_ONE_OF = {
    "str": "connect first: gapless.connect(dsn)",
    "Engine": "take a connection of it: with engine.begin() as conn",
    "AsyncEngine": "take a connection of it: async with engine.begin() as conn",
    "sessionmaker": "call it: with maker.begin() as session",
    "async_sessionmaker": "call it: async with maker.begin() as session",
    "ConnectionPool": "take a connection of it: with pool.connection() as conn",
    "AsyncConnectionPool": "take a connection of it: async with pool.connection() as conn",
    "Pool": "take a connection of it: async with pool.acquire() as conn",
    "ConnectionHandler": 'take one of them: connections["default"]',
}


def borrow(conn: Any) -> Any:
    """Return the driver's session, of psycopg, psycopg2 or asyncpg; an awaitable of it if async.

    A transaction is open on it afterwards wherever the other library would have opened one.
    Raises UsageError for an object without a session, and for a session of another database or of
    another driver.
    """
    if isinstance(conn, PSYCOPG):
        return conn
    home = home_of(conn)
    if home == "sqlalchemy":
        return _of_sqlalchemy(conn)
    if home == "django":
        return _of_django(conn)
    if is_psycopg2(conn):
        return conn
    if is_asyncpg(conn):
        return _ready(conn)
    raise without_session(conn)


def home_of(conn: object) -> str | None:
    """Return the library that made a class of an object; None for any other library."""
    homes = (kind.__module__.partition(".")[0] for kind in type(conn).__mro__)
    return next((home for home in homes if home in _HOMES), None)


def is_psycopg2(conn: object) -> bool:
    """Tell whether an object is a connection of psycopg2."""
    return home_of(conn) == "psycopg2" and hasattr(conn, "cursor")


def is_asyncpg(conn: object) -> bool:
    """Tell whether an object is a connection of asyncpg; a pool is not: it has no transaction."""
    return home_of(conn) == "asyncpg" and hasattr(conn, "is_in_transaction")


def without_session(conn: object) -> UsageError:
    """Return the error for an object that has no session."""
    name = type(conn).__name__
    hint = _ONE_OF.get(name)
    return UsageError(f"{name} is not {_TAKEN}" + (f": {hint}" if hint else ""))


def _of_sqlalchemy(conn: Any) -> Any:
    if hasattr(conn, "get_raw_connection"):
        return _of_async_connection(conn)
    if hasattr(conn, "get_bind"):  # a session, perhaps scoped, perhaps async
        conn = conn.connection()
        if inspect.isawaitable(conn):
            return _of_async_session(conn)
    if hasattr(conn, "exec_driver_sql"):
        if not conn.in_transaction():
            conn.begin()  # as its next statement would
        conn = conn.connection
    return _driven(conn)


async def _of_async_session(connection: Awaitable[Any]) -> Any:
    return await _of_async_connection(await connection)


async def _of_async_connection(conn: Any) -> Any:
    if not conn.in_transaction():
        await conn.begin()
    found = _driven(await conn.get_raw_connection())
    if is_asyncpg(found) and not found.is_in_transaction():
        # SQLAlchemy begins with its first statement, and we speak to the driver behind its back.
        await conn.exec_driver_sql("select 1")
    return found


def _driven(conn: Any) -> Any:
    """Return the driver's connection behind one of SQLAlchemy's pools."""
    found = getattr(conn, "driver_connection", None)
    if isinstance(found, Connection | AsyncConnection) or is_psycopg2(found) or is_asyncpg(found):
        return found
    if found is None:
        raise without_session(conn)
    driver = type(found).__module__.partition(".")[0]
    raise UsageError(
        f"SQLAlchemy's driver here is {driver}: gapless takes psycopg, psycopg2 and asyncpg "
        "(postgresql+psycopg://…)"
    )


def _of_django(conn: Any) -> Any:
    vendor = getattr(conn, "vendor", None)
    if vendor is None:
        raise without_session(conn)
    if vendor != "postgresql":
        raise UsageError(f"Django's connection {conn.alias!r} is {vendor}: PostgreSQL is needed")
    conn.ensure_connection()
    conn.validate_no_broken_transaction()
    return conn.connection


async def _ready(conn: Any) -> Any:
    return conn


_HOMES = frozenset({"sqlalchemy", "django", "psycopg2", "asyncpg"})
