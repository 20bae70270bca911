"""A clock that was wrong for a moment: what it wrote is bounded by its own length, and it is named (I8)."""

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from gapless.features.scheduled.schedules import Schedule, add_schedule
from gapless.log.publish import publish
from gapless.log.sequence import configure_chunks, heal_letters, sequence, try_role
from gapless.ops.doctor.rounds import diagnose
from gapless.status import snapshot
from support.chunks import CHUNK_EVENTS, next_chunk, small_chunks
from support.clock import put_back, shift, stored_times
from support.servers import until

HOURS_S = 8 * 3600.0
SHORT = "0.3 s"
# Times that people are told, and that nothing waits for.
TOLD = {
    "applied_ts", "began_ts", "created_dt", "created_ts", "error_ts", "acquired_ts", "evicted_ts", "added_ts",
    "removed_ts", "circuit_ts", "last_ts", "made_ts", "set_ts", "changed_ts", "noted_ts", "live_ts", "moved_ts",
    "paused_ts", "redriven_ts", "died_ts", "first_failed_ts", "last_failed_ts", "revoked_ts", "started_ts", "done_ts",
    "committed_ts", "sequenced_ts", "failing_ts", "stopped_ts", "unasked_ts", "starts_at", "at_ts",
}  # fmt: skip
# The others: what waits for them is below, or with the lease of a pipeline; but closed_ts of a letter is how long it is
# kept for people, and deliver_at is the time that a publisher asked for.
WAITED_FOR = {
    "api_key": {"expires_ts", "last_used_ts"}, "chunk_end": {"newest_ts"},
    "clock_look": {"doubted_ts", "looked_ts", "sure_ts"}, "dead_letter": {"next_attempt_ts",
    "closed_ts", "due_set_ts"}, "dedupe": {"published_ts"}, "dedupe_slot": {"closed_ts"}, "dedupe_state": {"since_ts"},
    "expiry_clock": {"looked_ts"}, "group_expiry": {"looked_ts"}, "log_start": {"newest_ts"},
    "member": {"expires_at", "polled_ts", "suspect_at"}, "pipeline": {"beat_ts"}, "queue_range": {"deadline", "since_ts"},
    "schedule": {"jumped_ts", "last_due", "next_due"}, "scheduled": {"counts_from", "deliver_at"}, "sequencer": {"ran_ts"},
    "unrouted": {"since_ts"}, "webhook_state": {"probe_ts"},
}  # fmt: skip


def test_each_stored_time_is_bounded_or_only_told(conn: Connection) -> None:
    found = {
        table: set(columns) - TOLD
        for table, columns in stored_times(conn).items()
        if set(columns) - TOLD
    }
    assert found == WAITED_FOR


class Stand:
    """A database in which something of each kind was begun, each for 0.3 s, just now."""

    def __init__(self, conn: Connection[Any]) -> None:
        self.conn = conn
        small_chunks(conn)
        for name, partitions in (("orders", 2), ("jobs", 1), ("once", 1)):
            self.value("select gapless.create_topic(%s, %s)", name, partitions)
        self.value("select gapless.set_dedupe_window('once', 0.3)")
        self.value("select gapless.create_group('clients', 'orders')")
        for group in ("taken", "extended", "retried", "redriven"):
            self.value("select gapless.create_group(%s, 'jobs', mode => 'queue')", group)
        publish(conn, "jobs", 1)
        sequence(conn)
        self.clients = [
            self.value("select token from gapless.join('clients', 'orders', '3 s')") for _ in "ab"
        ]
        self.value("select array_agg(p) from gapless.poll(%s) p", self.clients[0])
        self.value(
            "update gapless.member set ttl = %s, expires_at = clock_timestamp() + %s", SHORT, SHORT
        )
        self.take("taken")
        receipt = self.take("extended", "1 h")
        self.value("select gapless.extend('extended', 'jobs', %s, %s)", receipt, SHORT)
        for group, state in (("retried", "waiting"), ("redriven", "dead")):
            self.value(
                "select gapless.fail_receipt(%s, null, %s, 'r', 'e', _retry_after => %s)",
                self.take(group), state, SHORT,
            )  # fmt: skip
        self.value("select gapless.redrive_letter('redriven', 'jobs', 0, 1)")
        self.take("redriven")
        self.value(
            "select gapless.create_api_key('0123456789abcdef', 'k', sha256('x'), array['operate'], null, %s)",
            SHORT,
        )
        self.once()
        self.value("select gapless.publish_later('orders', '1', deliver_in => %s)", SHORT)
        self.value("insert into gapless.webhook (name, topic_id, url, secrets, allow_http, keeps_order, concurrency)"
                   " select 'w', topic_id, 'http://x', '{env:A}', true, false, 1 from gapless.topic limit 1")  # fmt: skip
        self.value(
            "insert into gapless.webhook_state (name, circuit_ts, probe_ts) values ('w', now(), now())"
        )
        self.value(
            "insert into gapless.chunk_end select 1, topic_id, 0, 1, 0, now() from gapless.topic limit 1"
        )
        next_chunk(conn)  # the one before is complete, and not of the size that is configured
        configure_chunks(conn, chunk_events=100 * CHUNK_EVENTS, chunks_ahead=1)
        publish(conn, "orders", 1)
        sequence(conn)

    def value(self, statement: str, *params: object) -> Any:
        cursor = self.conn.execute(statement, params)  # type: ignore[call-overload]
        row = cursor.fetchone() if cursor.description else None
        return None if row is None else row[0]

    def take(self, group: str, visibility: str = SHORT) -> Any:
        return self.value("select receipt from gapless.take(%s, 'jobs', 1, %s)", group, visibility)

    def once(self) -> bool:
        """Publish once; return whether it was a duplicate."""
        return bool(self.value("select duplicate from gapless.publish_once('once', '1', 'k')"))

    def has_all(self) -> bool:
        """Has the second client both partitions? It polls all the time, the first one never."""
        try:
            self.value("select array_agg(p) from gapless.poll(%s) p", self.clients[1])
        except psycopg.Error:  # it was late, too
            self.clients[1] = self.value(
                "select token from gapless.join('clients', 'orders', '3 s')"
            )
        return bool(
            self.value("select count(owner) = 2 and count(distinct owner) = 1 from gapless.lease"
                       " where group_id = 'clients'")
        )  # fmt: skip

    def ended(self) -> dict[str, Callable[[], bool]]:
        """The state once each of these has come to its end."""
        kept = "select exists (select from gapless.find_api_key('0123456789abcdef'))"
        ahead = "select bool_and(t <= clock_timestamp()) from (%s) x (t)"
        return {
            # Before others publish: a run with events moves the floor, too.
            "a run without events, for retention": lambda: (
                sequence(self.conn) == 0
                and self.value(
                    "select floor_id >= %s from gapless.sequencer order by run desc limit 1",
                    CHUNK_EVENTS - 1,
                )
            ),
            "a client that is gone": self.has_all,
            "a range that was taken": lambda: self.take("taken") is not None,
            "one whose time was extended": lambda: self.take("extended") is not None,
            "a unit that is tried again": lambda: self.take("retried") is not None,
            "a unit of which somebody has a receipt": lambda: self.take("redriven") is not None,
            "a key of the gateway": lambda: not self.value(kept),
            "a dedupe key": lambda: not self.once(),
            "an event for later": lambda: (
                self.value("select gapless.promote()") is not None
                and self.value("select not exists (select from gapless.scheduled)")
            ),
            "a probe": lambda: (
                self.value("select gapless.probe_webhook('w', %s)", SHORT) == "probe"
            ),
            "slots of dedupe keys": lambda: (
                self.value("select gapless.turn_dedupe_slots()") is not None
                and self.value(ahead % "select since_ts from gapless.dedupe_state")
            ),
            "a chunk": lambda: (
                self.value("select gapless.drop_chunk()") is None
                and self.value(ahead % "select newest_ts from gapless.chunk_end")
            ),
            "idle subscriptions": lambda: (
                self.value("select count(*) from gapless.expire_subscriptions(60)") == 0
                and self.value(ahead % "select looked_ts from gapless.expiry_clock")
            ),
        }


@pytest.mark.invariant("I8")
@pytest.mark.parametrize("by_s", [HOURS_S, -HOURS_S])
def test_what_was_begun_ends_after_its_own_length(conn: Connection, by_s: float) -> None:
    """The clock was ahead, or behind, when all of it was written."""
    stand = Stand(conn)
    put_back(conn, by_s)
    late = {name for name, has_ended in stand.ended().items() if not until(has_ended, 3.0)}
    assert late == set()


def test_a_letter_of_an_ordered_group_waits_its_own_length(conn: Connection) -> None:
    """Not less, either: it is not handled at once."""
    stand = Stand(conn)
    conn.execute("select gapless.redrive_letter('redriven', 'jobs', 0, 1)")
    conn.execute(
        "update gapless.dead_letter set next_attempt_ts = clock_timestamp() + '1 min' where group_id = 'retried'"
    )
    put_back(conn, HOURS_S)
    heal_letters(conn)
    waits = (
        "select extract(epoch from next_attempt_ts - clock_timestamp()) from gapless.dead_letter"
    )
    assert 50 < float(stand.value(f"{waits} where group_id = 'retried'")) <= 60


def test_an_event_for_later_waits_its_own_length(conn: Connection) -> None:
    """Not less; its transaction comes together (S3), and who gave a time gets that time."""
    later = "select gapless.publish_later('jobs', '1', deliver_in => i) from unnest(array['1 min', '1 min', '2 min']::interval[]) i"
    conn.execute("select gapless.create_topic('jobs', 1)")
    conn.execute(later)
    conn.execute(
        "select gapless.publish_later('jobs', '1', deliver_in => '3 min', dedupe_key => 'k')"
    )
    conn.execute("select gapless.publish_later('jobs', '1', now() + interval '4 min')")
    put_back(conn, HOURS_S)
    (wait_s,) = conn.execute("select wait_s from gapless.promote()").fetchone() or ()
    waits = conn.execute(
        "select round(extract(epoch from deliver_at - clock_timestamp()) / 60)::int from gapless.scheduled order by 1"
    ).fetchall()
    assert 50 < wait_s < 61
    assert [minutes for (minutes,) in waits] == [1, 1, 2, 3, 8 * 60 + 4]


def test_what_an_open_cancel_has_heals_whole_later(dsn: str, conn: Connection) -> None:
    """S3: its transaction stays together."""
    conn.execute("select gapless.create_topic('jobs', 1)")
    conn.execute(
        "select gapless.publish_later('jobs', '1', deliver_in => '1 min') from generate_series(1, 3)"
    )
    put_back(conn, HOURS_S)
    conn.execute("set lock_timeout = '2 s'")
    at = "select count(distinct deliver_at), min(deliver_at) < now() + interval '1 h' from gapless.scheduled"
    with psycopg.connect(dsn) as other:
        other.execute("select gapless.cancel(min(scheduled_id)) from gapless.scheduled")
        conn.execute("select gapless.promote()")
        assert conn.execute(at).fetchone() == (1, False)
    conn.execute("select gapless.promote()")
    assert conn.execute(at).fetchone() == (1, True)


def test_who_sequences_looks_at_the_clock(conn: Connection) -> None:
    looked = "select looked_ts > clock_timestamp() - interval '50 s' from gapless.clock_look"
    for look in (try_role, heal_letters):
        look(conn)
        put_back(conn, -70)
        assert conn.execute(looked).fetchone() == (False,)
        look(conn)
        assert conn.execute(looked).fetchone() == (True,)


@pytest.mark.parametrize("by_s", [HOURS_S, -HOURS_S])
def test_who_was_suspected_by_another_clock_is_so_anew(
    dsn: str, conn: Connection, by_s: float
) -> None:
    """A supervisor that hangs is evicted after the grace: not at once, and not after eight hours."""
    evict = "select gapless.evict(gen_random_uuid(), '0.2 s')"
    with psycopg.connect(dsn, autocommit=True) as presence:
        presence.execute(
            "insert into gapless.member (member_id, name, ttl, expires_at, suspect_at, backend_pid, sessions)"
            " values (gen_random_uuid(), 'm', '0.2 s', now() - interval '1 s', now(), 0, 0)"
        )
        presence.execute("select pg_advisory_lock(7427002, member_no) from gapless.member")
        put_back(conn, by_s)
        assert conn.execute(evict).fetchone() == (0,)
        assert until(lambda: conn.execute(evict).fetchone() == (1,), 3.0)


def test_a_server_that_was_started_by_a_clock_ahead_gives_nobody_its_ttl_again(
    conn: Connection,
) -> None:
    """As long as its start is in the future nobody knows when it was."""
    shift(conn, -HOURS_S)
    overdue = "select gapless.is_overdue(gapless.clock() - interval '1 s', '3 s')"
    assert conn.execute(overdue).fetchone() == (True,)


class Kept:
    """One of each that goes after a day, made just now; a dedupe key in a slot that is not used any more."""

    def __init__(self, conn: Connection[Any], *, watched: bool) -> None:
        self.conn = conn
        small_chunks(conn)
        self.value("select gapless.create_topic('once', 1)")
        self.value(
            "select gapless.set_retention('once', 86400, null, '{}'), gapless.set_dedupe_window('once', 86400)"
        )
        self.publish("old")
        self.value("update gapless.dedupe_state set since_ts = since_ts - interval '13 h'")
        while self.value("select gapless.turn_dedupe_slots()"):
            pass
        self.publish("new")
        next_chunk(conn)
        self.publish("next")
        self.publish("after")
        assert self.value("select gapless.close_chunks()")
        self.value("insert into gapless.audit (action, group_id, topic_id) values ('x', 'g', 1)")
        self.value("insert into gapless.stage (token) values (gen_random_uuid())")
        if watched:
            assert try_role(conn)

    def value(self, statement: str, *params: object) -> Any:
        cursor = self.conn.execute(statement, params)  # type: ignore[call-overload]
        row = cursor.fetchone() if cursor.description else None
        return None if row is None else row[0]

    def publish(self, key: str) -> bool:
        duplicate = self.value("select duplicate from gapless.publish_once('once', '1', %s)", key)
        sequence(self.conn)
        return bool(duplicate)

    def gone(self, *destroyers: str) -> set[str]:
        """Let these, or all, destroy what is over; return what went of it."""
        for statement in destroyers or DESTROYERS:
            self.value(statement)
        gone = {what for what, left in LEFT.items() if not self.value(f"select exists ({left})")}
        if destroyers:
            return gone
        return gone | {f"key {key}" for key in ("old", "new") if not self.publish(key)}


DESTROYERS = (
    "select gapless.turn_dedupe_slots() from generate_series(1, 9)",
    "select gapless.purge_history(86400, 86400)",
    "select gapless.drop_chunk()",
)
LEFT = {
    "a chunk": "select from gapless.outbox_message_t where id = 1",
    "a stage": "select from gapless.stage",
    "an audit": "select from gapless.audit where action = 'x'",
    "a slot": "select from gapless.dedupe where dedupe_key = 'old'",
}
DAY_S = 86_400.0


@pytest.mark.parametrize("by_s", [HOURS_S * 4, 30 * DAY_S])
def test_a_step_ahead_destroys_nothing(conn: Connection, by_s: float) -> None:
    """It is doubted for an hour, also when it was gone back meanwhile; then it was right."""
    kept = Kept(conn, watched=True)
    put_back(conn, -by_s)
    assert kept.publish("new"), "no look has been taken yet"
    assert kept.gone() == set()
    (found,) = snapshot(conn).obstacles
    assert (found.kind, "went ahead" in found.problem) == ("clock", True)
    put_back(conn, by_s)
    assert kept.gone() == set()
    put_back(conn, -by_s)
    assert kept.gone() == set()
    put_back(conn, -3700)
    assert kept.gone() == set(LEFT) | {"key old", "key new"}


def test_what_init_wrote_is_no_look(conn: Connection) -> None:
    """Nothing was there yet to be destroyed: a later first run is told of no step."""
    conn.execute("update gapless.sequencer set ran_ts = ran_ts - interval '1 h'")
    conn.execute("select gapless.look_at_clock()")
    assert conn.execute("select doubted_ts from gapless.clock_look").fetchone() == (None,)


def test_where_nobody_looked_keys_end_and_all_else_waits(conn: Connection) -> None:
    """An hour without a sequencer is not a step; a publisher's key does not last longer for that."""
    kept = Kept(conn, watched=False)
    for destroyer in DESTROYERS:
        put_back(conn, -2 * DAY_S)
        assert kept.gone(destroyer) == set()
        put_back(conn, 2 * DAY_S)
        conn.execute("select gapless.look_at_clock()")
    put_back(conn, -2 * DAY_S)
    assert not kept.publish("new"), "no look is due, for nobody sequences"
    assert kept.gone() == {"key old"}
    put_back(conn, -3700)
    assert kept.gone() >= {"a chunk", "a stage", "an audit"}


AHEAD_S = (60, HOURS_S, HOURS_S + 60, 70, 130, 190, HOURS_S - 60, HOURS_S + 130)
LATE_S = (3600, HOURS_S + 1800, 3660, 7200, HOURS_S, 10_800, HOURS_S + 1800, 2 * HOURS_S)
# How often it is due, what it does with what it missed, how far ahead the clock is at each look; and which due times, in
# units of its interval, have events. The first three: 1, 480, 481 minutes, then 2, 3, 479 and 482; all: each once, whenever.
SCHEDULES = {
    "once": ("1 minute", "once", AHEAD_S, {1, 2, 3, 479, 480, 481, 482}),
    "skip": ("1 minute", "skip", AHEAD_S, {1, 2, 3, 479, 480, 481, 482}),
    "all": ("1 minute", "all", AHEAD_S, {*range(1, 483)}),
    "what is skipped is as old": ("1 hour", "skip", LATE_S, {1, 2, 8, 16}),
    "the first is skipped": ("1 hour", "skip", LATE_S[1:], {2, 8, 16}),
    "its only time is skipped": ("8 hours", "skip", LATE_S[1:], {1, 2}),
    "none is too old": ("8 hours", "once", LATE_S[1:], {1, 2}),
}


@pytest.mark.parametrize("which", SCHEDULES)
def test_a_schedule_continues_and_no_due_time_comes_twice(conn: Connection, which: str) -> None:
    """A time that was due while the clock was ahead has its event, and gets no other when it comes."""
    every, missed, looks_s, expected = SCHEDULES[which]
    stand = Stand(conn)
    shift(conn, 0)
    add_schedule(conn, Schedule(name="s", topic="jobs", every=every, missed=missed))
    for ahead_s in looks_s:
        shift(conn, ahead_s)
        while stand.value("select promoted from gapless.promote()"):
            pass
    dues = conn.execute(
        "select round(extract(epoch from (o.headers ->> 'gapless-due')::timestamptz - s.starts_at)"
        " / extract(epoch from s.every))::int from gapless.outbox_message_t o, gapless.schedule s"
        " where o.headers ? 'gapless-due' order by 1"
    ).fetchall()
    assert [due for (due,) in dues] == sorted(expected)


def test_a_schedule_that_is_silent_for_that_is_named_with_what_helps(conn: Connection) -> None:
    Stand(conn)
    every_minute = Schedule(name="s", topic="jobs", every="1 minute", missed="all")
    add_schedule(conn, every_minute)
    for ahead_s in (HOURS_S, 0):
        shift(conn, ahead_s)
        while conn.execute("select promoted from gapless.promote()").fetchone() != (0,):
            pass
    (found,) = [each for each in snapshot(conn).obstacles if each.kind == "schedule"]
    assert (found.kind, found.name, HOURS_S - 120 < found.since_s <= HOURS_S) == (
        "schedule",
        "s",
        True,
    )
    conn.execute("select gapless.remove_schedule('s')")
    add_schedule(conn, every_minute)
    assert snapshot(conn).obstacles == ()


def test_it_is_named(dsn: str, conn: Connection) -> None:
    Stand(conn)
    assert [each.kind for each in snapshot(conn).obstacles] == []
    put_back(conn, HOURS_S)
    (found,) = snapshot(conn).obstacles
    assert (found.kind, found.since_s > HOURS_S - 60) == ("clock", True)
    (said,) = [each for each in diagnose(dsn) if each.name == "obstacles"]
    assert (said.level, "clock was put back" in said.text) == ("warning", True)
