"""Run the named queries of publish() and wait_for() through psycopg2 and asyncpg.

The same statements as through psycopg, but no COPY: many events are a statement each 200. What is
to be asked comes from a script, a generator that is told each row; so both drivers share it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator, Generator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from typing import Any, TypeVar

from gapless.db.queries import query
from gapless.log.borrowed import is_psycopg2

Row = tuple[Any, ...]
Question = tuple[str, Mapping[str, Any]]
"""A named query of `sql/log/queries/log.sql`, with its parameters."""
T = TypeVar("T")
Script = Generator[Question, Row, T]

_PLACEHOLDER = re.compile(r"%\((\w+)\)[sb]")
# asyncpg would hand these to whatever codec its connection has for them; as text they stay text.
_CODED = re.compile(r"(\$\d+)::(jsonb?|uuid)\b")


class Trouble(Exception):  # noqa: N818 - it carries one; who asked says what it means
    """What the server answered instead of a row: its SQLSTATE, its message, perhaps a detail."""

    def __init__(self, error: Exception, state: str, message: str, detail: str | None) -> None:
        super().__init__(message)
        self.error = error
        self.state = state
        self.message = message
        self.detail = detail


def play(conn: Any, script: Script[T], *, whole: bool) -> T:
    """Ask a script's questions through a connection of psycopg2; return what it comes to.

    whole: it is one transaction, also where `conn` is in autocommit outside of one.
    Raises Trouble for what the server refuses.
    """
    assert is_psycopg2(conn)
    driver: Any = sys.modules["psycopg2"]
    try:
        # Not the connection's own kind of cursor: its rows may be dictionaries.
        with conn.cursor(cursor_factory=driver.extensions.cursor) as cursor:
            if not (whole and _is_alone(conn)):
                return _played(cursor, script)
            with _begun(cursor):
                return _played(cursor, script)
    except driver.Error as error:
        diag = error.diag
        message = diag.message_primary or str(error)
        raise Trouble(error, error.pgcode or "", message, diag.message_detail) from error


async def play_async(conn: Any, script: Script[T], *, whole: bool) -> T:
    """Do the same through a connection of asyncpg."""
    driver: Any = sys.modules["asyncpg"]
    try:
        async with _begun_async(conn, whole=whole and not conn.is_in_transaction()):
            return await _played_async(conn, script)
    except driver.PostgresError as error:
        state, message, detail = (
            getattr(error, name, None) for name in ("sqlstate", "message", "detail")
        )
        # As text it has the detail in it.
        raise Trouble(error, state or "", message or str(error), detail) from error


def _played(cursor: Any, script: Script[T]) -> T:
    try:
        name, params = next(script)
        while True:
            cursor.execute(_text_for_psycopg2(name), params)
            name, params = script.send(tuple(cursor.fetchone()))
    except StopIteration as done:
        ended: T = done.value
        return ended


async def _played_async(conn: Any, script: Script[T]) -> T:
    question = next(script)
    while True:
        text, names = _text_for_asyncpg(question[0])
        row = await conn.fetchrow(text, *(question[1][name] for name in names))
        try:
            question = script.send(tuple(row))
        except StopIteration as done:
            ended: T = done.value
            return ended


def _is_alone(conn: Any) -> bool:
    """Tell whether no transaction is open, and none begins with a statement."""
    idle = sys.modules["psycopg2"].extensions.TRANSACTION_STATUS_IDLE
    return bool(conn.autocommit and conn.info.transaction_status == idle)


@contextmanager
def _begun(cursor: Any) -> Iterator[None]:
    cursor.execute("begin")
    try:
        yield
    except BaseException:
        cursor.execute("rollback")
        raise
    cursor.execute("commit")


@asynccontextmanager
async def _begun_async(conn: Any, *, whole: bool) -> AsyncIterator[None]:
    if not whole:
        yield
        return
    async with conn.transaction():
        yield


@cache
def _text_for_psycopg2(name: str) -> str:
    return _PLACEHOLDER.sub(r"%(\1)s", query("log", name))


@cache
def _text_for_asyncpg(name: str) -> tuple[str, tuple[str, ...]]:
    """Return a query with numbered parameters, and their names in that order."""
    text = query("log", name)
    names = tuple(dict.fromkeys(_PLACEHOLDER.findall(text)))
    numbered = _PLACEHOLDER.sub(lambda found: f"${names.index(found[1]) + 1}", text)
    return _CODED.sub(r"\1::text::\2", numbered), names
