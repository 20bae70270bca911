"""Which connections publish() takes, and what leads to one of what it does not take."""

from typing import Any

import asyncpg
import pytest
import sqlalchemy as sa

from gapless.errors import UsageError
from gapless.log.borrowed import borrow, without_session

TAKEN = "a connection of psycopg, psycopg2 or asyncpg, of SQLAlchemy (or a session), or of Django"


def made(kind: type) -> Any:
    """An object of a class, without the connection that it would open."""
    return object.__new__(kind)


Pool = made(asyncpg.Pool)


def named(name: str) -> Any:
    return type(name, (), {})()


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("str", ": connect first: gapless.connect(dsn)"),
        ("Engine", ": take a connection of it: with engine.begin() as conn"),
        ("AsyncEngine", ": take a connection of it: async with engine.begin() as conn"),
        ("sessionmaker", ": call it: with maker.begin() as session"),
        ("async_sessionmaker", ": call it: async with maker.begin() as session"),
        ("ConnectionPool", ": take a connection of it: with pool.connection() as conn"),
        ("AsyncConnectionPool", ": take a connection of it: async with pool.connection() as conn"),
        ("Pool", ": take a connection of it: async with pool.acquire() as conn"),
        ("ConnectionHandler", ': take one of them: connections["default"]'),
        ("Other", ""),
    ],
)
def test_what_leads_to_a_connection_is_said(name: str, hint: str) -> None:
    assert str(without_session(named(name))) == f"{name} is not {TAKEN}{hint}"
    with pytest.raises(UsageError) as caught:
        borrow(named(name))
    assert str(caught.value) == f"{name} is not {TAKEN}{hint}"


def test_a_pool_has_no_transaction() -> None:
    with pytest.raises(UsageError, match=r"Pool is not .*: async with pool\.acquire\(\) as conn$"):
        borrow(Pool)


class TestSqlalchemy:
    """Of SQLite, which is refused at the end: by then it was led to its driver."""

    def test_a_transaction_is_open_as_its_next_statement_would_have_it(self) -> None:
        engine = sa.create_engine("sqlite://")
        with engine.connect() as conn:
            assert not conn.in_transaction()
            for _ in range(2):
                with pytest.raises(UsageError):
                    borrow(conn)
                assert conn.in_transaction()
        engine.dispose()
