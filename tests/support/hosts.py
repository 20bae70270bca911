"""The connections and sessions through which programs publish, of every library, driven alike by a test."""

import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import psycopg2
import psycopg2.extras
import sqlalchemy as sa
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

import gapless


class UndoneError(Exception):
    """Raised by a test within a block, to have it rolled back."""


async def done(result: Any) -> Any:
    return await result if inspect.isawaitable(result) else result


class Host:
    """A connection of some library; publish() is given `conn`."""

    def __init__(self, conn: Any, savepoint: Callable[[], Any] | None = None) -> None:
        self.conn = conn
        self._savepoint = savepoint or conn.begin_nested

    async def publish(self, what: object, **fields: Any) -> Any:
        return await done(gapless.publish(self.conn, "outbox", what, **fields))

    async def execute(self, text: str) -> None:
        await done(self.conn.execute(sa.text(text) if self._is_sa else text))

    @property
    def _is_sa(self) -> bool:
        return type(self.conn).__module__.startswith("sqlalchemy")

    async def commit(self) -> None:
        await done(self.conn.commit())

    async def rollback(self) -> None:
        await done(self.conn.rollback())

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        block = self._savepoint()
        if hasattr(block, "__aenter__"):
            async with block:
                yield
        else:
            with block:
                yield


class AsyncpgHost(Host):
    """asyncpg: without a block, each statement is a transaction."""

    def __init__(self, conn: Any, *, autocommit: bool) -> None:
        super().__init__(conn, conn.transaction)
        self._autocommit = autocommit
        self._block: Any = None

    async def begin(self) -> None:
        if not self._autocommit:
            self._block = self.conn.transaction()
            await self._block.start()

    async def commit(self) -> None:
        await self._block.commit()

    async def rollback(self) -> None:
        await self._block.rollback()
        await self.begin()


class Psycopg2Host(Host):
    def __init__(self, conn: Any) -> None:
        super().__init__(conn, self._block)

    async def execute(self, text: str) -> None:
        with self.conn.cursor() as cursor:
            cursor.execute(text)

    @asynccontextmanager
    async def _block(self) -> AsyncIterator[None]:
        await self.execute("savepoint s")
        try:
            yield
        except BaseException:
            await self.execute("rollback to savepoint s")
            raise


def _url(dsn: str, driver: str) -> sa.URL:
    parts = conninfo_to_dict(dsn)
    host = str(parts.get("host") or "localhost")
    where: dict[str, Any] = {"host": host}
    if host.startswith("/"):
        where = {"query": {"host": host}}
    return sa.URL.create(
        f"postgresql+{driver}",
        username=parts.get("user"),
        password=parts.get("password"),
        port=int(parts.get("port") or 5432),
        database=parts.get("dbname"),
        **where,
    )


_AUTO = {"isolation_level": "AUTOCOMMIT"}


@asynccontextmanager
async def sync_sqlalchemy(
    dsn: str, driver: str, kind: str, *, autocommit: bool
) -> AsyncIterator[Host]:
    engine = sa.create_engine(_url(dsn, driver), **(_AUTO if autocommit else {}))
    try:
        if kind == "connection":
            with engine.connect() as conn:
                yield Host(conn)
        elif kind == "session":
            with Session(engine) as session:
                yield Host(session)
        else:
            scoped = scoped_session(sessionmaker(engine))
            yield Host(scoped)
            scoped.remove()
    finally:
        engine.dispose()


@asynccontextmanager
async def async_sqlalchemy(
    dsn: str, driver: str, kind: str, *, autocommit: bool
) -> AsyncIterator[Host]:
    engine = create_async_engine(_url(dsn, driver), **(_AUTO if autocommit else {}))
    try:
        if kind == "connection":
            async with engine.connect() as conn:
                yield Host(conn)
        elif kind == "session":
            async with AsyncSession(engine) as session:
                yield Host(session)
        else:
            scoped = async_scoped_session(lambda: AsyncSession(engine), scopefunc=lambda: 1)
            yield Host(scoped)
            await scoped.remove()
    finally:
        await engine.dispose()


@asynccontextmanager
async def of_asyncpg(dsn: str, *, autocommit: bool) -> AsyncIterator[Host]:
    parts = conninfo_to_dict(dsn)
    conn = await asyncpg.connect(
        host=parts["host"], port=parts.get("port"), user=parts["user"],
        password=parts.get("password"), database=parts["dbname"],
    )  # fmt: skip
    # A program's own codec for JSON: the values of gapless must not pass through it.
    for name in ("json", "jsonb"):
        await conn.set_type_codec(name, encoder=repr, decoder=repr, schema="pg_catalog")
    host = AsyncpgHost(conn, autocommit=autocommit)
    await host.begin()
    try:
        yield host
    finally:
        await conn.close()


@asynccontextmanager
async def of_psycopg2(dsn: str, *, autocommit: bool) -> AsyncIterator[Host]:
    conn = psycopg2.connect(dsn, cursor_factory=psycopg2.extras.RealDictCursor)
    conn.autocommit = autocommit
    yield Psycopg2Host(conn)
    conn.close()


HOSTS: dict[str, Callable[..., Any]] = {
    "asyncpg": of_asyncpg,
    "psycopg2": of_psycopg2,
}
for _driver in ("psycopg", "psycopg2"):
    for _kind in ("connection", "session", "scoped"):
        HOSTS[f"sqlalchemy {_driver} {_kind}"] = (
            lambda dsn, autocommit, driver=_driver, kind=_kind: sync_sqlalchemy(
                dsn, driver, kind, autocommit=autocommit
            )
        )
for _driver in ("psycopg_async", "asyncpg"):
    for _kind in ("connection", "session", "scoped"):
        HOSTS[f"sqlalchemy {_driver} {_kind}"] = (
            lambda dsn, autocommit, driver=_driver, kind=_kind: async_sqlalchemy(
                dsn, driver, kind, autocommit=autocommit
            )
        )
