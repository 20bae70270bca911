"""Twins, made once for the tests of a file; each leaves them as they were. Staff: with clients."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import Connection, sql
from psycopg.conninfo import make_conninfo

from gapless.db.connect import connect
from support.chains import Chains, chained
from support.letters import Letters, planted
from support.staff import Staff
from support.twins import Twins

FEW = 8  # of the parameters of a test, without --long

SUBSCRIBE = (
    'select gapless.subscribe(%s, %s, %s, match => \'{"n": "$.n"}\', params => \'{"n": 1}\')'
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark most of the thousands of parameters long: each is one row of a table."""
    for item in items:
        if item.path.parent.name == "twins" and not item.get_closest_marker("few"):
            item.add_marker(pytest.mark.few(FEW))


@pytest.fixture(scope="module")
def shared(module_dsn: str) -> Iterator[Twins]:
    with connect(module_dsn, role="test") as conn:
        yield Twins(conn)


@pytest.fixture
def twins(shared: Twins) -> Iterator[Twins]:
    with shared.undone():
        yield shared


@pytest.fixture(scope="module")
def second(shared: Twins, module_dsn: str) -> Iterator[Connection[Any]]:
    """Yield another session; it sees the committed rows of the twins."""
    assert shared
    with connect(module_dsn, role="test") as conn:
        yield conn


@pytest.fixture
def other(twins: Twins, second: Connection[Any]) -> Iterator[Connection[Any]]:
    """Yield that session, in a transaction that is never committed."""
    assert twins
    with second.transaction(force_rollback=True):
        yield second


@pytest.fixture(scope="module")
def stranger(module_dsn: str) -> Iterator[str]:
    """Yield a role that may connect, and has no right to a lease."""
    name = f"gapless_test_stranger_{uuid4().hex[:12]}"
    with psycopg.connect(module_dsn, autocommit=True) as admin:
        admin.execute(sql.SQL("create role {} login password 'x'").format(sql.Identifier(name)))
        yield make_conninfo(module_dsn, user=name, password="x")
        admin.execute(sql.SQL("drop role {}").format(sql.Identifier(name)))


@pytest.fixture(scope="module")
def employed(shared: Twins) -> Staff:
    return Staff(shared)


@pytest.fixture
def staff(employed: Staff, twins: Twins) -> Staff:
    """Return the staff: a client of each ordered group, with all of it in hand."""
    assert employed.twins is twins
    employed.begin()
    return employed


@pytest.fixture(scope="module")
def set_aside(module_dsn: str) -> Iterator[Letters]:
    with planted(module_dsn) as made:
        yield Letters(made)


@pytest.fixture
def letters(set_aside: Letters) -> Iterator[Letters]:
    """Yield twins with the same units set aside everywhere."""
    with set_aside.twins.undone():
        yield set_aside


@pytest.fixture(scope="module")
def linked(module_dsn: str) -> Iterator[Chains]:
    with chained(module_dsn) as made:
        yield made


@pytest.fixture
def chains(linked: Chains) -> Iterator[Chains]:
    """Yield the chains with every group at the end of the log."""
    with linked.twins.undone():
        linked.seek(100)
        yield linked


@pytest.fixture
def direct(twins: Twins) -> Twins:
    """Let orders take direct messages; billing has its subscription s, mail has m, and of other billing has o."""
    for group, topic, name in (
        ("billing", "orders", "s"),
        ("mail", "orders", "m"),
        ("billing", "other", "o"),
    ):
        twins.conn.execute(SUBSCRIBE, [group, topic, name])
    twins.conn.execute("select gapless.create_group('alone', 'other')")
    twins.conn.execute("select gapless.set_direct('orders')")
    twins.conn.execute(
        "update gapless.consumer_group set is_scratch = true where group_id = 'auditor'"
    )
    twins.conn.execute("set local statement_timeout = '5s'")
    return twins
