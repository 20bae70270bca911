"""Dump and restore: xids mean nothing in another cluster, offsets and events mean the same.

A log is dumped with events that are sequenced, pending and dead, restored with psql, and goes on:
nothing is lost, nothing comes twice, and no offset changes, whatever was in progress when the
sequencer first ran in the new place.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from uuid import uuid4

import psycopg
import pytest
from psycopg import Connection
from psycopg.conninfo import make_conninfo

from gapless.db.connect import connect
from gapless.db.migrate import migrate, require_schema
from gapless.features.server.server import throwaway_cluster
from gapless.log.publish import publish
from gapless.log.sequence import create_chunks, sequence
from gapless.log.topics import Topic, require_topic
from gapless.ops.doctor.finding import Patient
from gapless.ops.doctor.log import restored
from support.clients import pg_dump, psql
from support.group import owner
from support.log import (
    Log,
    Published,
    assert_all_there,
    assert_gapless,
    assert_kept,
    assert_neighbours,
    assert_ordered,
    placed,
    tags,
)
from support.long import long_but

KEYS = ["a", "b", "c", None]
TRUNCATE = """
do $$ begin
  execute (
    select 'truncate ' || string_agg(c.oid::regclass::text, ', ') from pg_class c
    where c.relnamespace = 'gapless'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
  );
end $$
"""


@dataclass
class Ledger:
    """What was published, wherever, on a clock that counts."""

    published: list[Published] = field(default_factory=list)
    clock: Iterator[int] = field(default_factory=lambda: count(1))

    def insert(self, conn: Connection, transaction: str, events: int = 3) -> list[Published]:
        made = []
        for _ in range(events):
            number = next(self.clock)
            tag = f"{transaction}/{number}"
            publish(conn, "outbox", number, key=KEYS[number % len(KEYS)], event_type=tag)
            made.append(Published(tag=tag, transaction=transaction, inserted=number))
        self.published += made
        return made

    def committed(self, events: list[Published]) -> None:
        now = next(self.clock)
        for event in events:
            event.committed = now

    def transactions(self, conn: Connection, name: str, transactions: int) -> None:
        for n in range(transactions):
            with conn.transaction():
                events = self.insert(conn, f"{name} {n}")
            self.committed(events)

    @contextmanager
    def unfinished(self, dsn: str, name: str) -> Iterator[int]:
        """Insert, leave the transaction open during the block, then insert again and commit.

        Yields its xid.
        """
        with connect(dsn, role="unfinished") as conn:
            conn.execute("begin")
            events = self.insert(conn, name)
            row = conn.execute("select pg_current_xact_id()::text::bigint").fetchone()
            assert row is not None
            yield row[0]
            events += self.insert(conn, name)
            conn.execute("commit")
        self.committed(events)

    def check(self, conn: Connection, dsn: str, before: Log) -> None:
        """All of it is in the log, in order; and group `g` has met each event once."""
        with owner(dsn, "g", require_topic(conn, "outbox")) as group:
            handled = group.consume(batch_size=5)
        log = placed(conn)
        assert_kept(before, log)
        assert_gapless(log)
        assert_all_there(log, self.published)
        assert_neighbours(log, self.published)
        assert_ordered(log, self.published)
        dead = conn.execute("select event_type from gapless.dead_letter_queue").fetchall()
        assert sorted(map(str, [*handled, *(tag for (tag,) in dead)])) == sorted(
            map(str, tags(log))
        )


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


@pytest.fixture
def source(conn: Connection, dsn: str, topic: Topic, ledger: Ledger) -> Connection:
    """A log with events that were handled, dead, sequenced only, and pending."""
    ledger.transactions(conn, "handled", 30)
    ledger.transactions(conn, "dead", 5)
    sequence(conn)
    with owner(dsn, "g", topic) as group:
        group.consume("dead", batch_size=5)
    ledger.transactions(conn, "sequenced", 20)
    sequence(conn)
    ledger.transactions(conn, "pending", 10)
    return conn


@pytest.fixture(scope="module")
def new_server(server_dsn: str) -> Iterator[str]:
    """The DSN of another cluster, with the roles that every dump refers to."""
    options = {"max_prepared_transactions": "10", "autovacuum": "off"}
    with throwaway_cluster(options) as cluster:
        dsn = cluster.dsn()
        with psycopg.connect(server_dsn) as here, psycopg.connect(dsn, autocommit=True) as there:
            if here.info.server_version // 10000 != there.info.server_version // 10000:
                pytest.skip("the servers have different versions")
            for role in ("producer", "consumer", "operator", "condition"):
                there.execute(f"create role gapless_{role} nologin")
            if here.info.user not in ("gapless", "postgres"):
                pytest.skip("the owner of the schema is unknown to the new server")
            if here.info.user != there.info.user:
                there.execute(f"create role {here.info.user} superuser")
        yield dsn


def _is_ill(conn: Connection) -> bool:
    return any(each.level == "FAIL" for each in restored(Patient(conn=conn, second=conn)))


@contextmanager
def _restored(source_dsn: str, server: str) -> Iterator[str]:
    """Dump the source and restore it into a new database of a server."""
    with _empty(server) as dsn:
        psql(dsn, pg_dump(source_dsn))
        yield dsn


@contextmanager
def _empty(server: str) -> Iterator[str]:
    """Make a new database of a server."""
    name = f"restored_{uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f"create database {name}")
        try:
            yield make_conninfo(server, dbname=name)
        finally:
            admin.execute(f"drop database {name} with (force)")


def _next_xid(conn: Connection) -> int:
    row = conn.execute("select pg_snapshot_xmax(pg_current_snapshot())::text::bigint").fetchone()
    assert row is not None
    return int(row[0])


def _burn_xids(conn: Connection, upto: int) -> None:
    """Use up at least one transaction id, and so many that the next one is `upto`."""
    conn.execute("set synchronous_commit = off")
    conn.execute(
        "do $$ declare burned bigint; begin loop"
        " burned := pg_current_xact_id()::text::bigint; commit;"
        f" exit when burned >= {upto - 1}; end loop; end $$"
    )


def _xid_of_newest(conn: Connection) -> int:
    row = conn.execute(
        "select xid::text::bigint from gapless.outbox_message_t order by id desc limit 1"
    ).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.long
@pytest.mark.parametrize("xids", long_but(["lower", "higher"], "lower"))
def test_into_a_new_cluster(
    source: Connection, dsn: str, new_server: str, ledger: Ledger, xids: str
) -> None:
    if xids == "lower":
        with psycopg.connect(new_server) as there:
            _burn_xids(source, _next_xid(there) + 20_000)
            ledger.transactions(source, "pending too", 3)
    before = placed(source)
    with _restored(dsn, new_server) as restored, connect(restored, role="test") as conn:
        if xids == "higher":
            _burn_xids(conn, _next_xid(source) + 20_000)
        assert (_next_xid(conn) > _next_xid(source)) == (xids == "higher")
        require_schema(conn)
        assert migrate(conn) == []
        assert_kept(before, placed(conn))

        ledger.transactions(conn, "new", 3)
        with (
            ledger.unfinished(restored, "open during the re-base"),
            connect(restored, role="t") as late,
        ):
            late.execute("begin; select pg_current_xact_id()")  # has an xid, but no id yet
            with ledger.unfinished(restored, "other"):
                assert sequence(conn) > 0
                assert sequence(conn) == 0
                ledger.transactions(conn, "after the re-base", 3)
                assert sequence(conn) == 9
            events = ledger.insert(late, "had its xid before the re-base")
            late.execute("commit")
            ledger.committed(events)
            assert sequence(conn) == 6 + 3
        assert sequence(conn) == 6
        ledger.transactions(conn, "later", 20)
        assert sequence(conn) == 60
        create_chunks(conn)
        ledger.check(conn, restored, before)


@pytest.mark.long
@pytest.mark.parametrize(
    "newest", long_but([True, False], False), ids=["the newest xid", "an older xid"]
)
def test_old_events_with_the_xid_of_a_transaction_in_progress(
    source: Connection, dsn: str, new_server: str, ledger: Ledger, newest: bool
) -> None:
    """The new cluster gives out again the xids of restored events, sequenced ones and pending ones."""
    with psycopg.connect(new_server) as there:
        _burn_xids(source, _next_xid(there) + 20_000)
    ledger.transactions(source, "last sequenced", 1)
    sequenced = _xid_of_newest(source)
    sequence(source)
    ledger.transactions(source, "last pending", 1)
    pending = _xid_of_newest(source)
    before = placed(source)
    with _restored(dsn, new_server) as restored, connect(restored, role="test") as conn:
        _burn_xids(conn, sequenced)
        with ledger.unfinished(restored, "as sequenced") as first:
            _burn_xids(conn, pending)
            with ledger.unfinished(restored, "as pending") as second:
                assert (first, second) == (sequenced, pending)
                if not newest:
                    _burn_xids(conn, pending + 10)
                sequence(conn)
                ledger.transactions(conn, "new", 3)
                assert sequence(conn) == 9
                assert sequence(conn) == 0
            assert sequence(conn) == 6
        assert sequence(conn) == 6
        ledger.check(conn, restored, before)


@pytest.mark.long
def test_a_second_restore_of_what_was_restored(
    source: Connection, dsn: str, server_dsn: str, new_server: str, ledger: Ledger
) -> None:
    """There and back: both clusters have used the same ids since."""
    before = placed(source)
    with _restored(dsn, new_server) as restored, connect(restored, role="test") as conn:
        ledger.transactions(conn, "there", 5)
        sequence(conn)
        ledger.transactions(conn, "there, pending", 5)
        there = placed(conn)
        assert_kept(before, there)
        with _restored(restored, server_dsn) as back_dsn, connect(back_dsn, role="test") as back:
            ledger.transactions(back, "back", 5)
            sequence(back)
            ledger.check(back, back_dsn, there)


@pytest.mark.long
def test_into_another_database_of_the_same_cluster(
    source: Connection, dsn: str, server_dsn: str, ledger: Ledger
) -> None:
    """Here xids go on to mean what they meant; an open transaction of the old database stays there."""
    with ExitStack() as stack:
        slow = stack.enter_context(connect(dsn, role="slow"))
        slow.execute("begin")
        publish(slow, "outbox", 0, event_type="not in the dump")
        before = placed(source)
        restored = stack.enter_context(_restored(dsn, server_dsn))
        conn = stack.enter_context(connect(restored, role="test"))
        slow.execute("commit")
        ledger.transactions(conn, "new", 5)
        assert sequence(conn) == 30 + 15
        ledger.transactions(conn, "later", 5)
        assert sequence(conn) == 15
        ledger.check(conn, restored, before)
        assert sequence(source) == 30 + 1, "the old log goes on by itself"


@pytest.mark.long
@pytest.mark.parametrize("closing", [False, True], ids=["one slot", "two slots"])
def test_dedupe_keys_are_remembered(
    conn: Connection, dsn: str, new_server: str, topic: Topic, closing: bool
) -> None:
    """Also while slots are being turned: what they waited for is not in the new cluster."""
    first = publish(conn, "outbox", 1, dedupe_key="a")
    with connect(dsn, role="open") as held:
        if closing:
            _burn_xids(conn, _next_xid(conn) + 20_000)
            held.execute("begin; select pg_current_xact_id()")
            conn.execute("update gapless.dedupe_state set since_ts = '2000-01-01'")
            while conn.execute("select gapless.turn_dedupe_slots()").fetchone() == (True,):
                pass
        with _restored(dsn, new_server) as restored, connect(restored, role="test") as there:
            again = publish(there, "outbox", 2, dedupe_key="a")
            assert again == first
            while there.execute("select gapless.turn_dedupe_slots()").fetchone() == (True,):
                pass
            assert there.execute("select closing from gapless.dedupe_state").fetchone() == (None,)
            assert publish(there, "outbox", 2, dedupe_key="a") == first
            publish(there, "outbox", 3, dedupe_key="b")
            assert sequence(there) == 2


def test_an_empty_log(
    conn: Connection, dsn: str, new_server: str, topic: Topic, ledger: Ledger
) -> None:
    with _restored(dsn, new_server) as restored, connect(restored, role="test") as there:
        assert sequence(there) == 0
        ledger.transactions(there, "first", 3)
        assert sequence(there) == 9
        ledger.check(there, restored, {})


@pytest.mark.parametrize("way", ["plainly", "in savepoints", "without a topic"])
def test_what_was_there_comes_first_whatever_xids_come_again(
    conn: Connection, dsn: str, new_server: str, topic: Topic, ledger: Ledger, way: str
) -> None:
    """Published before the first run, in transactions that have the xids of restored ones (I4, I5)."""
    with psycopg.connect(new_server) as there:
        _burn_xids(conn, _next_xid(there) + 20_000)
    sequence(conn)
    ledger.transactions(conn, "there", 6)
    xids = "select min(xid::text::bigint), max(xid::text::bigint) from gapless.outbox_message_t"
    ((first, last),) = conn.execute(xids).fetchall()
    with _restored(dsn, new_server) as restored, connect(restored, role="test") as here:
        _burn_xids(here, first)
        while _next_xid(here) <= last:
            with here.transaction():
                here.execute("savepoint s" if way == "in savepoints" else "select 1")
                events = ledger.insert(here, f"here {_next_xid(here)}")
            ledger.committed(events)
        ((again,),) = here.execute(
            "select count(*) - count(distinct xid) * 3 from gapless.outbox_message_t"
        )
        assert again > 0, "no xid came again"
        if way == "without a topic":
            here.execute("update gapless.topic set topic_id = 2")
            assert sequence(here) == 0
            here.execute("select gapless.adopt_topic(1, 'adopted', 8)")
        while sequence(here):
            pass
        log = placed(here)
        assert_gapless(log)
        assert_all_there(log, ledger.published)
        assert_neighbours(log, ledger.published)
        assert_ordered(log, ledger.published)


@pytest.mark.parametrize("way", ["in order", "as it comes", "after many runs", "truncated before"])
def test_data_alone_over_what_init_made(
    source: Connection, dsn: str, new_server: str, ledger: Ledger, way: str
) -> None:
    """Refused before anything is handled, and found by doctor; the way that it tells works."""
    before = placed(source)
    if way == "after many runs":
        source.execute("delete from gapless.sequencer where run = 0")
    dump = pg_dump(dsn, "--data-only", *(["--disable-triggers"] if way != "in order" else []))
    with _empty(new_server) as restored, connect(restored, role="test") as conn:
        psql(restored, pg_dump(dsn, "--schema-only", "--schema=public"), stops=False)
        migrate(conn)
        create_chunks(conn)
        assert not _is_ill(conn)
        if way == "truncated before":
            conn.execute(TRUNCATE)
        psql(restored, dump, stops=False)
        if way == "truncated before":
            ledger.transactions(conn, "here", 2)
            assert sequence(conn) > 0
            ledger.check(conn, restored, before)
        else:
            with pytest.raises(psycopg.Error, match="restored over the rows") as refused:
                sequence(conn)
            assert refused.value.sqlstate == "GL409"
        assert _is_ill(conn) == (way != "truncated before")


LOST = (
    "topic consumer_group consumer_offsets lease layout log_segment sequencer log_config clock_look retention_state"
    " dedupe_state dedupe_slot expiry_clock dead_letter dead_letter_event queue_floor group_filter subscription_form"
    " subscription condition webhook"
).split()


def test_a_restore_that_failed_in_part(source: Connection, dsn: str, new_server: str) -> None:
    """One table's rows are missing, as after pg_restore --data-only: nothing is handled, and it is named."""
    source.execute("select gapless.set_partitions('outbox', 8), gapless.create_topic('jobs', 1)")
    source.execute("select gapless.create_group('queue', 'jobs', mode => 'queue')")
    source.execute("select gapless.create_group('some', 'jobs')")
    source.execute("select gapless.subscribe('some', 'jobs', 's', sql_condition => 'true')")
    source.execute(
        "insert into gapless.subscription_stop select subscription_id, 0, 1, 'r' from gapless.subscription"
    )
    source.execute(
        "insert into gapless.webhook (name, topic_id, url, secrets, allow_http, keeps_order, concurrency)"
        " select 'w', topic_id, 'http://x', '{env:A}', true, false, 1 from gapless.topic limit 1"
    )
    source.execute("insert into gapless.webhook_state (name) values ('w')")
    with _restored(dsn, new_server) as copy, connect(copy, role="test") as conn:
        for lost in LOST:
            with suppress(psycopg.Rollback), conn.transaction():
                conn.execute("set local session_replication_role = replica")
                conn.execute(f"delete from gapless.{lost}")
                (found,) = restored(Patient(conn=conn, second=conn))
                assert (found.level, f"without rows of {lost}:" in found.text) == ("FAIL", True), (
                    lost
                )
                raise psycopg.Rollback
        assert not _is_ill(conn)
        conn.execute("delete from gapless.dead_letter_event")
        with pytest.raises(
            psycopg.Error, match="restored without rows of dead_letter_event"
        ) as refused:
            sequence(conn)
        assert refused.value.sqlstate == "GL409"


def test_where_xids_mean_what_they_meant_nothing_is_old(
    conn: Connection, topic: Topic, ledger: Ledger
) -> None:
    """As after pg_upgrade, whose cluster has another identifier."""
    ledger.transactions(conn, "sequenced", 2)
    sequence(conn)
    ledger.transactions(conn, "pending", 2)
    rebased = conn.execute(
        "select (gapless.rebase(s)).restored_upto from gapless.sequencer s order by run desc limit 1"
    )
    assert rebased.fetchone() == (0,)
