"""Players of scripts: through connections of psycopg, and what leads to one of another driver.

Two of them, for a connection that is awaited and one that is not; each driver has a sender, which
sends a statement, and says what is a transaction and what an error there (log.foreign).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from inspect import isawaitable
from operator import attrgetter
from typing import Any, Self, overload

import psycopg
from psycopg import AsyncConnection, AsyncCursor, Connection, Cursor
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from gapless.db.queries import query
from gapless.log.borrowed import borrow
from gapless.log.foreign import AsyncpgSender, Psycopg2Sender
from gapless.log.script import ABORT, COPY, WHOLE, Row, Script, T, Trouble


class Explained:
    """Around a play: raises what `explain` makes of a Trouble, perhaps the driver's own error."""

    def __init__(self, explain: Callable[[Trouble], Exception]) -> None:
        self.explain = explain

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        """Say what was wrong."""
        if isinstance(error, Trouble):
            told = self.explain(error)
            raise told from told.__cause__ if told is error.error else error.error


AS_IT_IS = Explained(attrgetter("error"))


@overload
def play(
    conn: Connection[Any], script_of: Callable[[Any], Script[T]], frame: Explained = ...
) -> T: ...
@overload
def play(
    conn: object, script_of: Callable[[Any], Script[T]], frame: Explained = ...
) -> T | Awaitable[T]: ...
def play(
    conn: object, script_of: Callable[[Any], Script[T]], frame: Explained = AS_IT_IS
) -> T | Awaitable[T]:
    """Return what a script comes to, awaitable if `conn` is; conn: whatever publish() takes.

    script_of: makes the script for the driver's connection. Raises UsageError for what is no
    connection.
    """
    if not isinstance(conn, Connection):
        conn = borrow(conn)
        if isinstance(conn, AsyncConnection) or isawaitable(conn):
            return _play_async(conn, script_of, frame)
    to = _Sender(conn) if isinstance(conn, Connection) else Psycopg2Sender(conn)
    with frame, to:
        return _played(to, script_of(conn))


async def _play_async(found: Any, script_of: Callable[[Any], Script[T]], frame: Explained) -> T:
    conn = await found if isawaitable(found) else found
    sender = _AsyncSender if isinstance(conn, AsyncConnection) else AsyncpgSender
    with frame:
        async with sender(conn) as to:
            return await _played_async(to, script_of(conn))


def _played(to: _Sender | Psycopg2Sender, script: Script[T]) -> T:
    row: Any = None
    try:
        while True:
            asked = script.send(row)
            if asked is WHOLE:
                with to.whole():
                    return _played(to, script)
            row = to.ask(*asked)
    except StopIteration as done:
        ended: T = done.value
        return ended


async def _played_async(to: _AsyncSender | AsyncpgSender, script: Script[T]) -> T:
    row: Any = None
    while True:
        try:
            asked = script.send(row)
        except StopIteration as done:
            ended: T = done.value
            return ended
        if asked is WHOLE:
            async with to.whole():
                return await _played_async(to, script)
        row = await to.ask(*asked)


class _Sender:
    """Sends through a connection of psycopg."""

    def __init__(self, conn: Connection[Any]) -> None:
        # Not conn.cursor(): the caller's connection may make cursors and rows of another kind.
        self._cursor = Cursor(conn, row_factory=tuple_row)

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        self._cursor.close()
        if isinstance(error, psycopg.Error):
            raise _trouble(error) from error

    def ask(self, name: str, given: Any, prepare: bool | None) -> Row | int | None:  # noqa: FBT001
        if name != COPY:
            return self._cursor.execute(query("log", name), given, prepare=prepare).fetchone()
        with self._cursor.copy(query("log", name)) as copy:
            for row in given:
                copy.write_row(row)
        return self._cursor.rowcount

    @contextmanager
    def whole(self) -> Iterator[None]:
        conn = self._cursor.connection
        if _is_alone(conn):
            with conn.transaction():
                yield
            return
        try:
            yield
        except BaseException:
            if _is_open(conn):
                with suppress(psycopg.Error):
                    self._cursor.execute(ABORT)
            raise


class _AsyncSender:
    """The same, through one that is awaited."""

    def __init__(self, conn: AsyncConnection[Any]) -> None:
        self._cursor = AsyncCursor(conn, row_factory=tuple_row)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, _: object, error: BaseException | None, __: object) -> None:
        await self._cursor.close()
        if isinstance(error, psycopg.Error):
            raise _trouble(error) from error

    async def ask(self, name: str, given: Any, prepare: bool | None) -> Row | int | None:  # noqa: FBT001
        if name != COPY:
            await self._cursor.execute(query("log", name), given, prepare=prepare)
            return await self._cursor.fetchone()
        async with self._cursor.copy(query("log", name)) as copy:
            for row in given:
                await copy.write_row(row)
        return self._cursor.rowcount

    @asynccontextmanager
    async def whole(self) -> AsyncIterator[None]:
        conn = self._cursor.connection
        if _is_alone(conn):
            async with conn.transaction():
                yield
            return
        try:
            yield
        except BaseException:
            if _is_open(conn):
                with suppress(psycopg.Error):
                    await self._cursor.execute(ABORT)
            raise


def _is_alone(conn: Connection[Any] | AsyncConnection[Any]) -> bool:
    """Tell whether there is no transaction of the caller, and none begins with the first statement.

    Only then may a script begin and commit one. In the caller's it MUST NOT use a savepoint: an
    error has to abort it all, or the rest would commit without the events that belong to it.
    """
    return conn.autocommit and conn.info.transaction_status == TransactionStatus.IDLE


def _is_open(conn: Connection[Any] | AsyncConnection[Any]) -> bool:
    """Tell whether the caller could commit a part of the script: then it MUST be aborted."""
    return conn.info.transaction_status == TransactionStatus.INTRANS


def _trouble(error: psycopg.Error) -> Trouble:
    diag = error.diag
    message = diag.message_primary or next(iter(str(error).splitlines()), "")
    return Trouble(error, error.sqlstate or "", message, diag.message_detail)
