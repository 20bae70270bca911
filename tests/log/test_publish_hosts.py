"""publish() and wait_for() through what programs have: SQLAlchemy, asyncpg, psycopg2.

For each: what is published commits, and is rolled back, with what the program wrote beside it; also
within a savepoint; and in autocommit it is one transaction. Django has a file of its own, and what each
driver sends is in test_rows_publish.
"""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from psycopg import Connection
from sqlalchemy.orm import Session, sessionmaker

import gapless.testing
from gapless.errors import UsageError
from gapless.log.topics import Topic
from support.hosts import HOSTS, Host, UndoneError, done
from support.log import published_nothing

Play = Callable[[Host], Awaitable[None]]


@pytest.fixture(scope="module")
def dsn(module_dsn: str) -> str:
    """One database for the file; each test begins with nothing published in it."""
    return module_dsn


@pytest.fixture(params=HOSTS)
def host(request: pytest.FixtureRequest, dsn: str, topic: Topic, conn: Connection) -> Any:
    """Play a story through a host; autocommit: as its library has that."""
    published_nothing(conn)
    conn.execute("drop table if exists beside")
    conn.execute("create table beside (text text)")

    def play(story: Play, *, autocommit: bool = False) -> None:
        async def run() -> None:
            async with HOSTS[request.param](dsn, autocommit=autocommit) as opened:
                await story(opened)

        asyncio.run(run())

    return play


def stored(conn: Connection) -> list[Any]:
    rows = conn.execute("select payload from gapless.outbox_message_t order by id")
    return [row[0] for row in rows]


def beside(conn: Connection) -> list[str]:
    return [row[0] for row in conn.execute("select text from beside order by text")]


@pytest.mark.few(2)
def test_it_commits_with_what_was_written_beside_it(host: Any, conn: Connection) -> None:
    async def story(host: Host) -> None:
        transaction_id = await host.publish({"n": "1"}, key="AA", headers={"h": 1})
        await host.execute("insert into beside values ('a')")
        assert stored(conn) == []
        await host.commit()
        (found,) = conn.execute(
            "select gapless.transaction_uuid(xid), key, headers from gapless.outbox_message_t"
        ).fetchall()
        assert found == (transaction_id, "AA", {"h": 1})

    host(story)
    assert stored(conn) == [{"n": "1"}]
    assert beside(conn) == ["a"]


@pytest.mark.few(2)
def test_it_is_rolled_back_with_what_was_written_beside_it(host: Any, conn: Connection) -> None:
    async def story(host: Host) -> None:
        await host.publish({"n": 1})
        await host.execute("insert into beside values ('a')")
        await host.rollback()

    host(story)
    assert stored(conn) == []
    assert beside(conn) == []


@pytest.mark.few(2)
def test_it_is_gone_with_the_savepoint_it_was_made_in(host: Any, conn: Connection) -> None:
    async def story(host: Host) -> None:
        await host.execute("insert into beside values ('a')")
        await host.publish({"n": 1})
        with pytest.raises(UndoneError):
            async with host.savepoint():
                await host.publish({"n": 2})
                await host.execute("insert into beside values ('b')")
                raise UndoneError
        async with host.savepoint():
            await host.publish({"n": 3})
        await host.commit()

    host(story)
    assert stored(conn) == [{"n": 1}, {"n": 3}]
    assert beside(conn) == ["a"]


def waiting(conn: Connection) -> list[Any]:
    rows = conn.execute("select payload from gapless.scheduled order by scheduled_id")
    return [row[0] for row in rows]


@pytest.mark.few(4)
@pytest.mark.parametrize("cancelled", [True, False])
def test_events_for_later_wait_and_can_be_taken_back(
    host: Any, conn: Connection, cancelled: bool
) -> None:
    async def story(host: Host) -> None:
        (one,) = (await host.publish({"n": 1}, deliver_in=3600)).scheduled_ids
        (two,) = (await host.publish({"n": 2}, deliver_at="2100-01-01T00:00Z")).scheduled_ids
        assert two > one
        if cancelled:
            assert await done(gapless.cancel(host.conn, one))
            assert not await done(gapless.cancel(host.conn, one))
        assert waiting(conn) == []
        await host.commit()

    host(story)
    assert stored(conn) == []
    assert waiting(conn) == [{"n": 1}, {"n": 2}][cancelled:]


@pytest.mark.few(2)
def test_wait_for(host: Any, conn: Connection) -> None:
    conn.execute("select gapless.create_group('g', 'outbox')")

    async def story(host: Host) -> None:
        transaction_id = await host.publish(1)
        await host.commit()
        with pytest.raises(gapless.WaitError, match="does a sequencer run"):
            await done(gapless.wait_for(host.conn, "g", transaction_id, 0))
        with pytest.raises(UsageError, match="nobody"):
            await done(gapless.wait_for(host.conn, "nobody", transaction_id, 0))

    host(story)


def test_a_session_that_has_failed_says_so(dsn: str, topic: Topic) -> None:
    engine = sa.create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(dsn))
    with engine.connect() as conn, conn.begin():
        with conn.begin_nested() as nested:
            nested.rollback()
        gapless.publish(conn, "outbox", 1)
    engine.dispose()


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("postgresql://", r"str is not a connection of .*: connect first"),
        (object(), "object is not a connection of psycopg"),
        (None, "NoneType is not"),
        (sa.create_engine("sqlite://"), r"Engine is not .*with engine.begin\(\)"),
        (sessionmaker(), r"sessionmaker is not .*: call it"),
        (sqlite3.connect(":memory:"), "Connection is not"),
    ],
    ids=["text", "object", "none", "engine", "sessionmaker", "sqlite"],
)
def test_what_is_no_connection_is_said(what: object, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        gapless.publish(what, "outbox", 1)
    with pytest.raises(UsageError, match=words):
        gapless.wait_for(what, "g", "00000000-0000-0000-0000-000000000000")


def test_another_driver_of_sqlalchemy_is_said() -> None:
    engine = sa.create_engine("sqlite://")
    with Session(engine) as session:
        with pytest.raises(UsageError, match="driver here is sqlite3: gapless takes psycopg"):
            gapless.publish(session, "outbox", 1)
    engine.dispose()
