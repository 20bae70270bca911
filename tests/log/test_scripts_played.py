"""Scripts through psycopg2 and asyncpg: one transaction or the caller's, and what the server says of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any
from uuid import UUID

import asyncpg
import psycopg2
import psycopg2.extras
import pytest
from psycopg import Connection
from psycopg.conninfo import conninfo_to_dict

from gapless.log.foreign import Script, Trouble, play, play_async
from gapless.log.topics import Topic
from support.log import published_nothing

EVENT: dict[str, Any] = {
    "topic": "outbox", "payload": "1", "key": None, "event_type": None, "headers": None,
    "host_id": None, "user_id": None, "transaction_id": None,
}  # fmt: skip
GONE = 'topic "nowhere" does not exist: create it with gapless topics create nowhere'
ERROR = (psycopg2.Error, asyncpg.PostgresError)


class OwnError(Exception):
    """Raised by a script, between two questions."""


@pytest.fixture(scope="module")
def dsn(module_dsn: str) -> str:
    """One database for the file; each test begins with nothing published in it."""
    return module_dsn


@pytest.fixture(autouse=True)
def nothing(topic: Topic, conn: Connection) -> None:
    published_nothing(conn)


class Driver:
    """A connection of one of them, and what differs between the two."""

    def __init__(self, conn: Any, wait: Callable[[Awaitable[Any]], Any] | None) -> None:
        self.conn = conn
        self._wait = wait

    def play(self, script: Script[Any], *, whole: bool) -> Any:
        if self._wait is None:
            return play(self.conn, script, whole=whole)
        return self._wait(play_async(self.conn, script, whole=whole))

    def execute(self, text: str) -> None:
        if self._wait is not None:
            self._wait(self.conn.execute(text))
            return
        with self.conn.cursor() as cursor:
            cursor.execute(text)

    @property
    def is_idle(self) -> bool:
        if self._wait is not None:
            return not self.conn.is_in_transaction()
        return bool(self.conn.info.transaction_status == 0)

    def close(self) -> None:
        if self._wait is None:
            self.conn.close()
        else:
            self._wait(self.conn.close())


@pytest.fixture(params=["psycopg2", "asyncpg"])
def driver(request: pytest.FixtureRequest, dsn: str) -> Iterator[Driver]:
    """A connection in autocommit."""
    if request.param == "psycopg2":
        conn = psycopg2.connect(dsn, cursor_factory=psycopg2.extras.RealDictCursor)
        conn.autocommit = True
        made = Driver(conn, None)
        yield made
        made.close()
        return
    parts = conninfo_to_dict(dsn)
    with asyncio.Runner() as runner:

        async def connected() -> Any:
            return await asyncpg.connect(
                host=parts["host"], port=parts.get("port"), user=parts["user"],
                password=parts.get("password"), database=parts["dbname"],
            )  # fmt: skip

        made = Driver(runner.run(connected()), lambda what: runner.run(_awaited(what)))
        yield made
        made.close()


async def _awaited(what: Awaitable[Any]) -> Any:
    return await what


def publishing(*payloads: str, error: Exception | None = None, **last: Any) -> Script[list[Any]]:
    """Publish each; then ask what is not answered, or raise."""
    rows = []
    for payload in payloads:
        rows.append((yield "publish_one", EVENT | {"payload": payload}))  # noqa: PERF401
    if error is not None:
        raise error
    if last:
        yield "publish_one", EVENT | last
    return rows


def stored(conn: Connection) -> list[Any]:
    rows = conn.execute("select payload from gapless.outbox_message_t order by id").fetchall()
    return [row[0] for row in rows]


def transactions(conn: Connection) -> int:
    row = conn.execute("select count(distinct xid) from gapless.outbox_message_t").fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize("whole", [True, False])
def test_a_script_is_told_each_row_and_comes_to_something(
    driver: Driver, conn: Connection, whole: bool
) -> None:
    rows = driver.play(publishing("1", "2"), whole=whole)
    assert [len(row) for row in rows] == [1, 1]
    assert all(type(row) is tuple and UUID(str(row[0])) for row in rows), (
        "whatever its cursors make"
    )
    assert stored(conn) == [1, 2]
    assert transactions(conn) == (1 if whole else 2)
    assert driver.is_idle


@pytest.mark.parametrize("whole", [True, False])
def test_in_a_transaction_it_is_part_of_that(driver: Driver, conn: Connection, whole: bool) -> None:
    driver.execute("begin")
    driver.play(publishing("1", "2"), whole=whole)
    assert stored(conn) == []
    assert not driver.is_idle
    driver.execute("commit")
    assert stored(conn) == [1, 2]
    assert transactions(conn) == 1
    driver.execute("begin")
    driver.play(publishing("3"), whole=whole)
    driver.execute("rollback")
    assert stored(conn) == [1, 2]


@pytest.mark.parametrize("whole", [True, False])
def test_what_is_whole_is_stored_whole_or_not_at_all(
    driver: Driver, conn: Connection, whole: bool
) -> None:
    with pytest.raises(Trouble):
        driver.play(publishing("1", "2", topic="nowhere"), whole=whole)
    with pytest.raises(OwnError):
        driver.play(publishing("3", error=OwnError()), whole=whole)
    assert stored(conn) == ([] if whole else [1, 2, 3])
    assert driver.is_idle
    driver.play(publishing("4"), whole=whole)
    assert stored(conn)[-1] == 4, "the connection is as good as before"


def test_one_that_fails_in_a_transaction_is_the_callers_to_roll_back(
    driver: Driver, conn: Connection
) -> None:
    """No savepoint is set behind his back, which costs whether it fails or not."""
    driver.execute("begin")
    with pytest.raises(Trouble):
        driver.play(publishing("1", topic="nowhere"), whole=True)
    with pytest.raises(ERROR, match="current transaction is aborted"):
        driver.execute("select 1")
    driver.execute("rollback")
    assert stored(conn) == []


def test_what_the_server_says_is_told(driver: Driver) -> None:
    with pytest.raises(Trouble) as caught:
        driver.play(publishing(topic="nowhere"), whole=True)
    trouble = caught.value
    assert isinstance(trouble.error, ERROR)
    assert (trouble.state, trouble.message, trouble.detail) == ("GL404", GONE, None)
    assert str(trouble) == GONE
    with pytest.raises(Trouble) as caught:
        driver.play(publishing(payload="no"), whole=False)
    trouble = caught.value
    assert (trouble.state, trouble.detail) == ("22P02", 'Token "no" is invalid.')
    assert trouble.message == "invalid input syntax for type json"


def test_an_error_of_the_driver_alone_has_its_own_words(dsn: str) -> None:
    conn = psycopg2.connect(dsn)
    conn.close()
    with pytest.raises(Trouble) as caught:
        play(conn, publishing("1"), whole=True)
    trouble = caught.value
    assert isinstance(trouble.error, psycopg2.InterfaceError)
    assert (trouble.state, trouble.message) == ("", "connection already closed")


def test_a_connection_that_begins_by_itself_stays_in_its_transaction(
    dsn: str, conn: Connection
) -> None:
    """As psycopg2 is by default: what commits is the program's."""
    own = psycopg2.connect(dsn)
    play(own, publishing("1"), whole=True)
    assert stored(conn) == []
    own.commit()
    assert stored(conn) == [1]
    own.close()
