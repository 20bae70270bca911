"""The sequencer's traps, one by one (docs/learn/concepts.md, Sequencing)."""

from typing import Any

import psycopg
import pytest
from psycopg import Connection

from gapless.db.connect import connect
from gapless.db.queries import query
from gapless.log.publish import publish
from gapless.log.sequence import sequence
from gapless.log.topics import Topic
from support.log import assert_gapless, assert_neighbours, placed, tags
from support.plans import cost, pages

CALL = "select gapless.sequence_events()"


def test_a_caller_who_has_already_written_is_refused(conn: Connection, topic: Topic) -> None:
    with (
        pytest.raises(psycopg.errors.InvalidTransactionState, match="transaction of its own"),
        conn.transaction(),
    ):
        publish(conn, "outbox", 1)
        conn.execute(CALL)
    assert sequence(conn) == 0
    publish(conn, "outbox", 2)
    assert sequence(conn) == 1


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_a_caller_with_an_old_snapshot_is_refused(
    conn: Connection, topic: Topic, level: str
) -> None:
    publish(conn, "outbox", 1)
    with pytest.raises(psycopg.errors.InvalidTransactionState, match=f"not {level}"):
        with conn.transaction():
            conn.execute(f"set transaction isolation level {level}")
            conn.execute(CALL)
    assert sequence(conn) == 1


def test_a_run_that_finds_nothing_writes_nothing(conn: Connection, topic: Topic) -> None:
    publish(conn, "outbox", 1)
    assert sequence(conn) == 1
    with conn.transaction():
        assert conn.execute(CALL).fetchone() == (0,)
        assert conn.execute("select pg_current_xact_id_if_assigned()").fetchone() == (None,)


def test_pending_sees_what_its_statement_sees(conn: Connection, dsn: str, topic: Topic) -> None:
    """Else "nothing is pending, and nobody lags" holds of two moments, and of neither."""
    publish(conn, "outbox", 1)
    with connect(dsn, role="sequencer") as sequencer, conn.transaction():
        with conn.cursor("before") as before:
            before.execute("select gapless.pending(), (select count(*) from gapless.log_segment)")
            assert sequence(sequencer) == 1
            assert before.fetchone() == (True, 0)
    assert conn.execute("select gapless.pending()").fetchone() == (False,)


def test_who_committed_while_a_run_was_under_way_is_waited_for(
    conn: Connection, dsn: str, topic: Topic
) -> None:
    """`wait_for_offsets()` of Spark asks so whether all that committed before it has its offsets."""
    with connect(dsn, role="slow") as slow, connect(dsn, role="reader") as reader:

        def ask(name: str, **params: object) -> Any:
            return reader.execute(query("spark", name), params).fetchone()

        with conn.transaction():
            with slow.transaction():
                publish(slow, "outbox", 1)
                publish(reader, "outbox", 2)
                assert conn.execute(CALL).fetchone() == (1,)
            (xid,) = ask("now_xid")
        assert ask("is_sequenced_up_to", xid=xid) == (False,)
        assert sequence(conn) == 1
        assert ask("is_sequenced_up_to", xid=xid) == (True,)


@pytest.mark.invariant("I3")
def test_only_one_session_sequences_and_its_rollback_loses_nothing(
    conn: Connection, dsn: str, topic: Topic
) -> None:
    publish(conn, "outbox", 1)
    with connect(dsn, role="other") as other:
        with conn.transaction(force_rollback=True):
            assert conn.execute(CALL).fetchone() == (1,)
            assert other.execute(CALL).fetchone() == (None,)
            assert sequence(other) == 0
        assert sequence(other) == 1
    assert_gapless(placed(conn))


@pytest.mark.invariant("I2")
def test_savepoints_and_rollbacks(conn: Connection, topic: Topic) -> None:
    conn.execute("begin")
    publish(conn, "outbox", 0, key="a", event_type="kept")
    conn.execute("savepoint one")
    publish(conn, "outbox", 0, key="a", event_type="undone")
    conn.execute("rollback to one")
    publish(conn, "outbox", 0, key="a", event_type="kept after it")
    conn.execute("savepoint two")
    publish(conn, "outbox", 0, key="a", event_type="released")
    conn.execute("release two")
    conn.execute("commit")
    conn.execute("begin")
    publish(conn, "outbox", 0, key="a", event_type="never")
    conn.execute("rollback")
    publish(conn, "outbox", 0, key="a", event_type="next")

    assert sequence(conn) == 4
    log = placed(conn)
    assert tags(log) == ["kept", "kept after it", "released", "next"]
    assert [event.ends_unit for event in next(iter(log.values()))] == [False, False, True, True]
    assert_gapless(log)


@pytest.mark.invariant("I4")
def test_who_committed_before_comes_first(conn: Connection, dsn: str, topic: Topic) -> None:
    """Though the other one began before: its events stay neighbours, behind."""
    with connect(dsn, role="test") as other, other.transaction():
        publish(other, "outbox", 0, key="a", event_type="other 1")
        publish(conn, "outbox", 0, key="a", event_type="committed")
        publish(other, "outbox", 0, key="a", event_type="other 2")
    sequence(conn)
    assert tags(placed(conn)) == ["committed", "other 1", "other 2"]


@pytest.mark.invariant("I1")
def test_an_open_transaction_delays_nobody_else(conn: Connection, dsn: str, topic: Topic) -> None:
    """… and a run costs the same however long it stays open: old xids are looked up by index."""
    with connect(dsn, role="slow") as slow:
        slow.execute("begin")
        publish(slow, "outbox", 0, key="k", event_type="slow")
        costs = []
        for n in range(300):
            publish(conn, "outbox", n, key="k", event_type=f"quick {n}")
            costs.append(pages(conn, CALL))
            assert sequence(conn) == 0, "the run before has taken it"
        publish(slow, "outbox", 0, key="k", event_type="slow too")
        assert sequence(conn) == 0
        slow.execute("commit")
    assert sequence(conn) == 2
    log = placed(conn)
    assert tags(log) == [*(f"quick {n}" for n in range(300)), "slow", "slow too"]
    assert_gapless(log)
    assert max(costs[-50:]) < max(costs[50:100]) + 30, f"pages per run: {costs[50]} … {costs[-1]}"


def test_a_large_open_transaction_is_not_read_again_and_again(
    conn: Connection, dsn: str, topic: Topic
) -> None:
    """Each run would touch all its events (700 pages and more) to find that none has committed."""
    with connect(dsn, role="bulk") as bulk:
        bulk.execute("begin")
        bulk.execute(
            "insert into gapless.outbox_message_t (key, payload)"
            " select 'k', to_json(repeat('x', 1000)) from generate_series(1, 5000)"
        )
        publish(conn, "outbox", 1)
        assert sequence(conn) == 1
        publish(conn, "outbox", 2)
        looked = pages(conn, CALL)
        idle = pages(conn, CALL)
        bulk.execute("commit")
    assert sequence(conn) == 5000
    assert idle < 100
    assert looked < 300


def test_a_long_run_is_cut_into_segments(conn: Connection, topic: Topic) -> None:
    with conn.transaction():
        conn.execute(
            "insert into gapless.outbox_message_t (key, transaction_id)"
            " select 'k', ('00000000-0000-0000-0000-0000000000' || n / 250 + 10)::uuid"
            " from generate_series(0, 999) n"
        )
    publish(conn, "outbox", 0, key="k")
    assert sequence(conn) == 1001
    log = placed(conn)
    assert_gapless(log)
    assert_neighbours(log)
    (events,) = log.values()
    assert [e.c_offset for e in events if e.ends_unit] == [250, 500, 750, 1000, 1001]
    sizes = conn.execute(
        "select cardinality(message_ids), pg_column_size(s.*) from gapless.log_segment s order by base_offset"
    ).fetchall()
    assert [ids for ids, _ in sizes] == [200] * 5 + [1]
    assert max(size for _, size in sizes) < 2000, "the array must stay in the row, out of TOAST"


@pytest.mark.parametrize("way", ["insert", "copy", "publish"])
def test_an_event_has_its_xid_before_its_id(conn: Connection, topic: Topic, way: str) -> None:
    """The sequencer's floor rests on it: an id below the floor belongs to a finished transaction."""
    conn.execute(
        "create function pg_temp.next_id() returns bigint language plpgsql as $$ begin"
        " if pg_current_xact_id_if_assigned() is null then raise 'id before xid'; end if;"
        " return nextval('gapless.outbox_message_id_seq'); end $$"
    )
    conn.execute("alter table gapless.outbox_message_t alter id set default pg_temp.next_id()")
    if way == "insert":
        conn.execute("insert into gapless.outbox_message_t (key) values ('k')")
    elif way == "publish":
        conn.execute("select gapless.publish('outbox', '1')")
    else:
        with conn.cursor().copy("copy gapless.outbox_message_t (key) from stdin") as copy:
            copy.write_row(["k"])
    assert sequence(conn) == 1


def test_a_run_reads_only_what_is_new(conn: Connection, topic: Topic) -> None:
    conn.execute(
        "insert into gapless.outbox_message_t (key) select 'k' from generate_series(1, 5000)"
    )
    assert sequence(conn) == 5000
    for n in range(3):
        publish(conn, "outbox", n)
    with cost(conn) as spent:
        assert conn.execute(CALL).fetchone() == (3,)
    assert spent.events_looked_up <= 4 * 3
    assert not spent.scanned
