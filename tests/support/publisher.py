"""The same calls through a connection of each driver, so that one table tests all players of scripts."""

import asyncio
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from uuid import UUID

import asyncpg
import psycopg
import psycopg2
import psycopg2.extras
from psycopg import AsyncConnection, Connection
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import dict_row

from gapless.log.publish import publish

KINDS: Final = ("sync", "async", "psycopg2", "asyncpg")
ERROR = (psycopg.Error, psycopg2.Error, asyncpg.PostgresError)


class Publisher:
    """A connection with synchronous calls. copies: whether many events are published by COPY."""

    def __init__(self, conn: Any, run: Callable[[Any], Any] | None) -> None:
        self.conn = conn
        self.copies = isinstance(conn, Connection | AsyncConnection)
        self._run = run

    def call(self, function: Callable[..., Any], *args: Any, **fields: Any) -> Any:
        """Call a function of gapless through the connection, and return its result."""
        if self._run is None:
            return function(self.conn, *args, **fields)

        async def called() -> Any:
            found = function(self.conn, *args, **fields)
            return await found if inspect.isawaitable(found) else found

        return self._run(called())

    def publish(self, topic: str, what: object, /, **fields: Any) -> UUID:
        told: UUID = self.call(publish, topic, what, **fields)
        return told

    def execute(self, statement: str) -> None:
        if not isinstance(self.conn, psycopg2.extensions.connection):
            self.call(lambda conn: conn.execute(statement))
            return
        with self.conn.cursor() as cursor:
            cursor.execute(statement)

    @property
    def is_idle(self) -> bool:
        """Tell whether no transaction is open."""
        if hasattr(self.conn, "is_in_transaction"):
            return not self.conn.is_in_transaction()
        return bool(self.conn.info.transaction_status == psycopg.pq.TransactionStatus.IDLE)

    def close(self) -> None:
        self.call(lambda conn: conn.close())


@contextmanager
def publisher(dsn: str, kind: str, *, autocommit: bool = True) -> Iterator[Publisher]:
    """Open a connection of one of KINDS for publishing."""
    with asyncio.Runner() as runner:
        made: Any
        # Rows that are dictionaries, where a driver has them: gapless reads its own as tuples.
        rows: Any = dict_row
        if kind == "sync":
            opened = Connection.connect(dsn, autocommit=autocommit, row_factory=rows)
            made = Publisher(opened, None)
        elif kind == "psycopg2":
            own = psycopg2.connect(dsn, cursor_factory=psycopg2.extras.RealDictCursor)
            own.autocommit = autocommit
            made = Publisher(own, None)
        elif kind == "async":
            connecting = AsyncConnection.connect(dsn, autocommit=autocommit, row_factory=rows)
            made = Publisher(runner.run(connecting), runner.run)
        else:
            made = Publisher(runner.run(_asyncpg(dsn)), runner.run)
        try:
            yield made
        finally:
            made.close()


async def _asyncpg(dsn: str) -> Any:
    parts = conninfo_to_dict(dsn)
    return await asyncpg.connect(
        host=parts["host"], port=parts.get("port"), user=parts["user"],
        password=parts.get("password"), database=parts["dbname"],
    )  # fmt: skip
