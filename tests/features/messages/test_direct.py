"""Direct messages: one group handles them, all others pass them; offsets stay dense."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from psycopg import AsyncConnection, Connection

import gapless
from gapless import ops
from gapless.consume.unit import Unit
from gapless.errors import PublishError
from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.sequence import sequence
from gapless.settings import Settings
from gapless.testing import drain
from support.world import Group, Reader, World, make_handler


@pytest.fixture
def other(world: World, group: Group) -> Iterator[Group]:
    """A second group of a topic that takes direct messages."""
    made = world.group()
    assert world.value("select gapless.set_direct(%s)", world.topic.name)
    yield made
    made.conn.close()


def messages(*to: str | None, **fields: Any) -> list[NewEvent]:
    return [NewEvent(payload=n, to_group=each, **fields) for n, each in enumerate(to)]


def handle_all(*groups: Group, batch_size: int = 2) -> None:
    for each in groups:
        while each.step(batch_size=batch_size).outcome == "done":
            pass


@pytest.mark.parametrize("batch_size", [1, 2, 100])
def test_one_group_handles_it_and_all_others_pass_it(
    world: World, group: Group, other: Group, batch_size: int
) -> None:
    for each in messages(group.name, None, other.name, other.name, None, group.name, key="k"):
        world.events([each])
    handle_all(group, other, batch_size=batch_size)
    assert group.effects() == [1, 2, 5, 6]
    assert other.effects() == [2, 3, 4, 5]
    assert group.next_offset() == other.next_offset() == 7


def test_unit_in_part_for_another_is_handled_in_part(
    world: World, group: Group, other: Group
) -> None:
    world.events(messages(None, other.name, group.name, key="k"))
    seen: list[tuple[int, str | None]] = []
    note = make_handler(lambda unit, conn: seen.extend((e.offset, e.to_group) for e in unit))
    group.step(note)
    assert seen == [(1, None), (3, group.name)]


def test_what_was_read_ahead_before_the_topic_took_them(world: World, group: Group) -> None:
    world.units(*[1] * 200, key="k")
    reader = Reader(group, continue_while=False)
    for _ in range(3):
        reader.step(10)
    assert reader.ahead.units, "nothing was read ahead"
    world.value("select gapless.set_direct(%s)", world.topic.name)
    world.events([NewEvent(payload=0, key="k", headers={"gapless-to-group": "nobody"})])
    while reader.step(10).outcome == "done":
        pass
    assert group.effects() == list(range(1, 201))
    assert group.next_offset() == 202


def test_claim_by_the_filter_of_before_is_asked_again(world: World, group: Group) -> None:
    """A filter that was read a moment before the topic took messages looks for none."""
    world.value("select gapless.set_filter(%s, %s, array['*'])", group.name, world.topic.name)
    number = "select filter_no from gapless.consumer_offsets where group_id = %s"
    before = world.value(number, group.name)
    world.value("select gapless.set_direct(%s)", world.topic.name)
    assert world.value(number, group.name) not in (0, -1, before)
    assert not world.value("select gapless.set_direct(%s)", world.topic.name)


def test_groups_and_partitions_that_come_later(world: World, group: Group, other: Group) -> None:
    later = world.group()
    world.value("select gapless.set_partitions(%s, 3)", world.topic.name)
    world.value("select gapless.create_group(%s, %s)", group.name, world.topic.name)
    rows = world.rows("select distinct filter_no from gapless.consumer_offsets")
    assert rows == [(-1,)]
    world.events(messages(other.name))
    handle_all(later)
    assert later.effects() == []
    later.conn.close()


def test_plain_insert_for_a_group_that_is_not_there_is_passed_by_all(
    world: World, group: Group, other: Group
) -> None:
    world.conn.execute(
        "insert into gapless.outbox_message_t (topic_id, payload, headers)"
        """ values (%s, '1', '{"gapless-to-group": "nobody"}')""",
        [world.topic.topic_id],
    )
    sequence(world.conn)
    handle_all(group, other)
    assert (group.effects(), other.effects()) == ([], [])
    assert group.next_offset() == other.next_offset() == 2


def test_python_refuses_and_nothing_was_written(world: World, group: Group, other: Group) -> None:
    for to, says in (("nobody", 'no group "nobody"'), ("", "to_group"), (7, "to_group")):
        with pytest.raises(PublishError, match=says):
            publish(world.conn, world.topic.name, 1, to_group=to)
        with pytest.raises(PublishError, match=says):
            publish(world.conn, world.topic.name, [*messages(None), *messages(to)])  # type: ignore[arg-type]
    assert world.value("select count(*) from gapless.outbox_message_t") == 0


def test_many_at_once_later_once_and_async(world: World, group: Group, other: Group) -> None:
    topic, name = world.topic.name, other.name
    many = [NewEvent(payload=n, to_group=name if n % 2 else None, key="k") for n in range(500)]
    publish(world.conn, topic, many)
    for _ in range(2):
        publish(world.conn, topic, 0, to_group=name, dedupe_key="once", key="k")
    publish(world.conn, topic, 0, to_group=name, deliver_in=0.01, key="k")

    async def say() -> None:
        async with await AsyncConnection.connect(world.dsn) as conn:
            await publish(conn, topic, 0, to_group=name, key="k")

    asyncio.run(say())
    world.value("select pg_sleep(0.02)")
    world.value("select promoted from gapless.promote(10) promoted")
    sequence(world.conn)
    handle_all(group, other, batch_size=100)
    assert len(group.effects()) == 250
    assert len(other.effects()) == 500 + 3


class TestQueues:
    @pytest.fixture
    def queue(self, world: World, group: Group, other: Group) -> str:
        world.value("select gapless.create_group('q', %s, mode => 'queue')", world.topic.name)
        for each in messages("q", group.name, None, group.name, "q", key="k"):
            world.events([each])
        return "q"

    @pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
    def test_worker(self, world: World, queue: str, delivery: Any) -> None:
        seen: list[int] = []

        def note(unit: Unit, *_: Any) -> None:
            seen.extend(event.offset for event in unit)

        def note_alone(unit: Unit) -> None:
            note(unit)

        def note_with(unit: Unit, conn: Connection[Any]) -> None:
            note(unit, conn)

        options: dict[str, Any] = {"mode": "queue", "delivery": delivery, "group": queue}
        function = note_with if delivery == "exactly-once" else note_alone
        drain(world.dsn, make_handler(function, **options))
        assert sorted(seen) == [1, 3, 5]
        assert self.floor(world) == 6

    def test_async_worker(self, world: World, queue: str) -> None:
        seen: list[int] = []

        async def note(unit: Unit) -> None:
            seen.extend(event.offset for event in unit)

        drain(world.dsn, make_handler(note, mode="queue", delivery="at-least-once", group=queue))
        assert sorted(seen) == [1, 3, 5]

    @pytest.mark.parametrize("max_events", [1, 2, 10])
    def test_take(self, world: World, queue: str, max_events: int) -> None:
        seen: list[int] = []
        take = "select c_offset, receipt from gapless.take('q', %s, max_events => %s)"
        while rows := world.rows(take, world.topic.name, max_events):
            for offset, receipt in rows:
                seen.append(offset)
                world.value(
                    "select gapless.acknowledge('q', %s, %s, %s)",
                    world.topic.name, receipt, offset,
                )  # fmt: skip
        assert seen == [1, 3, 5]
        assert self.floor(world) == 6

    @staticmethod
    def floor(world: World) -> int:
        world.rows(
            "select gapless.sweep(p.lease_no) from gapless.queue_places('q', %s) p",
            world.topic.topic_id,
        )
        return int(
            world.value("select next_offset from gapless.consumer_offsets where group_id = 'q'")
        )


def test_replay_takes_those_of_its_handlers_group(world: World, group: Group, other: Group) -> None:
    for each in messages(group.name, None, other.name, key="k"):
        world.events([each])
    seen: list[int] = []
    handler = gapless.handler(topic=world.topic.name, group=other.name)(
        lambda unit, conn: seen.extend(e.offset for e in unit)
    )
    terms = ops.replay_terms(handler, Settings())
    wanted = ops.ReplayRange(topic=world.topic.name)
    ops.try_replay(world.conn, wanted, handler, terms)
    ops.create_replay(world.conn, wanted)
    ops.run_replay(world.conn, wanted.name, handler, terms)
    assert seen == [2, 3, 2, 3]
