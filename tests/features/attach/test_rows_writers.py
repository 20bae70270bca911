"""Who may still insert into a table: other sessions that hold its locks, in each mode, or wait for them."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic, sleep
from typing import Any

import pytest
from psycopg import Connection

from gapless.db.connect import connect
from support.patience import patience

MADE = """
create table public.box (id int primary key);
create table public.twin (id int primary key);
insert into public.box values (1), (2);
"""
WRITERS = "select gapless.writers_of(%s::regclass)"
OWN = "select virtualtransaction from pg_locks where pid = %s limit 1"


class WritersDesk:
    """A session that asks, and two more that use tables."""

    def __init__(self, *conns: Connection[Any]) -> None:
        self.conn, self.second, self.third = conns
        self.conn.execute(MADE)
        for each in conns:
            each.execute("set lock_timeout = '5s'")

    def writers(self, table: str = "box") -> list[str]:
        row = self.conn.execute(WRITERS, [table]).fetchone()
        return [] if row is None else row[0]

    def name(self, who: Connection[Any]) -> str:
        """As pg_locks names its transaction."""
        row = self.conn.execute(OWN, [who.info.backend_pid]).fetchone()
        return "" if row is None else row[0]

    @contextmanager
    def waiting(self, statement: bytes) -> Iterator[None]:
        """The third session waits with that statement until the second ends its transaction."""
        third = self.third.pgconn
        third.send_query(b"begin; " + statement)
        query = "select from pg_locks where pid = %s and not granted"
        give_up_s = monotonic() + patience(20)
        while self.conn.execute(query, [self.third.info.backend_pid]).fetchone() is None:
            assert monotonic() < give_up_s
            sleep(0.001)
        try:
            yield
        finally:
            self.second.rollback()
            while third.get_result() is not None:
                pass
            third.exec_(b"rollback")


@pytest.fixture(scope="module")
def shared(module_dsn: str) -> Iterator[WritersDesk]:
    with (
        connect(module_dsn, role="test") as conn,
        connect(module_dsn, role="second") as second,
        connect(module_dsn, role="third") as third,
    ):
        yield WritersDesk(conn, second, third)


@pytest.fixture
def desk(shared: WritersDesk) -> Iterator[WritersDesk]:
    shared.second.execute("begin")
    with shared.conn.transaction(force_rollback=True):
        yield shared
    shared.second.rollback()
    shared.third.rollback()


MODES = {
    "access share": False,
    "row share": False,
    "row exclusive": True,
    "share update exclusive": False,
    "share": False,
    "share row exclusive": True,
    "exclusive": True,
    "access exclusive": True,
}


@pytest.mark.parametrize("mode", MODES)
def test_a_lock_that_lets_write(desk: WritersDesk, mode: str) -> None:
    assert desk.writers() == []
    desk.second.execute(f"lock table public.box in {mode} mode".encode())
    assert desk.writers() == ([desk.name(desk.second)] if MODES[mode] else [])
    assert desk.writers("twin") == []


def test_one_s_own_lock_is_none(desk: WritersDesk) -> None:
    desk.conn.execute("insert into public.box values (3)")
    desk.conn.execute("lock table public.twin in share row exclusive mode")
    assert desk.writers() == desk.writers("twin") == []
    desk.second.execute("insert into public.box values (4)")
    assert desk.writers() == [desk.name(desk.second)]


def test_each_writer_is_named_once(desk: WritersDesk) -> None:
    desk.second.execute("insert into public.box values (3)")
    desk.second.execute("lock table public.box in share row exclusive mode")
    assert desk.writers() == [desk.name(desk.second)]
    desk.second.rollback()
    for n, each in enumerate((desk.second, desk.third), 5):
        each.execute("begin")
        each.execute(b"insert into public.box values (%d)" % n)
    assert sorted(desk.writers()) == sorted([desk.name(desk.second), desk.name(desk.third)])


def test_who_waits_for_a_lock_has_written_nothing(desk: WritersDesk) -> None:
    desk.second.execute("lock table public.box in exclusive mode")
    with desk.waiting(b"insert into public.box values (5)"):
        assert desk.writers() == [desk.name(desk.second)]


def test_who_waits_for_a_row_writes_none(desk: WritersDesk) -> None:
    """It holds a lock of that row alone."""
    desk.second.execute("select from public.box where id = 1 for update")
    with desk.waiting(b"select from public.box where id = 1 for update"):
        assert desk.writers() == []


def test_a_table_of_that_number_in_another_database(
    desk: WritersDesk, elsewhere: Connection[Any]
) -> None:
    number = "select 'gapless.audit'::regclass::oid"
    assert desk.conn.execute(number).fetchone() == elsewhere.execute(number).fetchone()
    with elsewhere.transaction(force_rollback=True):
        elsewhere.execute("lock table gapless.audit in exclusive mode")
        assert desk.writers("gapless.audit") == []
