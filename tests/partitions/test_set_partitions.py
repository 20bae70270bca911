"""gapless.set_partitions(): what it changes, when, and beside whom."""

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from gapless.db.connect import connect
from gapless.errors import UsageError
from gapless.log.sequence import sequence
from gapless.log.topics import ensure_topic, find_topic, set_partitions
from partitions.players import Players
from support.log import assert_gapless, placed, tags
from support.waiting import WAIT_S, in_thread, until_waiting

LAYOUTS = "select layout, partitions from gapless.layout order by layout"


def test_what_was_committed_before_stays(players: Players) -> None:
    """Committed, but without an offset yet: it still goes by the old number."""
    before = players.publish(*(f"k{n}" for n in range(20)), sequenced=False)
    assert players.change(7) == 1
    after = players.publish(*(f"k{n}" for n in range(20)))
    log = placed(players.conn)
    for (_, partition_id), events in log.items():
        for event in events:
            number = 4 if event.tag in before else 7
            assert partition_id == players.place(players.keys[event.tag or ""], number)
    assert sorted(tags(log)) == sorted(before + after)
    assert_gapless(log)
    assert players.rows(LAYOUTS) == [(0, 4), (1, 7)]


def test_offsets_go_on_without_a_hole_over_many_changes(players: Players) -> None:
    for number in (4, 7, 2, 16, 3, 4):
        players.change(number)
        players.publish(*(players.key(p, number) for p in range(number)))
    log = placed(players.conn)
    assert_gapless(log)
    assert len(tags(log)) == 4 + 7 + 2 + 16 + 3 + 4
    assert {partition_id for _, partition_id in log} == set(range(16))


def test_a_transaction_that_is_open_during_a_change(dsn: str, players: Players) -> None:
    """The change does not wait for it; its events go by the new number, one and all."""
    with connect(dsn, role="producer") as producer:
        producer.execute("begin")
        keys = [f"k{n}" for n in range(20)]
        opened = players.insert(producer, *keys)
        players.publish("k0")
        players.change(9)
        assert sorted(tags(placed(players.conn))) == ["e20"]
        opened += players.insert(producer, *keys)
        producer.execute("commit")
        sequence(players.conn)
        for (_, partition_id), events in placed(players.conn).items():
            assert {
                players.place(players.keys[event.tag or ""], 9)
                for event in events
                if event.tag in opened
            } <= {partition_id}


def test_a_change_waits_for_a_run_of_the_sequencer(dsn: str, players: Players) -> None:
    with connect(dsn, role="sequencer") as run, connect(dsn, role="operator") as operator:
        run.execute("begin")
        run.execute("lock table gapless.guard_sequencing in exclusive mode")
        with in_thread(lambda: players.change(7, operator)) as change:
            until_waiting(players.conn, "relation")
            assert players.value("select partitions from gapless.topic") == 4
            run.execute("commit")
            assert change.result(WAIT_S) == 1


def test_no_run_falls_between_old_and_new(dsn: str, players: Players) -> None:
    """While the change has not committed, nobody sequences: it would place by the old number."""
    with connect(dsn, role="operator") as operator:
        operator.execute("begin")
        players.change(7, operator)
        late = players.publish(*(f"k{n}" for n in range(20)))
        assert placed(players.conn) == {}
        operator.execute("commit")
        sequence(players.conn)
        for (_, partition_id), events in placed(players.conn).items():
            for event in events:
                assert event.tag in late
                assert partition_id == players.place(players.keys[event.tag or ""], 7)


def test_a_change_that_is_killed_changed_nothing(dsn: str, players: Players) -> None:
    players.publish("a", "b")
    group = players.group()
    with pytest.raises(psycopg.OperationalError), connect(dsn, role="operator") as operator:
        operator.execute("begin")
        players.change(7, operator)
        players.conn.execute("select pg_terminate_backend(%s)", [operator.info.backend_pid])
        operator.execute("commit")
    assert players.value("select partitions from gapless.topic") == 4
    assert players.rows(LAYOUTS) == []
    assert players.value("select count(*) from gapless.barrier") == 0
    assert sorted(group.offsets()) == [0, 1, 2, 3]
    players.publish("a", "b")
    group.drain()
    group.assert_all()
    assert players.change(7) == 1


def test_two_changes_at_once_are_one_after_the_other(dsn: str, players: Players) -> None:
    players.publish(*(f"k{n}" for n in range(20)))
    group = players.group()
    with connect(dsn, role="operator") as one, connect(dsn, role="operator") as other:
        one.execute("begin")
        players.change(7, one)
        with in_thread(lambda: players.change(2, other)) as second:
            until_waiting(players.conn, "relation")
            one.execute("commit")
            assert second.result(WAIT_S) == 2
    assert players.rows(LAYOUTS) == [(0, 4), (1, 7), (2, 2)]
    players.publish(*(f"k{n}" for n in range(20)))
    group.drain()
    group.assert_all()
    assert list(group.leases()) == [0, 1]


def test_a_change_waits_for_no_batch(dsn: str, players: Players) -> None:
    """A handler may take minutes; meanwhile nothing would get an offset."""
    players.publish(players.key(0, 4))
    group = players.group()
    held = group.assignment(0)
    with connect(dsn, role="worker") as worker:
        worker.execute("begin")
        claimed = worker.execute(
            "select outcome from gapless.claim('g', %s, 0, %s, %s, 1)",
            [players.topic.topic_id, held.epoch, held.token],
        ).fetchone()
        assert claimed == ("claimed",)
        players.conn.execute("set statement_timeout = '10s'")
        assert [players.change(n) for n in (7, 2, 9)] == [1, 2, 3]
        players.conn.execute("select gapless.create_group('g', 't')")
        worker.execute("rollback")


def test_a_group_made_during_a_change_has_all_partitions(dsn: str, players: Players) -> None:
    """Either the change sees the group, or the group sees the change."""
    with connect(dsn, role="operator") as operator, connect(dsn, role="group") as late:
        operator.execute("begin")
        players.change(7, operator)
        create = "select gapless.create_group('late', 't')"
        with in_thread(lambda: late.execute(create)) as creation:
            until_waiting(players.conn, "transactionid")
            operator.execute("commit")
            creation.result(WAIT_S)
    for table in ("lease", "consumer_offsets"):
        rows = players.rows(f"select partition_id from gapless.{table} order by 1")
        assert [row[0] for row in rows] == list(range(7))
    with connect(dsn, role="group") as early, connect(dsn, role="operator") as operator:
        early.execute("begin")
        early.execute("select gapless.create_group('early', 't')")
        with in_thread(lambda: players.change(9, operator)) as change:
            until_waiting(players.conn, "transactionid")
            early.execute("commit")
            change.result(WAIT_S)
    found = "select count(*) from gapless.lease where group_id = 'early'"
    assert players.value(found) == 9


def test_what_is_refused(players: Players) -> None:
    conn = players.conn
    for partitions in (0, 4097, -1):
        with pytest.raises(UsageError, match=f"from 1 to 4096, not {partitions}"):
            set_partitions(conn, "t", partitions)
    with pytest.raises(UsageError, match='"nosuch" does not exist'):
        set_partitions(conn, "nosuch", 3)
    found = find_topic(conn, "t")
    assert found is not None
    assert found.partitions == 4


def test_a_number_in_a_configuration_that_differs_is_refused(players: Players) -> None:
    players.change(7)
    with pytest.raises(UsageError, match="has 7 partitions in the database, not 4"):
        ensure_topic(players.conn, "t", partitions=4)
    assert ensure_topic(players.conn, "t", partitions=7).partitions == 7


def test_only_operators_may(dsn: str, players: Players) -> None:
    for role, may in (("producer", False), ("consumer", False), ("operator", True)):
        name = f"gapless_partitions_{role}"
        players.conn.execute(f"create role {name} login password 'x' in role gapless_{role}")
        try:
            with psycopg.connect(make_conninfo(dsn, user=name, password="x")) as conn:
                conn.autocommit = True
                if may:
                    assert players.change(7, conn) == 1
                else:
                    with pytest.raises(psycopg.errors.InsufficientPrivilege):
                        players.change(7, conn)
        finally:
            players.conn.execute(f"drop role {name}")
