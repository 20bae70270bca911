"""A stranger with nothing but CONNECT takes every lock of gapless that can be taken (I11)."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest
from psycopg import Connection
from psycopg.conninfo import make_conninfo

from gapless.db.migrate import migrate
from gapless.features.retention.chunks import HistoryRetention, apply_retention
from gapless.lease.foreign_locks import end_foreign_locks, name_prepared
from gapless.log.publish import publish
from gapless.log.sequence import create_chunks, sequence
from gapless.log.topics import Topic, ensure_topic, set_partitions
from gapless.ops.doctor.rounds import diagnose
from gapless.status.look import snapshot
from support.fleet import Fleet, until
from support.ledger import assert_exactly_once

Role = Callable[..., str]
GUARDS = ("sequencing", "chunks", "topics", "retention", "planning", "keys", "classic")
SQUATTED = "select count(*) from gapless.foreign_locks"


@contextmanager
def holds(dsn: str, *locks: tuple[int, int], mode: str = "") -> Iterator[Connection]:
    """Hold advisory locks in a session, or wait for them."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        for kind, key in locks:
            conn.execute(f"select pg_try_advisory_lock{mode}({kind}, {key})".encode())
        yield conn


@pytest.mark.writes_nothing
@pytest.mark.invariant("I11")
@pytest.mark.parametrize("grant", [(), ("gapless_producer",), ("gapless_consumer",)], ids=str)
@pytest.mark.parametrize("table", GUARDS)
def test_a_guard_can_be_locked_by_nobody(
    role: Role, conn: Connection, grant: tuple[str, ...], table: str
) -> None:
    with psycopg.connect(role(*grant), autocommit=True) as stranger:
        for mode in ("access exclusive", "exclusive", "share", "row exclusive"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege), stranger.transaction():
                stranger.execute(f"lock table gapless.guard_{table} in {mode} mode".encode())


@pytest.mark.invariant("I11")
def test_what_one_session_does_at_a_time_hangs_on_no_advisory_lock(
    role: Role, conn: Connection, topic: Topic
) -> None:
    locks = [(7427001, n) for n in (1, 4, 5, 6, 7)] + [(7427004, 0), (7427006, 1)]
    with holds(role(), *locks):
        publish(conn, "outbox", 1)
        assert sequence(conn) == 1
        assert create_chunks(conn) == 0
        ensure_topic(conn, "orders", partitions=2)
        assert set_partitions(conn, "orders", 3).partitions == 3
        conn.execute("delete from gapless.migration where name = 'watch'")
        assert [each.name for each in migrate(conn)][:1] == ["watch"]
        apply_retention(conn, HistoryRetention(letters_s=None, audit_s=None))
        conn.execute("set statement_timeout = '5s'")
        conn.execute("select gapless.create_group('g', 'orders')")
        conn.execute("select gapless.sync('g', 2), gapless.lock_keys('g', 2, 0)")


@pytest.mark.invariant("I11")
def test_classic_names_hang_on_no_advisory_lock(role: Role, conn: Connection, topic: Topic) -> None:
    """Each table's number is a key that anybody could guess."""
    tables = conn.execute(
        "select oid::int from pg_class where relnamespace = 'gapless'::regnamespace"
    ).fetchall()
    with holds(role(), *[(each, 0) for (each,) in tables]):
        conn.execute("set statement_timeout = '5s'")
        conn.execute("select gapless.create_group('billing', 'outbox')")
        for done in ("show_classic('billing')", "notify_classic('outbox')"):
            assert conn.execute(f"select gapless.{done}".encode()).fetchone() == (True,)
        for done in ("hide_classic('billing')", "silence_classic('outbox')"):
            assert conn.execute(f"select gapless.{done}".encode()).fetchone() == (True,)


@pytest.mark.invariant("I11")
def test_who_shows_a_classic_name_does_so_alone(conn: Connection, dsn: str, topic: Topic) -> None:
    """Both may find no view there: one waits, and finds the other's."""
    for group in ("billing", "other"):
        conn.execute("select gapless.create_group(%s, 'outbox')", [group])
    with psycopg.connect(dsn) as one, psycopg.connect(dsn, autocommit=True) as two:
        one.execute("select gapless.show_classic('billing')")
        two.execute("set lock_timeout = '100ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable, match="lock_classic"):
            two.execute("select gapless.show_classic('other')")
        one.commit()
        assert two.execute("select gapless.show_classic('other')").fetchone() == (True,)


@pytest.mark.long
def test_locks_of_a_fleet_that_are_taken_before_it_starts(role: Role, fleet: Fleet) -> None:
    """All leases, members to come, the role, the sleep: their holders are ended, and it works."""
    lowest = fleet.value("select gapless.next_member_no()")
    members = [(7427002, lowest + n) for n in range(20)]
    leases = [(7427003, n) for n in range(1, 20)]
    dsn = role()
    with (
        holds(dsn, *members),
        holds(dsn, *leases),
        holds(dsn, (7427001, 3)) as sequencer,
        holds(dsn, (7427001, 2)),
        holds(dsn, (7427005, 7)),
    ):
        assert fleet.value(SQUATTED) >= 5
        a = fleet.start("a")
        fleet.until_owners(a=4)
        for partition in range(4):
            fleet.publish({}, partition=partition)
        fleet.until_handled()
        assert_exactly_once(fleet.conn)
        until(lambda: fleet.value(SQUATTED) == 0, "all are ended")
        assert a.logged(f"pid {sequencer.info.backend_pid} of role gapless_test_role")
        assert a.logged(
            "held the role of the sequencer, to which it has no right: its session was ended"
        )


@pytest.mark.long
def test_locks_of_a_fleet_that_are_waited_for_while_it_works(role: Role, fleet: Fleet) -> None:
    """They are next in the queue, and get the lock when its owner dies."""
    a, b = fleet.start("a"), fleet.start("b")
    fleet.until_owners(a=2, b=2)
    found = fleet.conn.execute(
        "select classid::int, objid::int from pg_locks where locktype = 'advisory' and granted"
        " and objsubid = 2 and classid in (7427001, 7427002, 7427003) and database ="
        " (select oid from pg_database where datname = current_database())"
    ).fetchall()
    waiting = [psycopg.connect(role(), autocommit=True) for _ in found]
    try:
        for conn, (kind, number) in zip(waiting, found, strict=True):
            conn.pgconn.send_query(f"select pg_advisory_lock({kind}, {number})".encode())
        until(lambda: fleet.value(SQUATTED) == 0, "all are ended")
        b.process.kill()
        fleet.until_owners(a=4)
        fleet.publish({}, {}, {})
        fleet.until_handled()
        assert_exactly_once(fleet.conn)
    finally:
        for conn in waiting:
            conn.close()
    assert a.process.poll() is None


@pytest.mark.invariant("I11")
def test_the_log_names_what_was_prepared_and_left(fleet: Fleet) -> None:
    """A handler's transaction, say, of a program that is gone."""
    a = fleet.start("a")
    fleet.until_owners(a=4)
    with fleet.conn.transaction():
        fleet.conn.execute("select from gapless.consumer_offsets where partition_id = 2 for update")
        fleet.conn.execute("prepare transaction 'left'")
    try:
        until(lambda: a.logged("prepared transaction 'left' of role"), "it is named")
        assert a.logged("has held rows that groups need to continue for ")
        assert a.logged("and nothing ends it but a person: rollback prepared 'left'")
        beat = "select max(beat) from gapless.member"
        later = fleet.value(beat) + 3
        until(lambda: fleet.value(beat) >= later, "its heart beats")
        assert a.log().count("prepared transaction 'left' of role") == 1
    finally:
        fleet.conn.execute("rollback prepared 'left'")


def test_what_is_over_is_named_again_when_it_comes_again(conn: Connection) -> None:
    """A transaction may be prepared by the same name, a session have the same pid."""
    transactions, sessions = {"over"}, {1}
    name_prepared(conn, transactions)
    end_foreign_locks(conn, sessions)
    assert (transactions, sessions) == (set(), set())


def test_shared_locks_of_the_wake_up_are_a_publishers(
    role: Role, conn: Connection, topic: Topic
) -> None:
    with holds(role("gapless_producer"), (7427001, 2), mode="_shared"):
        assert conn.execute(SQUATTED).fetchone() == (0,)
        publish(conn, "outbox", 1)
        assert sequence(conn) == 1


@pytest.mark.parametrize("grant", ["gapless_consumer", "gapless_operator"])
def test_who_may_have_them_is_left_alone(role: Role, conn: Connection, grant: str) -> None:
    with holds(role(grant), (7427003, 1), (7427002, 1)) as mine:
        rows = conn.execute("select * from gapless.end_foreign_locks()").fetchall()
        assert rows == []
        assert mine.execute("select 1").fetchone() == (1,)


def test_who_may_become_one_who_may_is_left_alone(role: Role, conn: Connection) -> None:
    dsn = role("gapless_consumer")
    name = psycopg.conninfo.conninfo_to_dict(dsn)["user"]
    conn.execute(f"alter role {name} noinherit".encode())
    with holds(dsn, (7427003, 1)):
        assert conn.execute("select * from gapless.end_foreign_locks()").fetchall() == []


@pytest.mark.long
def test_status_and_doctor_name_them(role: Role, conn: Connection, dsn: str) -> None:
    with holds(role(), (7427001, 3)) as stranger:
        pid = stranger.info.backend_pid
        look = snapshot(conn)
        (finding,) = [
            each for each in diagnose(dsn, connect_timeout_s=5) if each.name == "foreign_locks"
        ]
    said = f"pid {pid} of role gapless_test_role"
    assert said in str(look.foreign_locks[0])
    assert "holds the role of the sequencer and has no right to it" in finding.text
    assert finding.level == "FAIL"
    assert f"pg_terminate_backend({pid})" in str(finding.remedy)


BEGINS = "select count(*) from pg_stat_activity where backend_type = 'client backend' and usesysid is null"


def test_a_session_that_has_just_begun_is_no_stranger(dsn: str, conn: Connection) -> None:
    """PostgreSQL 18 shows it before its role is known; what was shown stays, in a transaction."""
    slow = make_conninfo(dsn, options="-c post_auth_delay=1")
    with ThreadPoolExecutor() as pool, conn.transaction():
        coming = pool.submit(psycopg.connect, slow, autocommit=True)
        while conn.execute(BEGINS).fetchone() == (0,) and not coming.done():
            conn.execute("select pg_stat_clear_snapshot()")
        with coming.result() as session:
            session.execute("select pg_advisory_lock(7427001, 3)")
            assert conn.execute(SQUATTED).fetchone() == (0,)
