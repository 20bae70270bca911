"""Send the statements of a script through psycopg2 and asyncpg: the same ones, but no COPY."""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import cache
from typing import Any

from gapless.db.queries import query
from gapless.log.script import ABORT, Row, Trouble

_PLACEHOLDER = re.compile(r"%\((\w+)\)[sb]")
# asyncpg would give these to the codec that its connection has for them; as text they stay text.
_CODED = re.compile(r"(\$\d+)::(jsonb?|uuid)\b")


class Psycopg2Sender:
    """Sends through a connection of psycopg2."""

    def __init__(self, conn: Any) -> None:
        self._conn = conn
        self._driver: Any = sys.modules["psycopg2"]
        self.errors: type[Exception] = self._driver.Error
        self.cursor: Any = None

    def trouble(self, error: Any) -> Trouble:
        message = error.diag.message_primary or str(error)
        return Trouble(error, error.pgcode or "", message, error.diag.message_detail)

    def ask(self, name: str, params: Any, _: object) -> Row:
        if self.cursor is None:
            # Not the connection's own kind of cursor: its rows may be dictionaries.
            self.cursor = self._conn.cursor(cursor_factory=self._driver.extensions.cursor)
        self.cursor.execute(_text_for_psycopg2(name), params)
        return tuple(self.cursor.fetchone())

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Begin and commit, unless a transaction is open or a statement begins one."""
        conn = self._conn
        idle = self._driver.extensions.TRANSACTION_STATUS_IDLE
        is_alone = conn.autocommit and conn.info.transaction_status == idle
        with conn.cursor() as cursor:
            if is_alone:
                cursor.execute("begin")
            try:
                yield
            except BaseException:
                with suppress(self.errors):
                    cursor.execute("rollback" if is_alone else ABORT)
                raise
            if is_alone:
                cursor.execute("commit")


class AsyncpgSender:
    """Sends through a connection of asyncpg."""

    def __init__(self, conn: Any) -> None:
        self._conn = conn
        self.errors: type[Exception] = sys.modules["asyncpg"].PostgresError

    def trouble(self, error: Any) -> Trouble:
        state, message, detail = (
            getattr(error, name, None) for name in ("sqlstate", "message", "detail")
        )
        # The error as text would include the detail.
        return Trouble(error, state or "", message or str(error), detail)

    async def ask(self, name: str, params: Any, _: object) -> Row:
        text, names = _text_for_asyncpg(name)
        return tuple(await self._conn.fetchrow(text, *(params[name] for name in names)))

    @asynccontextmanager
    async def whole(self) -> AsyncIterator[None]:
        if not self._conn.is_in_transaction():
            async with self._conn.transaction():
                yield
            return
        try:
            yield
        except BaseException:
            with suppress(self.errors):
                await self._conn.execute(ABORT)
            raise


@cache
def _text_for_psycopg2(name: str) -> str:
    return _PLACEHOLDER.sub(r"%(\1)s", query("log", name))


@cache
def _text_for_asyncpg(name: str) -> tuple[str, tuple[str, ...]]:
    """Return a query with numbered parameters, and their names in the order of the numbers."""
    text = query("log", name)
    names = tuple(dict.fromkeys(_PLACEHOLDER.findall(text)))
    numbered = _PLACEHOLDER.sub(lambda found: f"${names.index(found[1]) + 1}", text)
    return _CODED.sub(r"\1::text::\2", numbered), names
