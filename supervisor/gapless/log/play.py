"""Players of scripts: through connections of psycopg, and what leads to one of another driver.

Two of them, for a connection that is awaited and one that is not; each driver has a sender, which
sends a statement, and says what is a transaction and what an error there (log.foreign).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from functools import partial
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
from gapless.log.script import COPY, WHOLE, Row, Script, T, Trouble

Frame = Callable[[], AbstractContextManager[None]]


@contextmanager
def explained(explain: Callable[[Trouble], Exception]) -> Iterator[None]:
    """Raise what `explain` makes of a Trouble within the block; the driver's own error, perhaps."""
    try:
        yield
    except Trouble as trouble:
        error = explain(trouble)
        raise error from error.__cause__ if error is trouble.error else trouble.error


as_it_is: Frame = partial(explained, attrgetter("error"))


@overload
def play(conn: Connection[Any], script_of: Callable[[Any], Script[T]], frame: Frame = ...) -> T: ...
@overload
def play(
    conn: object, script_of: Callable[[Any], Script[T]], frame: Frame = ...
) -> T | Awaitable[T]: ...
def play(
    conn: object, script_of: Callable[[Any], Script[T]], frame: Frame = as_it_is
) -> T | Awaitable[T]:
    """Return what a script comes to, awaitable if `conn` is; conn: whatever publish() takes.

    script_of: makes the script for the driver's connection. frame: is entered around the play, and
    makes of a Trouble what the caller is told. Raises UsageError for what is no connection.
    """
    found = conn if isinstance(conn, Connection | AsyncConnection) else borrow(conn)
    if isinstance(found, AsyncConnection) or isawaitable(found):
        return _play_async(found, script_of, frame)
    with frame(), _Sender(found) if isinstance(found, Connection) else Psycopg2Sender(found) as to:
        return _played(to, script_of(found))


async def _play_async(found: Any, script_of: Callable[[Any], Script[T]], frame: Frame) -> T:
    conn = await found if isawaitable(found) else found
    is_ours = isinstance(conn, AsyncConnection)
    with frame():
        async with _AsyncSender(conn) if is_ours else AsyncpgSender(conn) as to:
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

    def __enter__(self) -> Self:
        return self

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
                with self._cursor.copy(query("log", COPY)):
                    raise
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
                async with self._cursor.copy(query("log", COPY)):
                    raise
            raise


def _is_alone(conn: Connection[Any] | AsyncConnection[Any]) -> bool:
    """Tell whether there is no transaction of the caller, and none begins with the first statement.

    Only then may a script begin and commit one. In the caller's it MUST NOT use a savepoint: an
    error has to abort it all, or the rest would commit without the events that belong to it.
    """
    return conn.autocommit and conn.info.transaction_status == TransactionStatus.IDLE


def _is_open(conn: Connection[Any] | AsyncConnection[Any]) -> bool:
    """Tell whether the caller's transaction could commit a part of the script.

    Then a COPY that fails MUST abort it, whatever the error was, also one of our own.
    """
    return conn.info.transaction_status == TransactionStatus.INTRANS


def _trouble(error: psycopg.Error) -> Trouble:
    diag = error.diag
    message = diag.message_primary or next(iter(str(error).splitlines()), "")
    return Trouble(error, error.sqlstate or "", message, diag.message_detail)
