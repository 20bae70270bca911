"""A database of the state before SQL functions had a file each, with data in it, goes on.

data/0015.sql.gz is what `gapless init --sql` of that state said: 15 migrations, 78 files of functions.
What is in the database was put there by its functions, and by no program of today.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from psycopg import Connection

from gapless import handler, testing
from gapless.consume.unit import Unit
from gapless.db.connect import connect
from gapless.db.migrate import migrate, require_schema
from gapless.db.queries import sql_root
from gapless.errors import SchemaError, UsageError
from gapless.log.publish import publish
from support.clients import psql

OLD = Path(__file__).parent / "data" / "0015.sql.gz"
KEYS = "abacbdaabcda"  # of the events at offsets 1 to 12; each is a unit
WAITS, PARKED, DEAD = 1, 3, 4  # the others up to 6 were handled
# Whatever an operator would miss.
STATE = (
    "select * from gapless.topic order by 1",
    "select * from gapless.read('orders', 0) order by 1",
    "select to_jsonb(c) - 'filter_no' - 'latest_upto' from gapless.consumer_offsets c order by 1",
    "select group_id, topic_id, partition_id, epoch, lease_no from gapless.lease order by 1, 2, 3",
    "select * from gapless.group_pause order by 1",
    "select to_jsonb(d) - 'token' - 'epoch' - 'due_set_ts' from gapless.dead_letter d order by 1",
    "select * from gapless.dead_letter_key order by 1, 2, 3, 4",
    "select group_id, c_offset, payload::text, status from gapless.dead_letter_queue order by 1, 2",
    "select action, group_id, topic_id, detail from gapless.audit order by 1, 2",
    "select to_jsonb(l) - 'lag_s' from gapless.lag l order by 1",
)


@pytest.fixture
def old(empty_dsn: str) -> Iterator[Connection]:
    """A session in a database as it was: groups in the middle, letters of each kind, a pause."""
    psql(empty_dsn, gzip.decompress(OLD.read_bytes()).decode())
    with connect(empty_dsn, role="test") as conn:
        conn.execute("select gapless.create_chunks()")
        conn.execute("select gapless.create_topic('orders', 1)")
        conn.execute("select gapless.set_retention('orders', 86400, null, array['g'])")
        _publish(conn, 1, KEYS)
        conn.execute("select gapless.sequence_events()")
        for group in ("g", "p"):
            conn.execute("select gapless.create_group(%s, 'orders', 'earliest')", [group])
        conn.execute("select gapless.pause('p', reason => 'holiday')")
        conn.execute("create table effect (n serial, group_id text, event int)")
        _consume(conn)
        _publish(conn, 13, "ab")  # not sequenced
        yield conn


def _publish(conn: Connection, first: int, keys: str) -> None:
    for number, key in enumerate(keys, start=first):
        conn.execute(
            "select gapless.publish('orders', to_json(%s::int), key => %s, host_id => 'h')",
            [number, key],
        )


def _consume(conn: Connection) -> None:
    """Own the partition as a supervisor and its worker do, handle six events, and leave."""
    where: dict[str, Any] = {"member": uuid4(), "token": uuid4()}
    conn.execute(
        "select gapless.join_groups(%(member)s, gapless.next_member_no(), 'old', 10, 1, '1 hour',"
        " array['g'], array['orders'])",
        where,
    )
    (where["topic"],) = _row(conn, "select gapless.topic_id('orders')")
    conn.execute("select gapless.sync('g', %(topic)s)", where)
    (where["epoch"],) = _row(
        conn, "select gapless.acquire('g', %(topic)s, 0, %(member)s, %(token)s)", where
    )
    conn.execute("select gapless.install_fence('g', %(topic)s, 0, %(epoch)s, %(token)s)", where)
    with conn.transaction():
        outcome, last, xid, ids = _row(
            conn,
            "select outcome, last_offset, claim_xid, message_ids"
            " from gapless.claim('g', %(topic)s, 0, %(epoch)s, %(token)s, 6)",
            where,
        )
        assert (outcome, last) == ("claimed", 6)
        for offset, state, parks in (
            (WAITS, "waiting", True),
            (PARKED, "parked", True),
            (DEAD, "dead", False),
        ):
            conn.execute(
                "select gapless.set_aside('g', %(topic)s, 0, %(offset)s, array[%(id)s::bigint],"
                " %(state)s, 'why', 'trace', parks => %(parks)s)",
                {**where, "offset": offset, "id": ids[offset - 1], "state": state, "parks": parks},
            )
        conn.execute("insert into effect (group_id, event) values ('g', 2), ('g', 5), ('g', 6)")
        assert _row(conn, "select gapless.finish_batch(%s)", [xid]) == (True,)
    assert _row(conn, "select gapless.release('g', %(topic)s, 0, %(token)s)", where) == (True,)
    conn.execute("select gapless.leave_group(%(member)s)", where)


def _row(conn: Connection, statement: str, params: Any = None) -> tuple[Any, ...]:
    row = conn.execute(statement.encode(), params).fetchone()
    assert row is not None
    return row


def _state(conn: Connection) -> list[list[tuple[Any, ...]]]:
    return [conn.execute(statement.encode()).fetchall() for statement in STATE]


def _without_new(
    rows: list[tuple[Any, ...]], before: list[tuple[Any, ...]]
) -> list[tuple[Any, ...]]:
    """Return the rows without the columns that were added: these come last."""
    return [row[: len(had)] for row, had in zip(rows, before, strict=True)]


def test_it_is_the_state_before(old: Connection) -> None:
    (files,) = _row(old, "select count(*) from gapless.migration where kind = 'functions'")
    (last,) = _row(old, "select max(name) from gapless.migration where kind = 'migrations'")
    assert (files, last) == (78, "0015_member_role")
    with pytest.raises(SchemaError, match="run gapless init"):
        require_schema(old)


@pytest.mark.long
def test_nothing_that_is_stored_changes(old: Connection) -> None:
    before = _state(old)
    assert all(before), "there is something of everything"
    assert migrate(old) != []
    require_schema(old)
    assert migrate(old) == []
    applied = old.execute("select name from gapless.migration where kind = 'functions'").fetchall()
    files = {path.stem for path in (sql_root() / "functions").rglob("*.sql")}
    assert files <= {name for (name,) in applied}
    assert [
        _without_new(rows, had) for rows, had in zip(_state(old), before, strict=True)
    ] == before


@pytest.mark.long
def test_groups_of_before_take_all_events_until_they_are_given_a_filter(old: Connection) -> None:
    migrate(old)
    groups = "select group_id, filter_no > 0 from gapless.consumer_offsets order by 1"
    assert old.execute(groups).fetchall() == [("g", False), ("p", False)]
    assert _row(old, "select bool_and(is_kept) from gapless.dead_letter_event") == (True,)
    assert _row(old, "select gapless.set_filter('g', 'orders', array['order.*'])") == (True,)
    assert old.execute(groups).fetchall() == [("g", True), ("p", False)]


@pytest.mark.long
def test_functions_and_views_are_those_of_a_new_database(old: Connection, dsn: str) -> None:
    migrate(old)
    with connect(dsn, role="test") as new:
        for what in ("functions", "views"):
            there, fresh = (_made(conn, what) for conn in (old, new))
            assert {name: text for name, text in there.items() if fresh.get(name) != text} == {}
            assert set(fresh) == set(there)


def _made(conn: Connection, what: str) -> dict[str, str]:
    statement = {
        "functions": "select p.oid::regprocedure::text, pg_get_functiondef(p.oid) || p.proacl::text"
        " from pg_proc p where p.pronamespace = 'gapless'::regnamespace",
        "views": "select c.oid::regclass::text, pg_get_viewdef(c.oid) || c.relacl::text"
        " from pg_class c where c.relnamespace = 'gapless'::regnamespace and c.relkind = 'v'",
    }[what]
    return dict(conn.execute(statement.encode()).fetchall())


@pytest.mark.long
def test_it_goes_on_where_it_was(old: Connection, empty_dsn: str) -> None:
    @handler(topic="orders", on_failure="park-key")
    def write(unit: Unit, conn: Connection[Any]) -> None:
        for event in unit:
            conn.execute(
                "insert into effect (group_id, event) values (%s, %s)", [group, event.payload]
            )

    def effects() -> list[int]:
        rows = old.execute("select event from effect where group_id = %s order by n", [group])
        return [event for (event,) in rows]

    migrate(old)
    publish(old, "orders", 15, key="a")
    group = "g"
    testing.drain(empty_dsn, write, group=group)
    done = effects()
    assert sorted(done) == sorted({*range(1, 16)} - {DEAD})
    of_a = [event for event in done if f"{KEYS}aba"[event - 1] == "a"]
    assert of_a == sorted(of_a), "also of those that waited, and were parked"
    assert _row(old, "select gapless.redrive_letter('g', 'orders', 0, %s)", [DEAD]) == ("asked",)
    testing.drain(empty_dsn, write, group=group)
    assert effects() == [*done, DEAD]

    group = "p"
    with pytest.raises(UsageError):
        testing.drain(empty_dsn, write, group=group)
    assert _row(old, "select gapless.resume('p')") == (1,)
    testing.drain(empty_dsn, write, group=group)
    assert effects() == list(range(1, 16))
