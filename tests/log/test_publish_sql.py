"""Publishing without gapless's Python: INSERT, COPY and gapless.publish() from psql."""

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg import Connection

from gapless.db.connect import connect
from gapless.log.sequence import sequence
from gapless.log.topics import Topic, ensure_topic
from support.clients import psql
from support.log import assert_gapless, placed
from support.servers import until

COLUMNS = "key, event_type, payload::text, headers::text, host_id, user_id, transaction_id"


def _rows(conn: Connection, columns: str = COLUMNS) -> list[tuple[object, ...]]:
    return conn.execute(f"select {columns} from gapless.outbox_message_t order by id").fetchall()


def test_from_psql_in_every_way(conn: Connection, dsn: str, topic: Topic) -> None:
    psql(
        dsn,
        r"""
        create table orders (id int primary key);
        begin;
        insert into orders values (1);
        insert into gapless.outbox_message_t (key, event_type, payload)
          values ('AA', 'inserted', '{"n":  1}');
        select gapless.publish('outbox', '{"n":  2}', key => 'AA', event_type => 'published');
        \copy gapless.outbox_message_t (key, event_type, payload) from stdin
AA	copied	{"n":  3}
AA	copied	{"n":  4}
\.
        commit;
        begin;
        insert into orders values (2);
        select gapless.publish('outbox', '0', event_type => 'never');
        rollback;
        """,
    )
    assert _rows(conn, "event_type, payload::text") == [
        ("inserted", '{"n":  1}'),
        ("published", '{"n":  2}'),
        ("copied", '{"n":  3}'),
        ("copied", '{"n":  4}'),
    ]
    assert sequence(conn) == 4
    log = placed(conn)
    assert_gapless(log)
    ((*_, last),) = log.values()
    assert last.ends_unit
    assert psql(dsn, "select c_offset, event_type from gapless.read('outbox', 1, 2, 3)") == (
        "2|published\n3|copied\n"
    )


def test_a_topic_that_is_created_meanwhile(conn: Connection, dsn: str) -> None:
    """Refused or stored: two looks at the topics, one before and one after, can answer neither."""
    conn.execute(
        "create function dawdle() returns trigger language plpgsql as"
        " $$ begin perform pg_advisory_xact_lock_shared(99); return null; end $$"
    )
    conn.execute(
        "create trigger dawdle after insert on gapless.outbox_message_t"
        " for each statement execute function dawdle()"
    )
    conn.execute("select pg_advisory_lock(99)")
    waits = "select count(*) from pg_locks where locktype = 'advisory' and not granted"
    with connect(dsn, role="publisher") as other, ThreadPoolExecutor(1) as pool:
        attempt = pool.submit(other.execute, "select gapless.publish('fresh', '1')")
        assert until(lambda: attempt.done() or conn.execute(waits).fetchone() == (1,))
        ensure_topic(conn, "fresh", partitions=1)
        conn.execute("select pg_advisory_unlock(99)")
        refused = attempt.exception()
    assert getattr(refused, "sqlstate", None) == "GL404" or len(_rows(conn)) == 1


def test_a_function_with_an_odd_search_path_publishes(conn: Connection, topic: Topic) -> None:
    """Business code has its own search_path, and tables named like ours."""
    conn.execute("create table public.outbox_message_t (n int)")
    conn.execute("create table public.topic (n int)")
    for path in ("''", "public", "pg_temp, public"):
        conn.execute(f"set search_path = {path}")
        conn.execute("select gapless.publish('outbox', '1')")
        conn.execute("insert into gapless.outbox_message_t (payload) values ('1')")
    assert sequence(conn) == 6


@pytest.mark.parametrize(
    ("created", "ok"), [("-infinity", False), ("infinity", False), ("2013-01-01", True)]
)
def test_no_time_that_python_cannot_read(conn: Connection, created: str, ok: bool) -> None:
    insert = "insert into gapless.outbox_message_t (created_ts) values (%s)"
    if ok:
        conn.execute(insert, [created])
    else:
        with pytest.raises(psycopg.errors.CheckViolation):
            conn.execute(insert, [created])
