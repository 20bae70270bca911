"""The same publish() through a sync and an async connection, so that one suite tests both."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol
from uuid import UUID

from psycopg import AsyncConnection, Connection

from gapless.log.publish import publish


class Publisher(Protocol):
    """A connection of either kind, made synchronous."""

    @property
    def conn(self) -> Connection[Any] | AsyncConnection[Any]: ...

    def publish(self, topic: str, what: object, /, **fields: Any) -> UUID: ...
    def execute(self, statement: str) -> None: ...


class _Sync:
    def __init__(self, conn: Connection[Any]) -> None:
        self.conn = conn

    def publish(self, topic: str, what: object, /, **fields: Any) -> UUID:
        return publish(self.conn, topic, what, **fields)

    def execute(self, statement: str) -> None:
        self.conn.execute(statement.encode())


class _Async:
    def __init__(self, conn: AsyncConnection[Any], runner: asyncio.Runner) -> None:
        self.conn = conn
        self._runner = runner

    def publish(self, topic: str, what: object, /, **fields: Any) -> UUID:
        async def call() -> UUID:
            return await publish(self.conn, topic, what, **fields)

        return self._runner.run(call())

    def execute(self, statement: str) -> None:
        async def call() -> None:
            await self.conn.execute(statement.encode())

        self._runner.run(call())


@contextmanager
def publisher(dsn: str, kind: str, *, autocommit: bool = True) -> Iterator[Publisher]:
    """Open a connection of one kind ("sync" or "async") for publishing."""
    if kind == "sync":
        with Connection.connect(dsn, autocommit=autocommit) as conn:
            yield _Sync(conn)
        return
    with asyncio.Runner() as runner:
        opened = runner.run(AsyncConnection.connect(dsn, autocommit=autocommit))
        try:
            yield _Async(opened, runner)
        finally:
            runner.run(opened.close())
