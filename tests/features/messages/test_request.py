"""Requests and replies: answered once, by a deadline, and passed by every group."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from time import monotonic, sleep
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import AsyncConnection, Connection

import gapless
from gapless.consume.unit import Unit
from gapless.errors import ReplyError
from gapless.log.sequence import sequence
from support.world import Group, World, make_handler


@pytest.fixture
def other(world: World, group: Group) -> Iterator[Group]:
    made = world.group()
    assert world.value("select gapless.set_direct(%s)", world.topic.name)
    yield made
    made.conn.close()


def answer(unit: Unit, conn: Connection[Any]) -> None:
    for event in unit:
        assert gapless.reply(conn, event, {"twice": event.payload["n"] * 2})


def handled_by(group: Group, asked: Callable[[], Any]) -> Any:
    """Return what asking comes to while the group handles what there is."""
    with ThreadPoolExecutor(1) as pool:
        future: Future[Any] = pool.submit(asked)
        give_up_s = monotonic() + 60
        while not future.done() and monotonic() < give_up_s:
            sequence(group.world.conn)
            group.step(make_handler(answer))
            sleep(0.005)
        return future.result(0)


def ask(world: World, **more: Any) -> Any:
    with psycopg.connect(world.dsn, autocommit=True) as conn:
        return gapless.request(conn, world.topic.name, {"n": 21}, **more)


async def ask_async(world: World, **more: Any) -> Any:
    async with await AsyncConnection.connect(world.dsn, autocommit=True) as conn:
        return await gapless.request(conn, world.topic.name, {"n": 21}, **more)


@pytest.mark.parametrize("is_async", [False, True])
def test_answered_and_the_reply_is_nobodys_event(
    world: World, group: Group, other: Group, is_async: bool
) -> None:
    more = {"to_group": group.name, "timeout_s": 50.0, "headers": {"h": 1}}

    def asked() -> Any:
        return asyncio.run(ask_async(world, **more)) if is_async else ask(world, **more)

    assert handled_by(group, asked) == {"twice": 42}
    sequence(world.conn)
    for each in (group, other):
        while each.step().outcome == "done":
            pass
        assert each.effects() == []
        assert each.next_offset() == 3


def test_nobody_answers_in_time_and_late_replies_are_not_published(
    world: World, group: Group, other: Group
) -> None:
    with pytest.raises(ReplyError, match="in time"):
        ask(world, timeout_s=0.05)
    said: list[bool] = []
    sequence(world.conn)
    group.step(
        make_handler(
            lambda unit, conn: said.extend(gapless.reply(conn, e, {"late": 1}) for e in unit)
        )
    )
    assert said == [False]
    assert world.value("select count(*) from gapless.outbox_message_t") == 1


def test_reply_goes_with_the_transaction_that_handles(
    world: World, group: Group, other: Group
) -> None:
    topic = world.topic.name
    request_id = world.value("select gapless.request(%s, '{\"n\": 1}')", topic)
    sequence(world.conn)
    found = "select count(*) from gapless.wait_reply(%s, %s, '0 s')"

    def refuse(unit: Unit, conn: Connection[Any]) -> None:
        answer(unit, conn)
        raise ValueError("after the reply")

    group.step(make_handler(refuse))
    assert world.value(found, topic, request_id) == 0
    other.step(make_handler(answer))
    assert world.value(found, topic, request_id) == 1
    assert world.value(found, topic, uuid4()) == 0


@pytest.mark.long
def test_no_statement_of_a_waiting_request_takes_long(world: World, other: Group) -> None:
    """A session whose statements end after a second and a half lets it wait for two."""
    with psycopg.connect(world.dsn, autocommit=True) as conn:
        conn.execute("set statement_timeout = '1500ms'")
        with pytest.raises(ReplyError, match="no handler has replied"):
            gapless.request(conn, world.topic.name, 1, timeout_s=2.0)
