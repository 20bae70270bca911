"""A session of SQLAlchemy within a handler's transaction: its effects are the unit's (I6)."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from psycopg import AsyncConnection, Connection
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

import gapless
from gapless import testing
from gapless.consume.unit import Unit
from gapless.errors import UsageError
from gapless.sqlalchemy import session_on


class Base(DeclarativeBase):
    pass


class Bill(Base):
    __tablename__ = "bill"
    n: Mapped[int] = mapped_column(primary_key=True)
    what: Mapped[dict[str, Any]] = mapped_column(sa.JSON)
    made: Mapped[Any] = mapped_column(sa.DateTime(timezone=True), server_default=sa.func.now())


@pytest.fixture
def shop(dsn: str, conn: Connection) -> str:
    testing.install(dsn, topics={"orders": 1, "mails": 1})
    conn.execute("create table bill (n int primary key, what json, made timestamptz default now())")
    for n in range(1, 4):
        gapless.publish(conn, "orders", {"n": n})
    return dsn


def bills(conn: Connection) -> list[int]:
    return [row[0] for row in conn.execute("select n from bill order by n")]


def run(dsn: str, function: Any, **options: Any) -> testing.Drained:
    return testing.drain(dsn, gapless.handler(topic="orders", group="g", **options)(function))


def test_what_it_writes_commits_with_the_offset(shop: str, conn: Connection) -> None:
    xids = []

    def bill(unit: Unit, conn: Connection[Any]) -> None:
        for event in unit:
            with session_on(conn) as session:
                session.add(Bill(n=event.payload["n"], what={"a": [1, None]}))
        row = conn.execute("select pg_current_xact_id()::text").fetchone()
        assert row is not None
        xids.append(row[0])

    assert run(shop, bill).dead == 0
    rows = conn.execute("select n, what, xmin::text from bill order by n").fetchall()
    assert [row[:2] for row in rows] == [(n, {"a": [1, None]}) for n in (1, 2, 3)]
    assert len(set(xids)) == 1  # nobody committed in between


def test_its_commit_and_rollback_are_savepoints(shop: str, conn: Connection) -> None:
    def bill(unit: Unit, conn: Connection[Any]) -> None:
        n = next(iter(unit)).payload["n"]
        with session_on(conn) as session:
            session.add(Bill(n=n, what={}))
            session.commit()
            session.add(Bill(n=n + 10, what={}))
            session.flush()
            session.rollback()
            session.add(Bill(n=n + 20, what={}))
        if n == 2:
            raise ValueError("all of it is undone")

    assert run(shop, bill).dead == 1
    assert bills(conn) == [1, 3, 21, 23]


def test_a_block_that_raises_undoes_what_it_wrote(shop: str, conn: Connection) -> None:
    def bill(unit: Unit, conn: Connection[Any]) -> None:
        n = next(iter(unit)).payload["n"]
        with pytest.raises(sa.exc.IntegrityError):
            with session_on(conn) as session:
                session.add(Bill(n=n + 10, what={}))
                session.flush()
                session.execute(sa.text("insert into bill values (:n, '{}')"), {"n": n + 10})
        conn.execute("insert into bill values (%s, '{}')", (n,))

    assert run(shop, bill).dead == 0
    assert bills(conn) == [1, 2, 3]


def test_publishing_through_it_is_the_units(shop: str, conn: Connection) -> None:
    def bill(unit: Unit, conn: Connection[Any]) -> None:
        with session_on(conn) as session:
            gapless.publish(session, "mails", {"n": unit.first_offset})

    run(shop, bill)
    rows = conn.execute("select cause from gapless.outbox_message_t where cause is not null")
    assert [row[0] for row in rows] == [f"g/orders/0@{n}" for n in (1, 2, 3)]


def test_one_that_is_kept_leads_nowhere(shop: str, conn: Connection) -> None:
    kept: list[Session] = []

    def bill(unit: Unit, conn: Connection[Any]) -> None:
        if kept:
            kept[0].add(Bill(n=99, what={}))
            with pytest.raises((sa.exc.SQLAlchemyError, psycopg.Error)):
                kept[0].flush()
        else:
            with session_on(conn) as session:
                kept.append(session)

    assert run(shop, bill).dead == 0
    assert bills(conn) == []


def test_a_deadlock_within_it_is_the_environments(shop: str, conn: Connection) -> None:
    calls = []

    def bill(unit: Unit, conn: Connection[Any]) -> None:
        calls.append(unit.first_offset)
        with session_on(conn) as session:
            session.add(Bill(n=unit.first_offset, what={}))
            session.flush()
            if len(calls) == 1:
                session.execute(sa.text("do $$ begin raise sqlstate '40P01'; end $$"))

    with pytest.raises(psycopg.errors.DeadlockDetected):
        run(shop, bill)
    assert run(shop, bill).dead == 0
    assert bills(conn) == [1, 2, 3]


def test_async(shop: str, conn: Connection) -> None:
    kept: list[AsyncSession] = []

    async def bill(unit: Unit, conn: AsyncConnection[Any]) -> None:
        n = next(iter(unit)).payload["n"]
        async with session_on(conn) as session:
            kept.append(session)
            session.add(Bill(n=n, what={"a": 1}))
            await session.commit()
            session.add(Bill(n=n + 10, what={}))
            await session.flush()
            await session.rollback()
            await gapless.publish(session, "mails", {"n": n})
            assert (await session.get_one(Bill, n)).what == {"a": 1}
        if n == 2:
            raise ValueError("all of it is undone")

    assert run(shop, bill).dead == 1
    assert bills(conn) == [1, 3]
    assert [event.payload for event in testing.published(conn, "mails")] == [{"n": 1}, {"n": 3}]


def test_another_connection_is_refused() -> None:
    with pytest.raises(UsageError, match="takes the handler's connection, not str"):
        session_on("postgresql://")  # type: ignore[call-overload]
