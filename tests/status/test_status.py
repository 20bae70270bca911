"""Status from a real database: each fact of a snapshot, its cost, and who may take it."""

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from importlib.metadata import version

import psycopg
import pytest
from psycopg import Connection, sql

from gapless import ops
from gapless.consume.unit import Unit
from gapless.consume.user.handler import handler
from gapless.db.connect import connect
from gapless.db.queries import queries, query
from gapless.lease import hold
from gapless.lease.member import Member, ServedTopic, Timing
from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.sequence import sequence, try_role, try_sleep, wake_up
from gapless.log.topics import Topic, ensure_topic
from gapless.status import snapshot, to_document
from gapless.status.groups import group_lines
from gapless.status.snapshot import COUNT_MAX, Snapshot, Standing
from gapless.testing import drain
from support.group import Owner, owner
from support.long import long_but
from support.look import once, pages
from support.patience import patience
from support.plans import cost
from support.turn import one_step

HOUR_MS = 3_600_000
TIMING = Timing(ttl_ms=HOUR_MS, suspect_grace_ms=HOUR_MS, reconnect_grace_ms=HOUR_MS)


@contextmanager
def _member(dsn: str, topic: Topic, name: str) -> Iterator[Member]:
    wanted = ServedTopic(group_id="billing", topic=topic.name, topic_id=topic.topic_id)
    with connect(dsn, role="control") as control:
        yield Member(control, [wanted], TIMING, name=name, capacity=None)


def _publish(conn: Connection, count: int, topic_id: int = 1) -> None:
    conn.execute(
        "insert into gapless.outbox_message_t (topic_id, key, payload)"
        " select %s, i::text, '{}' from generate_series(1, %s) i",
        [topic_id, count],
    )


def _row(look: Snapshot, partition_id: int = 0) -> Standing:
    return next(row for row in look.partitions if row.partition_id == partition_id)


def test_a_fresh_database(conn: Connection) -> None:
    look = snapshot(conn)
    assert look.sequencer.state == "nobody"
    assert not look.sequencer.needs_rebase
    assert (look.topics, look.members, look.partitions, look.letters) == ((), (), (), ())
    assert (look.totals.events, look.totals.pending, look.totals.lag, look.totals.dead_letters) == (
        0,
        0,
        0,
        0,
    )
    assert look.server.database == conn.info.dbname
    assert look.server.version.split(".")[0] == str(conn.info.server_version // 10000)
    json.dumps(to_document(look))
    assert look.chunks >= 1
    assert pages(look, width=80)
    assert once(look)


@pytest.mark.long
def test_lag_is_what_the_group_has_not_handled(dsn: str, conn: Connection, topic: Topic) -> None:
    with owner(dsn, "billing", topic) as group:
        publish(conn, "outbox", {"n": 1}, key="a")
        _publish(conn, 99)
        assert snapshot(conn).totals.lag == 0, "no offsets yet"
        sequence(conn)
        look = snapshot(conn)
        assert (look.totals.lag, look.totals.events) == (100, 100)
        for row in look.partitions:
            assert (row.next_offset, row.lag) == (1, row.last_offset)
        assert look.topics[0].last_offsets == [row.last_offset for row in look.partitions]
        group.consume()
        look = snapshot(conn)
        assert (look.totals.lag, look.totals.lag_s) == (0, 0.0)
        assert all(row.next_offset == row.last_offset + 1 for row in look.partitions)


@pytest.mark.long
def test_age_of_the_lag_is_that_of_the_next_event(dsn: str, conn: Connection, topic: Topic) -> None:
    with owner(dsn, "billing", topic) as group:
        for hours in (3, 2, 1):  # each in a unit of its own
            conn.execute(
                "insert into gapless.outbox_message_t (topic_id, key, payload, created_ts)"
                " values (1, 'a', '{}', now() - %s)",
                [timedelta(hours=hours)],
            )
        sequence(conn)
        where = next(row.partition_id for row in snapshot(conn).partitions if row.lag)
        for hours in (3, 2, 1):
            lag_s = _row(snapshot(conn), where).lag_s
            assert lag_s == pytest.approx(hours * 3600, abs=60)
            _handle_a_unit(group, where)
        assert _row(snapshot(conn), where).lag_s == 0.0


def _handle_a_unit(group: Owner, partition_id: int) -> None:
    @handler(topic="any")
    def ignore(unit: Unit, conn: Connection) -> None: ...

    done = one_step(group.conn, group.assignments[partition_id], ignore, batch_size=1)
    assert done.outcome == "done"


def test_an_event_that_is_missing_has_no_age(dsn: str, conn: Connection, topic: Topic) -> None:
    with owner(dsn, "billing", topic):
        publish(conn, "outbox", {}, key="a")
        sequence(conn)
        conn.execute("delete from gapless.outbox_message_t")
        look = snapshot(conn)
        assert look.totals.lag == 1
        assert [row.lag_s for row in look.partitions if row.lag] == [None]


def test_pending_is_what_the_next_run_finds(dsn: str, conn: Connection, topic: Topic) -> None:
    ensure_topic(conn, "other", partitions=2)
    with connect(dsn, role="early") as early, connect(dsn, role="late") as late:
        with early.transaction():
            _publish(early, 3)
            _publish(conn, 5)
            sequence(conn)  # sees that `early` is in progress
            with late.transaction():
                _publish(late, 7, topic_id=2)
                assert snapshot(conn).totals.pending == 0, "none is committed"
        look = snapshot(conn)
        assert {row.topic: row.events for row in look.pending} == {"outbox": 3, "other": 7}
        assert all(0 <= row.oldest_s < 60 for row in look.pending)
        assert sequence(conn) == look.totals.pending == 10
        assert snapshot(conn).totals.pending == 0


def test_pending_is_not_counted_without_end(conn: Connection, topic: Topic) -> None:
    _publish(conn, COUNT_MAX + 500)
    look = snapshot(conn)
    assert look.totals.pending == COUNT_MAX
    assert "10k+ pending" in "\n".join(pages(look, width=100))


@pytest.mark.long
def test_members_owners_and_hand_over(dsn: str, conn: Connection, topic: Topic) -> None:
    with (
        _member(dsn, topic, "host-a") as first,
        _member(dsn, topic, "host-b") as second,
        connect(dsn, role="worker") as worker,
    ):
        first.sync()
        look = snapshot(conn)
        assert [(m.name, m.condition, m.owned) for m in look.members] == [
            ("host-a", "active", 0),
            ("host-b", "active", 0),
        ]
        assert look.members[0].groups == ["billing/outbox"]
        assert [m.version for m in look.members] == [version("gapless")] * 2
        assert sum(member.wanted for member in look.members) == topic.partitions
        assert {row.state for row in look.partitions} == {"starting"}

        lease = first.leases()[0]
        assert hold.lock(worker, lease.lease_no)
        assignment = hold.take(worker, lease.partition, first.member_id)
        assert assignment is not None
        row = _row(snapshot(conn), lease.partition_id)
        assert (row.owner, row.target, row.epoch, row.state) == ("host-a", "host-a", 1, "working")

        hold.report_error(worker, assignment, "stopped: a hole")
        row = _row(snapshot(conn), lease.partition_id)
        assert row.error == "stopped: a hole"
        assert row.error_ts is not None

        conn.execute(
            "update gapless.lease set target = %s where lease_no = %s",
            [second.member_id, lease.lease_no],
        )
        row = _row(snapshot(conn), lease.partition_id)
        assert (row.owner, row.target, row.state) == ("host-a", "host-b", "moving")

        conn.execute("update gapless.lease set target = owner where owner is not null")
        hold.unlock(worker, lease.lease_no)
        assert _row(snapshot(conn), lease.partition_id).state == "lost"

        first.leave()
        row = _row(snapshot(conn), lease.partition_id)
        assert (row.owner, row.owner_id) == (None, first.member_id)


def test_a_member_without_session_is_gone(dsn: str, conn: Connection, topic: Topic) -> None:
    with _member(dsn, topic, "host-a"):
        assert [member.condition for member in snapshot(conn).members] == ["active"]
    _until_gone(conn)
    assert [member.condition for member in snapshot(conn).members] == ["gone"]


def _until_gone(conn: Connection) -> None:
    """Wait for the server to have noticed that a session is closed."""
    give_up = time.monotonic() + 10
    while time.monotonic() < give_up:
        row = conn.execute(
            "select count(*) from pg_locks where locktype = 'advisory' and classid = 7427002"
            " and database = (select oid from pg_database where datname = current_database())"
        ).fetchone()
        if row == (0,):
            return
    pytest.fail("the session's lock stayed")


def test_the_sequencer_awake_asleep_and_gone(dsn: str, conn: Connection, topic: Topic) -> None:
    with connect(dsn, role="sequencer") as sequencer:
        assert try_role(sequencer)
        look = snapshot(conn)
        assert (look.sequencer.state, look.sequencer.pid) == ("awake", sequencer.info.backend_pid)
        assert try_sleep(sequencer)
        assert snapshot(conn).sequencer.state == "asleep"
        wake_up(sequencer)
        with conn.transaction():  # a publisher's shared lock is no sleep
            _publish(conn, 1)
            with connect(dsn, role="status") as other:
                assert snapshot(other).sequencer.state == "awake"
        sequence(sequencer)
        look = snapshot(conn)
        assert (look.sequencer.run, look.sequencer.events) == (1, 1)


def test_what_is_dead_is_counted_in_units_with_its_events_beside(
    dsn: str, conn: Connection
) -> None:
    def refuse(unit: Unit, conn: Connection) -> None:
        raise ValueError("refused")

    ensure_topic(conn, "shop", partitions=1)
    for events in (5, 3):
        publish(conn, "shop", [NewEvent(payload=n) for n in range(events)])
    drain(dsn, handler(topic="shop", group="billing")(refuse))
    look = snapshot(conn)
    document = to_document(look)
    for counts in (document["totals"], document["groups"][0], document["partitions"][0]):
        assert (counts["dead_letters"], counts["dead_events"]) == (2, 8)
    assert [each["offset"] for each in document["dead_letters"]] == [6, 1]
    first = conn.execute("select min(first_failed_ts) from gapless.dead_letter").fetchone()
    assert [each.aside_ts for each in group_lines(look)] == list(first or ())
    assert "dead 2 (8 events)" in "".join(once(look))
    assert [each.dead_letters for each in ops.list_groups(conn)] == [2]


def test_a_queue_that_clients_serve_does_not_look_dead(dsn: str, conn: Connection) -> None:
    ensure_topic(conn, "mails", partitions=1)
    ops.create_group(conn, "sender", "mails", mode="queue")

    def states() -> list[str]:
        return [row.state for row in snapshot(conn).partitions]

    assert states() == ["shared"], "nothing is open, so nobody is missing"
    publish(conn, "mails", [NewEvent(payload=n) for n in range(3)])
    sequence(conn)
    assert states() == ["unserved"]
    with psycopg.connect(dsn) as client:
        ops.take(client, "sender", "mails", max_events=1)
        assert states() == ["shared"]
        assert [each.in_work for each in ops.queue_state(conn, "sender")] == [1]
        client.commit()
        assert states() == ["shared"], "one event is in hand"
    day, days = (f"clock_timestamp() - interval '{n} days'" for n in (1, 3))
    for deadline, since in ((day, days), ("'-infinity'", day)):  # the second one was given back
        conn.execute(f"update gapless.queue_range set (deadline, since_ts) = ({deadline}, {since})")
        document = to_document(snapshot(conn))
        (lapsed,) = (each for each in document["problems"] if "lapsed" in each["problem"])
        assert 86_400 <= lapsed["since_s"] < 2 * 86_400


def test_an_error_of_a_queue_counts_as_long_as_it_is_repeated(conn: Connection) -> None:
    """Who said it may be gone; in an ordered group the next owner of the lease clears it."""
    ensure_topic(conn, "mails", partitions=2)
    for mode in ("queue", "ordered"):
        ops.create_group(conn, mode, "mails", mode=mode)
    conn.execute("select gapless.report_queue_error('queue', '{mails}', 'rests')")
    conn.execute("update gapless.lease set error = 'stopped' where group_id = 'ordered'")
    for age, rests in (("0 s", ["rests"]), ("115 s", ["rests"]), ("121 s", [])):
        ages = "update gapless.lease set error_ts = clock_timestamp() - %s::interval where error is not null"
        conn.execute(ages, [age])
        errors = [row.error for row in snapshot(conn).partitions if row.error is not None]
        assert sorted(errors) == [*rests, "stopped", "stopped"], age


def test_the_oldest_transaction(dsn: str, conn: Connection) -> None:
    assert snapshot(conn).server.oldest_transaction_s is None
    with psycopg.connect(dsn, application_name="a batch job") as other:
        other.execute("select 1")
        server = snapshot(conn).server
        assert server.oldest_transaction == "a batch job"
        assert server.oldest_transaction_s is not None
        assert 0 <= server.oldest_transaction_s < 60


def test_a_prepared_transaction_counts_as_open(conn: Connection) -> None:
    with conn.transaction():
        conn.execute("select pg_current_xact_id()")
        conn.execute("prepare transaction 'left behind'")
    try:
        assert snapshot(conn).server.oldest_transaction == "prepared transaction left behind"
    finally:
        conn.execute("rollback prepared 'left behind'")


@pytest.mark.long
def test_a_look_writes_nothing_and_leaves_nothing(conn: Connection, topic: Topic) -> None:
    before = conn.execute("select pg_snapshot_xmax(pg_current_snapshot())::text").fetchone()
    settings = "select current_setting('enable_seqscan'), current_setting('statement_timeout')"
    were = conn.execute(settings).fetchone()
    for _ in range(10):
        snapshot(conn)
    after = conn.execute("select pg_snapshot_xmax(pg_current_snapshot())::text").fetchone()
    assert after == before, "no xid"
    assert conn.execute(settings).fetchone() == were
    assert conn.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


@pytest.mark.long
def test_a_look_waits_for_no_migration(dsn: str, conn: Connection) -> None:
    with psycopg.connect(dsn) as other:
        other.execute("lock table gapless.lease")
        began = time.monotonic()
        named = (
            r"pid \d+ of role .* has locked lease \(AccessExclusiveLock\) .*pg_terminate_backend"
        )
        with pytest.raises(psycopg.errors.LockNotAvailable, match=named):
            snapshot(conn)
        assert time.monotonic() - began < patience(10)
        other.rollback()
        snapshot(conn)


@pytest.mark.parametrize("role", ["gapless_consumer", "gapless_operator"])
def test_consumers_and_operators_may_look(dsn: str, role: str, topic: Topic) -> None:
    with connect(dsn, role="status") as conn:
        conn.execute(sql.SQL("set role {}").format(sql.Identifier(role)))
        snapshot(conn)
        for view in ("lag", "leases", "letters", "members", "topics"):
            conn.execute(sql.SQL("select * from gapless.{}").format(sql.Identifier(view)))


@pytest.mark.long
@pytest.mark.parametrize("state", long_but(["never analysed", "analysed"], "analysed"))
def test_the_cost_does_not_grow_with_the_log(
    dsn: str, conn: Connection, topic: Topic, state: str
) -> None:
    with owner(dsn, "billing", topic):
        _publish(conn, 30_000)
        sequence(conn)
        _publish(conn, 40)
        if state == "analysed":
            conn.execute("analyze")
        for _ in range(10):  # prepared statements have long got their generic plan
            with cost(conn) as look:
                conn.execute(query("status", "by_index"))
                names = queries("status").keys() - {"one_look", "bounds", "by_index"}
                for name in [*(names - {"by_hash", "partitions"}), "by_hash", "partitions"]:
                    conn.execute(query("status", name)).fetchall()
            assert not look.scanned
            # The pending ones, and the next one of each partition.
            assert look.events_looked_up <= 40 + topic.partitions


def test_no_partition_is_compared_with_all_others(conn: Connection) -> None:
    ensure_topic(conn, "wide", partitions=400)
    ops.create_group(conn, "shared", "wide", mode="queue")
    conn.execute("analyze")
    with conn.transaction():
        for name in ("by_index", "by_hash"):
            conn.execute(query("status", name))
        explain = f"explain (analyze, costs off) {query('status', 'partitions')}"
        plan = "\n".join(line for (line,) in conn.execute(explain).fetchall())
    removed = re.findall(r"Rows Removed by Join Filter: (\d+)", plan)
    assert sum(map(int, removed)) < 400 * 8, plan


def test_an_age_is_of_hours_that_passed_in_any_time_zone(conn: Connection, topic: Topic) -> None:
    """The clock on the wall was set twice in that year."""
    conn.execute("select gapless.create_group('billing', 'outbox')")
    conn.execute("select gapless.pause('billing')")
    conn.execute("set timezone = 'Europe/Berlin'")
    for days in range(50, 350, 50):
        hours = days * 24
        conn.execute(
            "update gapless.group_pause set paused_ts = now() - make_interval(hours => %s)", [hours]
        )
        ages = [each["since_s"] for each in to_document(snapshot(conn))["problems"]]
        assert [age // 3600 for age in ages if age is not None and age > 3600] == [hours]
