"""Errors that are not the event's leave the step: nothing is dead, and trying again succeeds."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from time import monotonic
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from gapless.consume.aside.retry import retry_aside
from gapless.consume.unit import Unit
from gapless.consume.user.handler import Handler
from gapless.consume.verdict.patience import CANCELLED_S, Patience
from gapless.consume.verdict.policy import Policy
from gapless.db.connect import connect, is_transient
from gapless.errors import BlockedError, ConnectError, UnreadyError
from gapless.settings.sections import DeliveryMode
from support.turn import turn
from support.world import Group, World, make_handler

Trouble = Callable[[World, Connection[Any]], object]
WAIT_S = 10


@pytest.fixture
def world(shared_world: World) -> World:
    shared_world.conn.execute("create table if not exists once (n int)")
    return shared_world.another_topic()


def real(world: World, conn: Connection[Any], sqlstate: str) -> None:
    conn.execute(
        "do $$ begin raise exception 'trouble' using errcode = '" + sqlstate + "'; end $$"  # type: ignore[arg-type]
    )


def at_four(group: Group, deed: Callable[[Connection[Any]], object]) -> Handler:
    """Make a handler that does something more in its fourth unit."""

    def handle(unit: Unit, conn: Connection[Any]) -> None:
        group.record(unit, conn)
        if unit.first_offset == 4:
            deed(conn)

    return make_handler(handle)


@contextmanager
def rival(world: World) -> Iterator[Connection[Any]]:
    with psycopg.connect(world.dsn, options="-c statement_timeout=10s") as conn:
        yield conn


def lock_timeout(world: World, conn: Connection[Any]) -> None:
    with rival(world) as other:
        other.execute("lock table once in share mode")
        conn.execute("set local lock_timeout = '20ms'")
        conn.execute("lock table once in exclusive mode")


def nowait(world: World, conn: Connection[Any]) -> None:
    with rival(world) as other:
        other.execute("select from gapless.topic where name = 'orders' for update")
        conn.execute("select from gapless.topic where name = 'orders' for update nowait")


def statement_timeout(world: World, conn: Connection[Any]) -> None:
    conn.execute("set local statement_timeout = '20ms'")
    conn.execute("select pg_sleep(10)")


def await_event(world: World, pid: int, event: str) -> None:
    """Return when that backend waits for `event`."""
    give_up = monotonic() + WAIT_S
    waiting = "select count(*) from pg_stat_activity where pid = %s and wait_event = %s"
    while not world.value(waiting, pid, event):
        assert monotonic() < give_up


def cancelled(world: World, conn: Connection[Any]) -> None:
    pid = conn.info.backend_pid

    def cancel() -> None:
        await_event(world, pid, "PgSleep")
        world.conn.execute("select pg_cancel_backend(%s)", [pid])

    with ThreadPoolExecutor(1) as pool:
        pool.submit(cancel)
        conn.execute("select pg_sleep(10)")


def deadlock(world: World, conn: Connection[Any]) -> None:
    """The rival waits for us first, and patiently: our own wait finds the deadlock."""
    conn.execute("select pg_advisory_xact_lock(1)")
    conn.execute("set local deadlock_timeout = '10ms'")
    with rival(world) as other, ThreadPoolExecutor(1) as pool:
        other.execute("set deadlock_timeout = '20s'")
        other.execute("select pg_advisory_xact_lock(2)")
        future = pool.submit(other.execute, "select pg_advisory_xact_lock(1)")
        await_event(world, other.info.backend_pid, "advisory")
        try:
            conn.execute("select pg_advisory_xact_lock(2)")
        finally:
            other.cancel_safe(timeout=WAIT_S)
            with pytest.raises(psycopg.errors.QueryCanceled):
                future.result(WAIT_S)


def serialization(world: World, conn: Connection[Any]) -> None:
    """In a session of its own, for the step's is READ COMMITTED: another database, for instance."""
    with rival(world) as first, rival(world) as second:
        second.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        second.execute("select from gapless.topic")
        first.execute("update gapless.topic set retention = '1 day' where name = 'orders'")
        first.commit()
        second.execute("update gapless.topic set retention = '2 day' where name = 'orders'")


def read_only(world: World, conn: Connection[Any]) -> None:
    conn.execute("set transaction read only")
    conn.execute("create table t ()")


def another_server_is_down(world: World, conn: Connection[Any]) -> None:
    psycopg.connect("host=127.0.0.1 port=1 connect_timeout=2")


def another_server_is_down_for_gapless(world: World, conn: Connection[Any]) -> None:
    connect("host=127.0.0.1 port=1", role="x", connect_timeout_s=2)


def another_session_is_killed(world: World, conn: Connection[Any]) -> None:
    with rival(world) as other:
        conn.execute("select pg_terminate_backend(%s, 5000)", [other.info.backend_pid])
        other.execute("select 1")


def another_session_is_closed(world: World, conn: Connection[Any]) -> None:
    with rival(world) as other:
        other.close()
        other.execute("select 1")


TROUBLES: dict[str, tuple[Trouble, type[BaseException]]] = {
    "lock timeout": (lock_timeout, psycopg.errors.LockNotAvailable),
    "nowait": (nowait, psycopg.errors.LockNotAvailable),
    "deadlock": (deadlock, psycopg.errors.DeadlockDetected),
    "serialization": (serialization, psycopg.errors.SerializationFailure),
    "read only": (read_only, psycopg.errors.ReadOnlySqlTransaction),
    "another server down": (another_server_is_down, psycopg.OperationalError),
    "another server down, ours": (another_server_is_down_for_gapless, ConnectError),
    "another session killed": (another_session_is_killed, psycopg.OperationalError),
    "another session closed": (another_session_is_closed, psycopg.OperationalError),
}
# A deferred check that fails for a passing reason, the nth time only: a rollback does not undo nextval.
FAIL_AT = """
drop sequence if exists checks;
create sequence checks;
create or replace function fail_at_commit() returns trigger language plpgsql as $$
begin
  if nextval('checks') = {nth} then
    raise exception 'not now' using errcode = '40001';
  end if;
  return null;
end $$;
drop trigger if exists fail_at_commit on once;
create constraint trigger fail_at_commit after insert on once deferrable initially deferred
  for each row execute function fail_at_commit();
"""
SLOW = """
create table if not exists slow (n int);
create or replace function be_slow() returns trigger language plpgsql as $$
begin perform pg_sleep(10); return null; end $$;
drop trigger if exists be_slow on slow;
create constraint trigger be_slow after insert on slow deferrable initially deferred
  for each row execute function be_slow();
"""
STATES = "40001 40P01 55P03 55006 08006 08003 57P01 57P03 58030 25006"


class TestFromTheHandler:
    @pytest.mark.few(3)
    @pytest.mark.parametrize("name", TROUBLES)
    @pytest.mark.parametrize("failing", [set(), {2}], ids=["fast path", "careful path"])
    def test_leaves_the_step_and_nothing_is_dead(
        self, world: World, group: Group, name: str, failing: set[int]
    ) -> None:
        trouble, kind = TROUBLES[name]
        self.check(world, group, failing, kind, lambda conn: trouble(world, conn))

    @pytest.mark.few(2)
    @pytest.mark.parametrize("sqlstate", STATES.split())
    def test_each_state_that_is_the_environments(
        self, world: World, group: Group, sqlstate: str
    ) -> None:
        kind = psycopg.errors.lookup(sqlstate)
        self.check(world, group, {2}, kind, lambda conn: real(world, conn, sqlstate))

    @pytest.mark.parametrize("name", ["from", "context", "aborted"])
    def test_said_in_other_words(self, world: World, group: Group, name: str) -> None:
        """What an ORM makes of a deadlock is a deadlock all the same."""

        def say(conn: Connection[Any]) -> None:
            try:
                real(world, conn, "40P01")
            except psycopg.Error as error:
                if name == "from":
                    raise LookupError("in an ORM's words") from error
                if name == "aborted":
                    conn.execute("select 1")  # 25P02, in the aborted transaction
                raise LookupError("in other words")  # noqa: B904

        self.check(world, group, {2}, psycopg.errors.DeadlockDetected, say)

    def test_unless_the_handler_hides_it_on_purpose(self, world: World, group: Group) -> None:
        world.units(1)

        def say(unit: Unit, conn: Connection[Any]) -> None:
            try:
                with conn.transaction():
                    real(world, conn, "55P03")
            except psycopg.Error:
                raise ValueError("my own affair") from None

        assert group.step(make_handler(say)).dead == 1

    def check(
        self,
        world: World,
        group: Group,
        failing: set[int],
        kind: type[BaseException],
        trouble: Callable[[Connection[Any]], object],
    ) -> None:
        world.units(*[1] * 5)
        group.failing = set(failing)
        deeds = [trouble, trouble]
        handler = at_four(group, lambda conn: deeds and deeds.pop()(conn))
        for _ in range(2):
            with pytest.raises(kind) as caught:
                group.step(handler)
            assert is_transient(caught.value)
            assert (group.effects(), group.letters(), group.next_offset()) == ([], {}, 1)
            assert group.conn.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        group.drain(handler)
        group.assert_all_once(5)
        assert set(group.letters()) == failing


class TestCancelled:
    """57014 is the unit's own failure: it took longer than it may, or somebody made an end of it."""

    @pytest.mark.parametrize("failing", [set(), {2}], ids=["fast path", "careful path"])
    @pytest.mark.parametrize("how", ["SET LOCAL", "session", "deferred", "in other words"])
    def test_a_statement_that_takes_too_long(
        self, world: World, group: Group, how: str, failing: set[int]
    ) -> None:
        """Deferred: at COMMIT PostgreSQL has no such timeout; when a unit is tried alone, it has."""
        world.conn.execute(SLOW)
        world.units(*[1] * 5)
        group.failing = failing or ({2} if how == "deferred" else set())
        if how in ("session", "deferred"):
            group.conn.execute("set statement_timeout = '100ms'")

        def deed(conn: Connection[Any]) -> None:
            if how == "deferred":
                conn.execute("insert into slow values (1)")
            elif how == "session":
                conn.execute("select pg_sleep(10)")
            elif how == "SET LOCAL":
                statement_timeout(world, conn)
            else:
                try:
                    statement_timeout(world, conn)
                except psycopg.Error as error:
                    raise LookupError("in an ORM's words") from error

        group.drain(at_four(group, deed))
        group.assert_all_once(5)
        assert set(group.letters()) == {4} | group.failing

    def test_an_operator_who_cancels_once_costs_nothing(self, world: World, group: Group) -> None:
        world.units(*[1] * 5)
        deeds = [cancelled]
        group.drain(at_four(group, lambda conn: deeds and deeds.pop()(world, conn)))
        group.assert_all_once(5)
        assert group.letters() == {}

    @pytest.mark.long
    def test_a_unit_that_is_redriven(self, world: World, group: Group) -> None:
        world.units(1)

        def handle(unit: Unit, conn: Connection[Any]) -> None:
            group.record(unit, conn)
            statement_timeout(world, conn)

        policy = Policy(on_failure="retry", retry_delays_s=(0,))
        group.drive(make_handler(handle), policy=policy, until_s=1)
        assert group.states() == {1: "dead"}
        assert group.letters_have("attempts") == {2}

    @pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
    @pytest.mark.parametrize("aside", [False, True], ids=["of the log", "set aside"])
    @pytest.mark.parametrize("always", [False, True], ids=["in a moment", "always"])
    def test_several_times(
        self,
        world: World,
        group: Group,
        monkeypatch: pytest.MonkeyPatch,
        delivery: DeliveryMode,
        *,
        aside: bool,
        always: bool,
    ) -> None:
        """In one moment it costs nothing, and is no attempt; again and again it is its own fault."""
        world.units(*[1] * 3)
        if aside:
            group.failing = {2}
            group.drain()
            asked = "select gapless.redrive_letter(%s, %s, 0, 2)"
            assert world.value(asked, group.name, world.topic.name) == "asked"
            group.failing = set()
        clock = [1000.0]
        monkeypatch.setattr("gapless.consume.job.monotonic", lambda: clock[0])
        cancels = 0

        def handle(unit: Unit, conn: Connection[Any] | None = None) -> None:
            nonlocal cancels
            with nullcontext(conn) if conn is not None else rival(world) as session:
                if unit.first_offset == 2 and (always or cancels < 5):
                    cancels += 1
                    cancelled(world, session)
                group.record(unit, session)

        outside = {"delivery": delivery} if delivery == "at-least-once" else {}
        what, patience = make_handler(handle, **outside), Patience()
        for _ in range(6):
            with suppress(UnreadyError):
                group.drive(what, patience=patience)
            due = "update gapless.dead_letter set next_attempt_ts = now() where state = 'waiting'"
            world.conn.execute(due)
            assert group.states().get(2, "waiting") != "dead" or clock[0] >= 1000 + CANCELLED_S
            clock[0] += CANCELLED_S if always else 0.03
        assert group.states() == ({2: "dead"} if always else {2: "redriven"} if aside else {})
        assert group.effects() == ([1, 3] if always else [1, 3, 2] if aside else [1, 2, 3])
        if aside and not always:
            look = "select attempts from gapless.dead_letter where group_id = %s"
            assert world.value(look, group.name) == 1

    def test_of_an_at_least_once_handlers_own_session(self, world: World, group: Group) -> None:
        world.units(1, 1)

        def handle(unit: Unit) -> None:
            if unit.first_offset == 1:
                with rival(world) as other:
                    statement_timeout(world, other)

        group.drive(make_handler(handle, delivery="at-least-once"))
        assert group.states() == {1: "dead"}
        assert group.next_offset() == 3


UNREADY = "42501 42P01 42703 42883 3F000 53100 53200 53300 28000"


class TestUnready:
    """The database is not as the handler expects it: a driver with patience waits for it first."""

    @pytest.mark.few(3)
    @pytest.mark.parametrize("sqlstate", UNREADY.split())
    @pytest.mark.parametrize("failing", [set(), {2}], ids=["fast path", "careful path"])
    def test_it_is_waited_for_and_nothing_is_dead(
        self, world: World, group: Group, sqlstate: str, failing: set[int]
    ) -> None:
        world.units(*[1] * 5)
        group.failing = failing
        handler, patience = at_four(group, lambda conn: real(world, conn, sqlstate)), Patience()
        for _ in range(2):
            with pytest.raises(UnreadyError, match=f"@4: .*SQLSTATE {sqlstate}"):
                group.drain(handler, patience=patience)
        assert set(group.letters()) == failing
        group.drain(patience=patience)
        group.assert_all_once(5)
        assert set(group.letters()) == failing

    @pytest.mark.parametrize("sqlstate", UNREADY.split())
    def test_when_patience_is_lost_the_policy_holds(
        self, world: World, group: Group, sqlstate: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        world.units(*[1] * 5)
        monkeypatch.setattr("gapless.consume.verdict.patience.PATIENCE_S", 0.0)
        group.drain(at_four(group, lambda conn: real(world, conn, sqlstate)), patience=Patience())
        group.assert_all_once(5)
        assert set(group.letters()) == {4}

    @pytest.mark.parametrize("sqlstate", ["53100", "53200", "53300"])
    def test_without_patience_what_passes_leaves_the_step(
        self, world: World, group: Group, sqlstate: str
    ) -> None:
        world.units(1)
        with pytest.raises(psycopg.errors.lookup(sqlstate)) as caught:
            group.step(make_handler(lambda unit, conn: real(world, conn, sqlstate)))
        assert is_transient(caught.value)
        assert (group.letters(), group.next_offset()) == ({}, 1)

    def test_without_patience_the_policy_holds_at_once(self, world: World, group: Group) -> None:
        world.units(1)
        handler = make_handler(lambda unit, conn: real(world, conn, "42P01"))
        assert group.step(handler).dead == 1

    def test_under_block_it_is_blocked_as_ever(self, world: World, group: Group) -> None:
        world.units(1)
        handler = make_handler(lambda unit, conn: real(world, conn, "42P01"))
        with pytest.raises(BlockedError) as caught:
            group.step(handler, policy=Policy(on_failure="block"), patience=Patience())
        assert not isinstance(caught.value, UnreadyError)

    @pytest.mark.long
    def test_a_unit_that_was_set_aside_waits_too(self, world: World, group: Group) -> None:
        world.units(1)

        def handle(unit: Unit, conn: Connection[Any]) -> None:
            group.record(unit, conn)
            if unit.attempt == 1:
                raise ValueError("not yet")
            real(world, conn, "42501")

        policy = Policy(on_failure="retry", retry_delays_s=(0,))
        group.drive(make_handler(handle), policy=policy, until_s=1, patience=Patience())
        assert group.states() == {1: "waiting"}


class TestFromTheServer:
    def test_our_session_is_ended_in_the_middle(self, world: World, group: Group) -> None:
        world.units(1, 1)
        ended = make_handler(
            lambda unit, conn: conn.execute("select pg_terminate_backend(pg_backend_pid())")
        )
        with pytest.raises(psycopg.errors.AdminShutdown):
            group.step(ended)
        assert (group.letters(), group.next_offset()) == ({}, 1)
        with connect(world.dsn, role="worker") as group.conn:
            group.drain()
        group.assert_all_once(2)

    def test_commit_fails_for_a_passing_reason(self, world: World, group: Group) -> None:
        """40001 at COMMIT, after all handlers went well."""
        world.conn.execute(
            "create or replace function fail_at_commit() returns trigger language plpgsql as $$"
            " begin raise exception 'not now' using errcode = '40001'; end $$;"
            "drop trigger if exists fail_at_commit on once;"
            "create constraint trigger fail_at_commit after insert on once deferrable"
            " initially deferred for each row execute function fail_at_commit()"
        )
        world.units(1, 1)

        def handle(unit: Unit, conn: Connection[Any]) -> None:
            group.record(unit, conn)
            conn.execute("insert into once values (1)")

        with pytest.raises(psycopg.errors.SerializationFailure):
            group.step(make_handler(handle))
        assert (group.letters(), group.next_offset(), group.calls) == ({}, 1, [1, 2])
        group.drain()
        group.assert_all_once(2)

    @pytest.mark.parametrize("nth", [1, 2], ids=["check", "COMMIT"])
    def test_commit_of_what_was_tried_with_care_fails_for_a_passing_reason(
        self, world: World, group: Group, nth: int
    ) -> None:
        """Not the units' fault: nothing is tried with fewer of them, and nobody is dead of it."""
        world.conn.execute(FAIL_AT.format(nth=nth))
        world.units(1, 1, 1)
        group.failing = {3}

        def handle(unit: Unit, conn: Connection[Any]) -> None:
            group.record(unit, conn)
            if unit.first_offset == 1:
                conn.execute("insert into once values (1)")

        with pytest.raises(psycopg.errors.SerializationFailure):
            group.step(make_handler(handle))
        assert (group.letters(), group.next_offset(), group.effects()) == ({}, 1, [])
        group.drain(make_handler(handle))
        group.assert_all_once(3)
        assert list(group.letters()) == [3]

    def test_commit_of_a_single_unit_fails_for_a_passing_reason(
        self, world: World, group: Group
    ) -> None:
        """Also of one that is tried alone, and of one that was set aside."""
        world.units(1)
        group.failing = {1}
        group.drain()
        redriven = "select gapless.redrive_letter(%s, %s, 0, 1)"
        assert world.value(redriven, group.name, world.topic.name) == "asked"
        world.conn.execute(FAIL_AT.format(nth=1))
        group.failing = set()

        def handle(unit: Unit, conn: Connection[Any]) -> None:
            group.record(unit, conn)
            conn.execute("insert into once values (1)")

        one = turn(group.conn, group.assignment, make_handler(handle))
        with pytest.raises(psycopg.errors.SerializationFailure):
            retry_aside(one, 1)
        assert group.states() == {1: "waiting"}
        look = "select attempts, crashes from gapless.dead_letter where group_id = %s"
        assert world.rows(look, group.name) == [(1, 0)], "neither a failure nor a death"
        assert retry_aside(one, 1) == "handled"
        assert (group.effects(), group.states()) == ([1], {1: "redriven"})

    def test_the_offsets_row_is_locked(self, world: World, group: Group) -> None:
        world.units(1)
        group.conn.execute("set lock_timeout = '20ms'")
        with rival(world) as other:
            other.execute(
                "select from gapless.consumer_offsets where group_id = %s for update", [group.name]
            )
            for turn in (group.step, group.step_alone):
                with pytest.raises(psycopg.errors.LockNotAvailable):
                    turn()
        group.drain()
        group.assert_all_once(1)

    def test_the_log_is_locked(self, world: World, group: Group) -> None:
        world.units(1)
        group.conn.execute("set lock_timeout = '20ms'")
        with rival(world) as other:
            other.execute("lock table gapless.outbox_message_t in access exclusive mode")
            with pytest.raises(psycopg.errors.LockNotAvailable):
                group.step()
        group.drain()
        group.assert_all_once(1)
