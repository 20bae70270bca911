"""Handlers that do what they must not: nothing lost, nothing twice, a clear text (I6, I9)."""

import asyncio
import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any, LiteralString

import psycopg
import pytest
from psycopg import Connection, sql
from psycopg.rows import dict_row

from gapless.consume.unit import Unit
from gapless.consume.verdict.policy import Policy
from gapless.db.connect import connect, is_transient
from support.world import Group, World, make_handler

Misdeed = Callable[[Connection[Any]], object]
ENDED = "the handler ended the transaction it was given: it must not COMMIT or ROLLBACK"
REFUSED = "a gapless handler must not COMMIT: its effects commit together with the offset"
WENT_ON = "the handler caught a database error and continued: use conn.transaction() around it"


@pytest.fixture
def world(shared_world: World) -> World:
    return shared_world.another_topic()


def do(*statements: str) -> Misdeed:
    def run(conn: Connection[Any]) -> None:
        for statement in statements:
            conn.execute(sql.SQL(statement))  # type: ignore[arg-type]

    return run


def swallow(misdeed: Misdeed) -> Misdeed:
    def run(conn: Connection[Any]) -> None:
        with contextlib.suppress(Exception):
            misdeed(conn)

    return run


def leave(error: BaseException) -> Misdeed:
    def run(conn: Connection[Any]) -> None:
        raise error

    return run


class Strange(BaseException):
    """Not an Exception."""


async def coroutine() -> None:
    return None


def autocommit_now(conn: Connection[Any]) -> None:
    conn.autocommit = True


def rolled_back_by_hand(conn: Connection[Any]) -> None:
    with conn.transaction():
        conn.execute("insert into public.effect values (default, 'x', -1, -1)")
        raise psycopg.Rollback


def left_early(conn: Connection[Any]) -> None:
    """Leave a stream: psycopg cancels what still runs, and that aborts the transaction.

    A few rows may be sent before the cancel arrives, or not: so many never are.
    """
    for _ in conn.cursor().stream("select generate_series(1, 10000000)"):
        break


# What a handler does with its connection, and what stands in the dead letter then.
MISDEEDS: dict[str, tuple[Misdeed, str]] = {
    "COMMIT": (do("commit"), REFUSED),
    "COMMIT, and no word": (swallow(do("commit")), ENDED),
    "COMMIT AND CHAIN": (do("commit and chain"), REFUSED),
    "END": (do("end"), REFUSED),
    "PREPARE TRANSACTION": (do("prepare transaction 'p'"), REFUSED),
    "ROLLBACK": (do("rollback"), ENDED),
    "ABORT, BEGIN": (do("abort", "begin"), ENDED),
    "ROLLBACK; BEGIN": (do("rollback; begin"), ENDED),
    "ROLLBACK AND CHAIN": (do("rollback and chain"), ENDED),
    "conn.commit()": (Connection.commit, "Explicit commit() forbidden"),
    "conn.rollback()": (Connection.rollback, "Explicit rollback() forbidden"),
    "conn.autocommit = True": (autocommit_now, "can't change 'autocommit' now"),
    "a savepoint that is not its own": (do('rollback to "_pg3_1"'), "_pg3_1"),
    "releases our savepoint": (do("release gapless_unit"), ENDED),
    "an error it swallows": (swallow(do("select 1 / 0")), WENT_ON),
    "an error it ignores": (
        lambda conn: (swallow(do("select 1 / 0"))(conn), do("select 1")(conn)),
        WENT_ON,
    ),
    "a stream left early": (left_early, WENT_ON),
    "isolation level": (
        do("set transaction isolation level serializable"),
        "SET TRANSACTION ISOLATION LEVEL must be called before any query",
    ),
    "DISCARD ALL": (do("discard all"), "DISCARD ALL cannot run inside a transaction block"),
    "sys.exit()": (lambda conn: sys.exit(3), "SystemExit: 3"),
    "psycopg.Rollback": (leave(psycopg.Rollback()), "Rollback"),
    "GeneratorExit": (leave(GeneratorExit()), "GeneratorExit"),
    "CancelledError": (leave(asyncio.CancelledError()), "CancelledError"),
    "not an Exception": (leave(Strange("odd")), "Strange: odd"),
    "StopIteration": (leave(StopIteration()), "StopIteration"),
    "returns a coroutine": (lambda conn: coroutine(), "returned a coroutine instead of doing"),
    "returns a generator": (lambda conn: (n for n in [1]), "returned a generator instead of doing"),
    "a lone surrogate": (
        lambda conn: conn.execute("select %s", ["\ud800"]),
        "UnicodeEncodeError",
    ),
    "a NUL": (lambda conn: conn.execute("select %s::text", ["\0"]), "NUL"),
    "too many parameters": (
        lambda conn: conn.execute("select " + "%s," * 66_000 + "1", [1] * 66_000),
        "number of parameters",
    ),
    "an infinite date": (
        lambda conn: conn.execute("select '-infinity'::timestamptz").fetchone(),
        "timestamp too small",
    ),
}


@pytest.mark.invariant("I6")
class TestDeadLetter:
    @pytest.mark.few(10)
    @pytest.mark.parametrize("name", MISDEEDS)
    @pytest.mark.parametrize("batch_size", [1, 100])
    def test_says_what_it_did(self, world: World, group: Group, name: str, batch_size: int) -> None:
        misdeed, text = MISDEEDS[name]
        world.units(*[1] * 9)

        def handle(unit: Unit, conn: Connection[Any]) -> object:
            group.effect(unit, conn)
            if unit.first_offset != 5:
                return None
            return misdeed(conn)

        group.drain(make_handler(handle), batch_size=batch_size)
        group.assert_all_once(9)
        assert list(group.letters()) == [5]
        assert text in group.letters()[5], group.letters()[5]
        assert group.conn.autocommit
        assert world.value("select count(*) from pg_prepared_xacts") == 0

    @pytest.mark.parametrize("misdeed", [do("rollback"), swallow(do("commit"))])
    def test_what_it_wrote_after_the_end_of_its_transaction_is_gone(
        self, world: World, group: Group, misdeed: Misdeed
    ) -> None:
        """In autocommit every statement after its ROLLBACK would be committed at once."""
        world.units(*[1] * 4)

        def handle(unit: Unit, conn: Connection[Any]) -> None:
            if unit.first_offset == 3:
                misdeed(conn)
            group.record(unit, conn)

        group.drain(make_handler(handle))
        group.assert_all_once(4)
        assert list(group.letters()) == [3]

    def test_nothing_more_is_handled_in_vain(self, world: World, group: Group) -> None:
        """The end of its transaction is noticed when the handler returns, not before COMMIT."""
        world.units(*[1] * 4)

        def handle(unit: Unit, conn: Connection[Any]) -> None:
            group.record(unit, conn)
            if unit.first_offset == 2:
                conn.execute("rollback")

        group.step(make_handler(handle))
        assert group.calls == [1, 2, 1, 2, 1]
        group.drain(make_handler(handle))
        group.assert_all_once(4)
        assert list(group.letters()) == [2]


def reads_with_dicts(conn: Connection[Any]) -> None:
    conn.row_factory = dict_row  # type: ignore[assignment]
    assert conn.execute("select 1 as one").fetchone() == {"one": 1}


def client_cursor(conn: Connection[Any]) -> None:
    conn.cursor_factory = psycopg.ClientCursor
    conn.prepare_threshold = None


def listens(conn: Connection[Any]) -> None:
    conn.execute("listen gossip")
    conn.execute("notify gossip, 'hello'")


def named_cursor(conn: Connection[Any]) -> None:
    cursor = conn.cursor(f"left_open_{conn.info.backend_pid}")
    cursor.execute("select generate_series(1, 1000)")
    assert len(cursor.fetchmany(10)) == 10
    cursor.close()
    conn.execute("declare left_open cursor for select 1")
    conn.execute("close left_open")
    conn.execute(f"declare c{next(NAMES)} cursor for select generate_series(1, 1000)")  # type: ignore[arg-type]


def streams(conn: Connection[Any]) -> None:
    assert len(list(conn.cursor().stream("select generate_series(1, 1000)"))) == 1000


def copies(conn: Connection[Any]) -> None:
    with conn.cursor().copy("copy (select 1) to stdout") as copy:
        assert list(copy.rows()) == [("1",)]


def pipelines(conn: Connection[Any]) -> None:
    with conn.pipeline():
        conn.execute("select 1")
        conn.execute("select 2")


def caught(conn: Connection[Any]) -> None:
    with contextlib.suppress(psycopg.errors.DivisionByZero), conn.transaction():
        conn.execute("select 1 / 0")


NAMES = iter(range(1_000_000))

# What a handler may do: all of it goes well, and is gone afterwards where it should be.
DEEDS: dict[str, Misdeed] = {
    "savepoints of its own": do("savepoint s", "select 1", "rollback to s", "release s"),
    "an error caught by a savepoint": caught,
    "rolls a savepoint back": rolled_back_by_hand,
    "SET LOCAL": do("set local statement_timeout = '20s'", "set local search_path = nowhere"),
    "RESET ALL": do("reset all"),
    "search_path": do("set search_path = nowhere"),
    "another role": do("set role gapless_producer"),
    "LOCK TABLE": do("lock table effect in exclusive mode"),
    "temporary table": do("create temp table if not exists t (n int) on commit drop"),
    "advisory locks": do("select pg_advisory_xact_lock(1)", "select pg_advisory_lock_shared(2)"),
    "LISTEN and NOTIFY": listens,
    "a cursor left open": named_cursor,
    "a stream": streams,
    "COPY": copies,
    "pipeline": pipelines,
    "row factory": reads_with_dicts,
    "cursor factory": client_cursor,
    "BEGIN": do("begin"),
    "SET CONSTRAINTS DEFERRED": do("set constraints all deferred"),
}


class TestAllowed:
    @pytest.mark.few(6)
    @pytest.mark.parametrize("name", DEEDS)
    @pytest.mark.parametrize("failing", [set(), {4}], ids=["fast path", "careful path"])
    @pytest.mark.filterwarnings("ignore:.*was deleted while still open:ResourceWarning")
    def test_is_done_and_all_goes_on(
        self, world: World, group: Group, name: str, failing: set[int]
    ) -> None:
        world.units(*[1] * 30)
        group.failing = failing

        def handle(unit: Unit, conn: Connection[Any]) -> None:
            conn.execute(
                "insert into public.effect (group_id, c_offset, unit_first) values (%s, %s, %s)",
                [group.name, unit.first_offset, unit.first_offset],
            )
            DEEDS[name](conn)
            group.refuse(unit)

        group.drain(make_handler(handle), batch_size=9)
        group.assert_all_once(30)
        assert set(group.letters()) == failing

    @pytest.mark.parametrize(
        "statement", ["deallocate all", "do $$ begin execute 'deallocate all'; end $$"]
    )
    @pytest.mark.parametrize("batch_size", [1, 4])
    def test_deallocate_all_costs_one_retry(
        self, world: World, group: Group, statement: LiteralString, batch_size: int
    ) -> None:
        """The step is tried again, and the session is not trusted any more; the next one is."""
        world.units(*[1] * 30)

        def deallocate(unit: Unit, conn: Connection[Any]) -> None:
            group.record(unit, conn)
            conn.execute(statement, prepare=False)

        group.step(batch_size=1)
        with pytest.raises(psycopg.OperationalError, match="deallocated our statements") as raised:
            group.drain(make_handler(deallocate), batch_size=batch_size)
        assert is_transient(raised.value)
        group.drain(make_handler(deallocate), batch_size=batch_size)
        group.assert_all_once(30)

    def test_deallocate_all_now_and_then_costs_one_retry_in_all(
        self, world: World, group: Group
    ) -> None:
        """What the steps between have prepared is not used within a transaction again."""
        world.units(*[1] * 30)

        def deallocate(unit: Unit, conn: Connection[Any]) -> None:
            group.record(unit, conn)
            if unit.first_offset % 2 == 0:
                conn.execute("deallocate all", prepare=False)

        with pytest.raises(psycopg.OperationalError, match="deallocated our statements"):
            group.drain(make_handler(deallocate), batch_size=1)
        group.drain(make_handler(deallocate), batch_size=1)
        group.assert_all_once(30)

    @pytest.mark.long
    def test_a_savepoint_rolled_back_makes_psycopg_deallocate_all(
        self, world: World, group: Group
    ) -> None:
        """What a handler does that takes an event only once: at most one step is tried again."""
        world.units(*[1] * 60)

        def twice(unit: Unit, conn: Connection[Any]) -> None:
            group.record(unit, conn)
            with contextlib.suppress(psycopg.errors.UniqueViolation), conn.transaction():
                for _ in range(2):
                    conn.execute("insert into public.effect select * from public.effect limit 1")

        def go_on() -> None:
            group.drain(make_handler(twice), batch_size=1)

        with contextlib.suppress(psycopg.OperationalError):
            go_on()
        go_on()
        group.assert_all_once(60)

    @pytest.mark.parametrize("batch_size", [1, 4])
    def test_a_unit_that_fails_with_its_savepoint_keeps_the_session(
        self, world: World, group: Group, batch_size: int
    ) -> None:
        """Our ROLLBACK was prepared by the failure before, and psycopg has deallocated all."""
        world.units(*[1] * 20)

        def handle(unit: Unit, conn: Connection[Any]) -> None:
            group.record(unit, conn)
            if unit.first_offset == 15:
                with conn.transaction():
                    raise ValueError("refused")

        group.failing = {2}
        group.drain(make_handler(handle), batch_size=batch_size)
        group.assert_all_once(20)
        assert list(group.letters()) == [2, 15]

    def test_set_local_ends_with_the_step(self, world: World, group: Group) -> None:
        world.units(1)
        before = group.conn.execute("show statement_timeout").fetchone()
        group.drain(make_handler(lambda unit, conn: do("set local statement_timeout = 9000")(conn)))
        assert group.conn.execute("show statement_timeout").fetchone() == before


def left_block(conn: Connection[Any]) -> None:
    KEPT.append(conn.transaction())
    KEPT[-1].__enter__()


def left_stream(conn: Connection[Any]) -> None:
    KEPT.append(conn.cursor().stream("select generate_series(1, 100000)"))
    next(KEPT[-1])


def left_pipeline(conn: Connection[Any]) -> None:
    KEPT.append(conn.pipeline())
    KEPT[-1].__enter__()


def killed(conn: Connection[Any]) -> None:
    with contextlib.suppress(psycopg.Error):
        conn.execute("select pg_terminate_backend(pg_backend_pid())")
    raise ValueError("told in other words")


KEPT: list[Any] = []

# What ruins the session itself. Nothing was committed; the worker ends, and its attempt counts.
RUINS: dict[str, tuple[Misdeed, str]] = {
    "conn.close()": (Connection.close, "the handler closed the connection it was given"),
    "a transaction block left open": (left_block, "left a transaction block open"),
    "a stream left running": (left_stream, "left a command running"),
    "a pipeline left open": (left_pipeline, "left a command running"),
    "its session killed": (killed, "connection was lost while the handler ran"),
}


class TestRuinedSession:
    @pytest.fixture(autouse=True)
    def _forget(self) -> Iterator[None]:
        yield
        KEPT.clear()

    @pytest.mark.parametrize("name", RUINS)
    @pytest.mark.parametrize("failing", [set(), {2}], ids=["fast path", "careful path"])
    def test_nothing_is_committed_and_the_text_is_clear(
        self, world: World, group: Group, name: str, failing: set[int]
    ) -> None:
        misdeed, text = RUINS[name]
        world.units(*[1] * 5)
        group.failing = set(failing)
        ruined = False

        def handle(unit: Unit, conn: Connection[Any]) -> None:
            nonlocal ruined
            group.record(unit, conn)
            if unit.first_offset == 4 and not ruined:
                ruined = True
                misdeed(conn)

        with pytest.raises(psycopg.OperationalError, match=text):
            group.step(make_handler(handle))
        assert group.conn.closed
        assert (group.effects(), group.letters(), group.next_offset()) == ([], {}, 1)
        with connect(world.dsn, role="worker") as group.conn:
            group.drain(make_handler(handle))
            group.assert_all_once(5)
        assert set(group.letters()) == failing

    @pytest.mark.parametrize("name", RUINS)
    def test_again_and_again_it_is_dead_in_the_end(
        self, world: World, group: Group, name: str
    ) -> None:
        """I8: a new session each time, one unit at a time, until its attempts tell the unit."""
        misdeed, _ = RUINS[name]
        world.units(1, 1, 1)

        def handle(unit: Unit, conn: Connection[Any]) -> None:
            group.record(unit, conn)
            if unit.first_offset == 2:
                misdeed(conn)

        group.conn.close()
        for _ in range(4):
            with (
                connect(world.dsn, role="worker") as group.conn,
                contextlib.suppress(psycopg.OperationalError),
            ):
                group.drain(make_handler(handle), alone=True, policy=Policy(crashes_max=3))
        group.assert_all_once(3)
        assert group.letters() == {
            2: "its worker died, or lost its session, 3 times while handling it"
        }
        assert group.calls == [1, 2, 2, 2, 3]


def test_keyboard_interrupt_is_an_error_where_nobody_hears_ctrl_c(
    world: World, group: Group
) -> None:
    """As in a worker, which leaves signals to its supervisor."""
    world.units(1, 1, 1)

    def handle(unit: Unit, conn: Connection[Any]) -> None:
        group.record(unit, conn)
        if unit.first_offset == 2:
            raise KeyboardInterrupt("of its own")

    handler = make_handler(handle)
    handler.habits.interruptible = False
    group.drain(handler)
    group.assert_all_once(3)
    assert list(group.letters()) == [2]


def test_keyboard_interrupt_is_for_the_driver(world: World, group: Group) -> None:
    world.units(1, 1)
    with pytest.raises(KeyboardInterrupt):
        group.step(make_handler(lambda unit, conn: leave(KeyboardInterrupt())(conn)))
    assert (group.effects(), group.letters(), group.next_offset()) == ([], {}, 1)
    group.drain()
    group.assert_all_once(2)
