"""Which transactions that were prepared are named: those that keep others from what leases need."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from support.twins import Twins

# What each has done beside taking an xid; and whether it is in the way.
DONE = {
    "offsets": ("lock table gapless.consumer_offsets in row share mode", True),
    "member": ("lock table gapless.member in row exclusive mode", True),
    "lease": ("lock table gapless.lease in row share mode", True),
    "guard": ("lock table gapless.guard_chunks in share mode", True),
    "reads": ("select from gapless.lease, gapless.member, gapless.consumer_offsets", False),
    "another table": ("lock table gapless.audit in row exclusive mode", False),
    "another schema": ("lock table public.lease in row exclusive mode", False),
    "another kind of lock": ("select pg_advisory_xact_lock(7427999, 1)", False),
}
AGED = "select bool_and(clock_timestamp() - prepared > interval '2 s') from pg_prepared_xacts where gid like %s"


def prepare(conn: Connection[Any], gid: str, done: str) -> None:
    conn.execute("begin")
    conn.execute("select pg_current_xact_id()")
    conn.execute(done.encode())
    conn.execute(f"prepare transaction '{gid}'".encode())


@pytest.fixture(scope="module")
def left(
    shared: Twins, module_dsn: str, database_like: Any, template: str
) -> Iterator[Connection[Any]]:
    """They are two seconds old."""
    with (
        database_like(template) as there,
        psycopg.connect(module_dsn, autocommit=True) as here,
        psycopg.connect(there, autocommit=True) as elsewhere,
        ExitStack() as stack,
    ):
        here.execute("create table public.lease ()")
        todo = [(here, gid, done) for gid, (done, _) in DONE.items()]
        for conn, gid, done in (*todo, (elsewhere, "elsewhere", DONE["lease"][0])):
            prepare(conn, f"twins {gid}", done)
            stack.callback(conn.execute, f"rollback prepared 'twins {gid}'".encode())
        while shared.conn.execute(AGED, ["twins %"]).fetchone() != (True,):
            pass
        yield here


def test_what_was_prepared_and_is_in_the_way(twins: Twins, left: Connection[Any]) -> None:
    """For two seconds. It says who left it, and for how long."""
    rows = left.execute("select gid, owner, xid, since_s from gapless.left_prepared()").fetchall()
    assert {row[0] for row in rows} == {
        f"twins {gid}" for gid, (_, is_named) in DONE.items() if is_named
    }
    prepared = {
        row[0]: row[1:]
        for row in left.execute(
            "select gid, owner::text, transaction, extract(epoch from clock_timestamp() - prepared)"
            " from pg_prepared_xacts"
        )
    }
    for gid, owner, xid, since_s in rows:
        assert (owner, xid) == prepared[gid][:2]
        assert 2 < since_s <= prepared[gid][2]


def test_what_was_prepared_just_now_is_not(twins: Twins, left: Connection[Any]) -> None:
    count = "select count(*) from gapless.left_prepared()"
    before = twins.value(count)
    prepare(left, "twins fresh", DONE["lease"][0])
    try:
        assert twins.value(count) == before
    finally:
        left.execute("rollback prepared 'twins fresh'")
