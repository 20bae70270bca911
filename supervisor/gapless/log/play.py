"""Players of scripts, for connections of psycopg, and for those that contain another driver's.

There are two: for connections that are awaited and for others. Each driver has a sender, which
sends statements, and knows the driver's transactions and errors (log.foreign).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from inspect import isawaitable
from operator import attrgetter
from typing import Any, ClassVar, NoReturn, overload

import psycopg
from psycopg import AsyncConnection, AsyncCursor, Connection, Cursor
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from gapless.db.queries import query
from gapless.log.borrowed import PSYCOPG, borrow
from gapless.log.foreign import AsyncpgSender, Psycopg2Sender
from gapless.log.script import ABORT, COPY, WHOLE, Row, Script, T, Trouble

Frame = AbstractContextManager[None]


def raise_told(trouble: Trouble, told: Exception) -> NoReturn:
    """Raise the error that the caller gets for a Trouble, perhaps the driver's own error."""
    raise told from told.__cause__ if told is trouble.error else trouble.error


@dataclass(frozen=True, slots=True)
class Explaining:
    """A block around a play: raises the error that `explain` makes of a Trouble."""

    explain: Callable[[Trouble], Exception]

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        """Raise the explained error."""
        if isinstance(error, Trouble):
            raise_told(error, self.explain(error))


AS_IT_IS = Explaining(attrgetter("error"))


@overload
def play(conn: Connection[Any], script_of: Callable[[Any], Script[T]], frame: Frame = ...) -> T: ...
@overload
def play(
    conn: AsyncConnection[Any], script_of: Callable[[Any], Script[T]], frame: Frame = ...
) -> Awaitable[T]: ...
@overload
def play(
    conn: object, script_of: Callable[[Any], Script[T]], frame: Frame = ...
) -> T | Awaitable[T]: ...
def play(
    conn: object, script_of: Callable[[Any], Script[T]], frame: Frame = AS_IT_IS
) -> T | Awaitable[T]:
    """Return the result of a script, awaitable if `conn` is; conn: any that publish() takes.

    script_of: makes the script for the driver's connection. Raises UsageError if `conn` is no
    connection.
    """
    found: Any = conn if isinstance(conn, PSYCOPG) else borrow(conn)
    is_ours = isinstance(found, Connection)
    if not is_ours and (isinstance(found, AsyncConnection) or isawaitable(found)):
        return _play_async(found, script_of, frame)
    # Not conn.cursor(): the caller's connection may make cursors and rows of another kind.
    to: Any = (
        _PsycopgSender(Cursor(found, row_factory=tuple_row)) if is_ours else Psycopg2Sender(found)
    )
    with frame:
        try:
            return _played(to, script_of(found))
        except to.errors as error:
            raise to.trouble(error) from error
        finally:
            if to.cursor is not None:
                to.cursor.close()


async def _play_async(found: Any, script_of: Callable[[Any], Script[T]], frame: Frame) -> T:
    conn = await found if isawaitable(found) else found
    is_ours = isinstance(conn, AsyncConnection)
    to: Any = (
        _AsyncPsycopgSender(AsyncCursor(conn, row_factory=tuple_row))
        if is_ours
        else AsyncpgSender(conn)
    )
    with frame:
        try:
            return await _played_async(to, script_of(conn))
        except to.errors as error:
            raise to.trouble(error) from error


def _played(to: _PsycopgSender | Psycopg2Sender, script: Script[T]) -> T:
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


async def _played_async(to: _AsyncPsycopgSender | AsyncpgSender, script: Script[T]) -> T:
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


def _trouble(error: psycopg.Error) -> Trouble:
    diag = error.diag
    message = diag.message_primary or next(iter(str(error).splitlines()), "")
    return Trouble(error, error.sqlstate or "", message, diag.message_detail)


@dataclass(slots=True)
class _PsycopgSender:
    """Sends through a connection of psycopg."""

    cursor: Cursor[Row]
    errors: ClassVar = psycopg.Error
    trouble: ClassVar = staticmethod(_trouble)

    def ask(self, name: str, given: Any, prepare: bool | None) -> Row | int | None:  # noqa: FBT001
        if name != COPY:
            return self.cursor.execute(query("log", name), given, prepare=prepare).fetchone()
        with self.cursor.copy(query("log", name)) as copy:
            for row in given:
                copy.write_row(row)
        return self.cursor.rowcount

    @contextmanager
    def whole(self) -> Iterator[None]:
        conn = self.cursor.connection
        if _is_alone(conn):
            with conn.transaction():
                yield
            return
        try:
            yield
        except BaseException:
            if _is_open(conn):
                with suppress(psycopg.Error):
                    self.cursor.execute(ABORT)
            raise


@dataclass(slots=True)
class _AsyncPsycopgSender:
    """Sends through a connection of psycopg that is awaited."""

    cursor: AsyncCursor[Row]
    errors: ClassVar = psycopg.Error
    trouble: ClassVar = staticmethod(_trouble)

    async def ask(self, name: str, given: Any, prepare: bool | None) -> Row | int | None:  # noqa: FBT001
        if name != COPY:
            await self.cursor.execute(query("log", name), given, prepare=prepare)
            return await self.cursor.fetchone()
        async with self.cursor.copy(query("log", name)) as copy:
            for row in given:
                await copy.write_row(row)
        return self.cursor.rowcount

    @asynccontextmanager
    async def whole(self) -> AsyncIterator[None]:
        conn = self.cursor.connection
        if _is_alone(conn):
            async with conn.transaction():
                yield
            return
        try:
            yield
        except BaseException:
            if _is_open(conn):
                with suppress(psycopg.Error):
                    await self.cursor.execute(ABORT)
            raise


def _is_alone(conn: Connection[Any] | AsyncConnection[Any]) -> bool:
    """Tell whether the caller has no transaction, and the first statement begins none.

    Only then may a script begin and commit one. In the caller's it MUST NOT use a savepoint: an
    error has to abort all of it, or the rest would commit without the events that belong to it.
    """
    return conn.autocommit and conn.info.transaction_status == TransactionStatus.IDLE


def _is_open(conn: Connection[Any] | AsyncConnection[Any]) -> bool:
    """Tell whether the caller could commit a part of the script: then it MUST be aborted."""
    return conn.info.transaction_status == TransactionStatus.INTRANS
