"""Async handlers: awaited in the loop of the process, exactly once on the step's own session."""

import asyncio
import functools
import os
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
import pytest
from psycopg import AsyncConnection, Connection

import gapless
from gapless import testing
from gapless.consume.batch import Batch
from gapless.consume.unit import Unit
from gapless.consume.user.handler import Handler, handler
from support.world import Group, World, make_handler

INSERT = "insert into effect (group_id, c_offset, unit_first) values ('g', %s, %s)"


async def effect(unit: Unit, conn: AsyncConnection[Any]) -> None:
    for event in unit:
        await conn.execute(INSERT, (event.offset, unit.first_offset))


def effects(world: World) -> list[int]:
    rows = world.conn.execute("select c_offset from effect order by n").fetchall()
    return [row[0] for row in rows]


def letters(world: World) -> list[str]:
    rows = world.conn.execute("select distinct reason from gapless.dead_letter").fetchall()
    return [row[0] for row in rows]


class TestExactlyOnce:
    def test_what_it_writes_commits_with_the_offset(self, world: World, group: Group) -> None:
        world.units(*[1] * 3)
        xids: list[str] = []

        @handler(topic="any")
        async def handle(unit: Unit, conn: AsyncConnection[Any]) -> None:
            await effect(unit, conn)
            row = await (await conn.execute("select pg_current_xact_id()::text")).fetchone()
            assert row is not None
            xids.append(row[0])
            assert conn.info.backend_pid == group.conn.info.backend_pid

        group.drain(handle)
        assert effects(world) == [1, 2, 3]
        assert group.next_offset() == 4
        written = world.conn.execute("select distinct top_xid from effect").fetchall()
        assert written == [(xids[0],)]  # one transaction for the batch, the step's

    def test_one_that_raises_is_set_aside_and_its_neighbours_commit(
        self, world: World, group: Group
    ) -> None:
        world.units(*[1] * 3)

        @handler(topic="any")
        async def handle(unit: Unit, conn: AsyncConnection[Any]) -> None:
            await effect(unit, conn)
            await asyncio.sleep(0)
            if unit.first_offset == 2:
                raise ValueError("not this one")

        group.drain(handle)
        assert effects(world) == [1, 3]
        assert letters(world) == ["ValueError: not this one"]

    @pytest.mark.parametrize("ends", ["commit", "rollback"])
    def test_it_must_not_end_the_transaction(self, world: World, group: Group, ends: str) -> None:
        world.units(*[1] * 2)

        @handler(topic="any")
        async def handle(unit: Unit, conn: AsyncConnection[Any]) -> None:
            await effect(unit, conn)
            if unit.first_offset == 1:
                await getattr(conn, ends)()

        group.drain(handle)
        assert effects(world) == [2]
        assert len(letters(world)) == 1

    def test_batches(self, world: World, group: Group) -> None:
        world.units(*[1] * 3)
        seen: list[int] = []

        @handler(topic="any", batch=True)
        async def handle(batch: Batch, conn: AsyncConnection[Any]) -> None:
            seen.append(len(batch))
            for unit in batch:
                await effect(unit, conn)

        group.drain(handle)
        assert (seen, effects(world)) == ([3], [1, 2, 3])

    def test_savepoints_and_pipelines_are_its_own(self, world: World, group: Group) -> None:
        world.units(*[1] * 2)

        @handler(topic="any")
        async def handle(unit: Unit, conn: AsyncConnection[Any]) -> None:
            with pytest.raises(ZeroDivisionError):
                async with conn.transaction():
                    await conn.execute(INSERT, (99, 99))
                    raise ZeroDivisionError
            async with conn.pipeline(), conn.transaction():
                await effect(unit, conn)

        group.drain(handle)
        assert effects(world) == [1, 2]

    def test_it_publishes_for_its_unit(self, world: World, group: Group) -> None:
        world.units(*[1] * 1)

        @handler(topic="any")
        async def handle(unit: Unit, conn: AsyncConnection[Any]) -> None:
            await gapless.publish(conn, world.topic.name, {"next": 1}, event_type="followed")

        group.step(handle)
        rows = world.conn.execute(
            "select cause from gapless.outbox_message_t where event_type = 'followed'"
        ).fetchall()
        assert rows == [(f"{group.name}/{world.topic.name}/0@1",)]

    @pytest.mark.long
    def test_statements_it_prepares_do_not_clash_with_the_connections(
        self, world: World, group: Group
    ) -> None:
        world.units(*[1] * 30)

        @handler(topic="any")
        async def handle(unit: Unit, conn: AsyncConnection[Any]) -> None:
            for n in range(3):
                await conn.execute(f"select {n}::int + %s", (n,), prepare=True)
            await effect(unit, conn)

        group.conn.execute("select 7 + %s", (1,), prepare=True)
        group.drain(handle)
        group.conn.execute("select 8 + %s", (1,), prepare=True)
        assert len(effects(world)) == 30
        assert letters(world) == []


class TestWhatItLeaves:
    def test_a_task_it_did_not_await_cannot_write_for_the_next_unit(
        self, world: World, group: Group
    ) -> None:
        world.units(*[1] * 2)
        left: list[asyncio.Task[Any]] = []

        async def later(conn: AsyncConnection[Any], cursor: Any, at: asyncio.Event) -> None:
            await at.wait()
            for write in (conn.execute, cursor.execute):
                with pytest.raises(psycopg.OperationalError):
                    await write(INSERT, (99, 99))

        go = asyncio.Event()

        @handler(topic="any")
        async def handle(unit: Unit, conn: AsyncConnection[Any]) -> None:
            await effect(unit, conn)
            if unit.first_offset == 1:
                left.append(asyncio.ensure_future(later(conn, conn.cursor(), go)))
            else:
                go.set()
                await left[0]

        group.drain(handle)
        assert effects(world) == [1, 2]
        assert letters(world) == []

    def test_a_statement_under_way_costs_the_session(self, world: World, group: Group) -> None:
        world.units(*[1] * 1)

        @handler(topic="any")
        async def handle(unit: Unit, conn: AsyncConnection[Any]) -> None:
            left.append(asyncio.ensure_future(conn.execute("select pg_sleep(0.2)")))
            await asyncio.sleep(0.05)

        left: list[Any] = []
        with pytest.raises(psycopg.OperationalError, match="left a command running"):
            group.step(handle)
        assert effects(world) == []

    def test_a_block_left_open_costs_the_session(self, world: World, group: Group) -> None:
        world.units(*[1] * 1)

        @handler(topic="any")
        async def handle(unit: Unit, conn: AsyncConnection[Any]) -> None:
            kept.append(conn.transaction())
            await kept[0].__aenter__()
            await effect(unit, conn)

        kept: list[Any] = []
        with pytest.raises(psycopg.OperationalError, match="block open"):
            group.step(handle)
        assert effects(world) == []

    def test_the_worker_still_hears(self, world: World, group: Group) -> None:
        heard: list[str] = []
        group.conn.add_notify_handler(lambda notify: heard.append(notify.payload))
        group.conn.execute("listen async_test")
        world.units(*[1] * 1)
        group.drain(make_handler(effect))
        world.conn.execute("notify async_test, 'x'")
        group.conn.execute("select 1")
        assert heard == ["x"]


@pytest.mark.long
@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, asyncio.CancelledError])
def test_whatever_it_raises_is_its_units_and_the_loop_goes_on(
    world: World, group: Group, error: type[BaseException]
) -> None:
    world.units(*[1] * 2)

    @handler(topic="any")
    async def handle(unit: Unit, conn: AsyncConnection[Any]) -> None:
        await effect(unit, conn)
        if unit.first_offset == 1:
            raise error

    handle.habits.interruptible = False  # as in a worker
    group.drain(handle)
    assert effects(world) == [2]


@pytest.mark.long
def test_all_calls_run_in_one_loop_that_goes_on_between_them(world: World, group: Group) -> None:
    world.units(*[1] * 1)
    loops: set[int] = set()
    ticks: list[int] = []
    tasks: list[Any] = []

    async def tick() -> None:
        while True:
            ticks.append(1)
            await asyncio.sleep(0.01)

    @handler(topic="any")
    async def handle(unit: Unit, conn: AsyncConnection[Any]) -> None:
        loops.add(id(asyncio.get_running_loop()))
        if not tasks:
            tasks.append(asyncio.ensure_future(tick()))

    group.drain(handle)
    before = len(ticks)
    threading.Event().wait(0.3)
    assert len(ticks) > before, "the loop stood still between two calls"
    world.units(*[1] * 1)
    group.drain(handle)
    assert len(loops) == 1
    tasks[0].get_loop().call_soon_threadsafe(tasks[0].cancel)


def test_a_large_unit_is_read_through_the_session(world: World, group: Group) -> None:
    world.units(5)
    seen: list[int] = []

    @handler(topic="any")
    async def handle(unit: Unit, conn: AsyncConnection[Any]) -> None:
        seen.extend(event.offset for event in unit)
        running = asyncio.ensure_future(conn.execute("select pg_sleep(0.1)"))
        await asyncio.sleep(0.02)
        with pytest.raises(RuntimeError, match="await what runs on it"):
            list(unit)
        await running

    group.drain(handle, stream_above_events=2)
    assert seen == [1, 2, 3, 4, 5]
    assert letters(world) == []


def decorated(function: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    @functools.wraps(function)
    def plain(*given: Any) -> Awaitable[Any]:
        return function(*given)

    return plain


class Object:
    async def __call__(self, unit: Unit, conn: AsyncConnection[Any]) -> None:
        await effect(unit, conn)


@pytest.mark.parametrize(
    "function",
    [functools.partial(effect), decorated(effect), Object()],
    ids=["partial", "decorated", "object"],
)
def test_whatever_is_to_be_awaited_is(world: World, group: Group, function: Any) -> None:
    world.units(*[1] * 1)
    group.drain(make_handler(function))
    assert effects(world) == [1]


class TestAtLeastOnce:
    @pytest.mark.long
    def test_calls_are_tasks_and_go_on_at_the_same_time(self, dsn: str, conn: Connection) -> None:
        testing.install(dsn, topics={"t": 1})
        for n in range(40):
            gapless.publish(conn, "t", n, key=str(n))
        threads: set[str] = set()
        most: list[int] = []
        running: set[int] = set()
        full = asyncio.Event()

        @handler(topic="t", delivery="at-least-once", concurrency=20)
        async def call(unit: Unit) -> None:
            threads.add(threading.current_thread().name)
            running.add(unit.first_offset)
            most.append(len(running))
            if len(running) == 20:
                full.set()
            await asyncio.wait_for(full.wait(), 20)
            running.discard(unit.first_offset)

        assert testing.drain(dsn, call).units == 40
        assert threads == {"gapless-loop"}
        assert max(most) == 20

    @pytest.mark.long
    def test_a_failure_is_its_units(self, dsn: str, conn: Connection) -> None:
        testing.install(dsn, topics={"t": 1})
        for n in range(3):
            gapless.publish(conn, "t", n, key=str(n))

        @handler(topic="t", delivery="at-least-once", concurrency=3, on_failure="dead-letter")
        async def call(unit: Unit) -> None:
            await asyncio.sleep(0)
            if unit.first_offset == 2:
                raise SystemExit(3)

        done = testing.drain(dsn, call)
        assert (done.units, done.dead) == (3, 1)

    def test_who_lost_the_partition_cancels_its_calls(self, dsn: str, conn: Connection) -> None:
        ended: list[str] = []

        async def call(unit: Unit) -> None:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                ended.append("cancelled")
                raise

        from gapless.consume.outside.calls import Calls

        made = handler(topic="t", delivery="at-least-once")(call)
        calls = Calls(made, 1, lambda: None)
        calls.begin(testing.make_unit([1]), conn)
        threading.Event().wait(0.1)
        calls.abandon()
        for _ in range(100):
            if ended:
                break
            threading.Event().wait(0.02)
        assert ended == ["cancelled"]


@pytest.mark.long
def test_drain_async_leaves_the_callers_loop_alone(dsn: str, conn: Connection) -> None:
    testing.install(dsn, topics={"t": 1})
    gapless.publish(conn, "t", 1)
    loops: set[int] = set()

    @handler(topic="t")
    async def handle(unit: Unit, conn: AsyncConnection[Any]) -> None:
        loops.add(id(asyncio.get_running_loop()))
        await asyncio.sleep(0.1)

    async def run() -> int:
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0.01)

        counting = asyncio.ensure_future(count())
        assert (await testing.drain_async(dsn, handle)).events == 1
        counting.cancel()
        loops.add(id(asyncio.get_running_loop()))
        return turns

    assert asyncio.run(run()) > 1
    assert len(loops) == 2


def test_by_hand_it_is_awaited_with_an_async_connection(dsn: str, conn: Connection) -> None:
    testing.install(dsn, topics={"t": 1})

    @handler(topic="t")
    async def handle(unit: Unit, conn: AsyncConnection[Any]) -> str:
        row = await (await conn.execute("select 'x'")).fetchone()
        assert row is not None
        return str(row[0])

    async def run() -> Any:
        async with await AsyncConnection.connect(dsn) as mine:
            return await handle(testing.make_unit([1]), mine)

    assert asyncio.run(run()) == "x"
    assert isinstance(handle, Handler)


def test_a_forked_child_has_a_loop_of_its_own() -> None:
    from gapless import loops

    async def work() -> int:
        return os.getpid()

    assert loops.run(work) == os.getpid()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, str(loops.run(work)).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 20) == str(child).encode()
    os.close(reading)
    os.close(writing)
