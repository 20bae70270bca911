"""wait_for() through psycopg, sync and async: how it ends, and what the database refuses."""

import asyncio
from collections.abc import Iterator
from time import monotonic
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import AsyncConnection, Connection
from psycopg.rows import dict_row

from gapless import handler
from gapless.db.connect import connect
from gapless.errors import UsageError, WaitError
from gapless.log.publish import publish
from gapless.log.wait import wait_for
from gapless.testing import drain

NOBODY = UUID(int=7)


@pytest.fixture(scope="module")
def shared(module_dsn: str) -> Iterator[Connection[Any]]:
    """Two groups of orders, one of another topic."""
    with connect(module_dsn, role="test") as conn:
        for name in ("orders", "other"):
            conn.execute("select gapless.create_topic(%s, 1)", [name])
        conn.execute("select gapless.create_group(g, 'orders') from unnest(array['a', 'b']) g")
        conn.execute("select gapless.create_group('c', 'other')")
        yield conn


@pytest.fixture
def told(shared: Connection[Any], module_dsn: str) -> UUID:
    """A transaction that a has handled, and b has not."""
    transaction_id = publish(shared, "orders", {"n": 1})
    drain(module_dsn, handler(topic="orders", group="a")(lambda unit, conn: None))
    return transaction_id


def waited(dsn: str, is_async: bool, *args: Any, before: str = "", **more: Any) -> Any:
    """Wait through a connection whose rows are of another kind, in a transaction that has begun."""
    if not is_async:
        with psycopg.connect(dsn, row_factory=dict_row) as conn:
            conn.execute(f"select 1; {before}".encode())
            return wait_for(conn, *args, **more)

    async def run() -> Any:
        async with await AsyncConnection.connect(dsn, row_factory=dict_row) as own:
            await own.execute(f"select 1; {before}".encode())
            return await wait_for(own, *args, **more)

    return asyncio.run(run())


@pytest.mark.parametrize("is_async", [False, True])
def test_it_is_handled_by_who_has_passed_it(module_dsn: str, told: UUID, is_async: bool) -> None:
    for named in (told, str(told)):
        assert waited(module_dsn, is_async, "a", named, 0) == "handled"
    with pytest.raises(WaitError) as caught:
        waited(module_dsn, is_async, "b", told, 0)
    assert (caught.value.state, caught.value.group) == ("pending", "b")
    with pytest.raises(WaitError) as caught:
        waited(module_dsn, is_async, "c", told, 9)
    assert (caught.value.state, caught.value.group) == ("elsewhere", "c")
    with pytest.raises(WaitError) as caught:
        waited(module_dsn, is_async, "a", NOBODY, 0)
    assert caught.value.state == "unknown"


@pytest.mark.parametrize("is_async", [False, True])
def test_it_waits_as_long_as_it_was_told(module_dsn: str, told: UUID, is_async: bool) -> None:
    """On the server, in calls of half a second."""
    began_s = monotonic()
    with pytest.raises(WaitError, match="the group has not come to it yet"):
        waited(module_dsn, is_async, "b", told, 0.6)
    assert 0.6 <= monotonic() - began_s < 5


@pytest.mark.parametrize("is_async", [False, True])
def test_what_is_refused_is_the_caller_s_fault(module_dsn: str, told: UUID, is_async: bool) -> None:
    with pytest.raises(UsageError, match=r'^there is no group "x"') as caught:
        waited(module_dsn, is_async, "x", told)
    assert "\n" not in str(caught.value), "nobody needs to know where in SQL it was said"
    with pytest.raises(UsageError, match=r'^there is no group "x"'):
        waited(module_dsn, is_async, "a", told, through=["x"])
    older = "rollback; begin isolation level repeatable read"
    with pytest.raises(UsageError, match="needs READ COMMITTED, not REPEATABLE READ"):
        waited(module_dsn, is_async, "a", told, before=older)


@pytest.mark.parametrize("is_async", [False, True])
def test_the_database_s_trouble_stays_what_it_is(
    module_dsn: str, told: UUID, is_async: bool
) -> None:
    with pytest.raises(psycopg.errors.QueryCanceled):
        waited(module_dsn, is_async, "b", told, 9, before="set statement_timeout = '20ms'")
