"""I10: what a handler publishes is a unit of its own, whatever batch its cause was handled in."""

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import Connection

import gapless
import gapless.testing
from gapless.consume.batch import Batch
from gapless.consume.drive import Driver
from gapless.consume.unit import Unit
from gapless.consume.user.handler import Handler
from gapless.log.cause import Cause
from gapless.log.event import Event, NewEvent
from gapless.log.publish import publish
from gapless.log.sequence import sequence
from gapless.log.topics import ensure_topic
from support.redrive import redrive
from support.turn import turn
from support.world import Group, Reader, World, make_handler

BATCH_SIZES = [1, 3, 10, 100]
_names = count(1)


@pytest.fixture
def world(shared_world: World) -> World:
    return shared_world.another_topic()


@pytest.fixture
def below(world: World) -> World:
    """The topic that handlers publish into, one partition."""
    name = f"below-{next(_names)}"
    return World(world.dsn, world.conn, ensure_topic(world.conn, name, partitions=1))


@pytest.fixture
def orders(world: World) -> None:
    """Nine units, of one or two events."""
    world.units(*[1, 2, 1] * 3)


def units_of(world: World) -> list[list[Event]]:
    """What a group of the topic would be handed, unit by unit."""
    sequence(world.conn)
    seen: list[list[Event]] = []
    group = world.group()
    with group.conn:
        group.drain(make_handler(lambda unit, conn: seen.append(list(unit))))
    return seen


def by_cause(world: World) -> list[tuple[int, list[Any]]]:
    """Of each unit: the offset it came of, and its payloads."""
    found = []
    for unit in units_of(world):
        causes = {event.cause for event in unit}
        assert len(causes) == 1
        (cause,) = causes
        assert cause is not None
        found.append((cause.offset, [event.payload for event in unit]))
    return found


def in_python(topic: str, n: int, conn: Connection[Any]) -> None:
    publish(conn, topic, {"n": n})


def some_in_python(topic: str, n: int, conn: Connection[Any]) -> None:
    publish(conn, topic, [NewEvent(payload={"n": n}), NewEvent(payload={"n": n}, key="k")])


def many_in_python(topic: str, n: int, conn: Connection[Any]) -> None:
    publish(conn, topic, [NewEvent(payload={"n": n})] * 250)


def by_function(topic: str, n: int, conn: Connection[Any]) -> None:
    conn.execute("select gapless.publish(%s, json_build_object('n', %s::int))", [topic, n])


def by_insert(topic: str, n: int, conn: Connection[Any]) -> None:
    conn.execute(
        "insert into gapless.outbox_message_t (topic_id, payload)"
        " select gapless.topic_id(%s), json_build_object('n', %s::int) from generate_series(1, 2)",
        [topic, n],
    )


def by_copy(topic: str, n: int, conn: Connection[Any]) -> None:
    (topic_id,) = conn.execute("select gapless.topic_id(%s)", [topic]).fetchone() or (0,)
    with conn.cursor().copy("copy gapless.outbox_message_t (topic_id, payload) from stdin") as copy:
        copy.write_row((topic_id, f'{{"n": {n}}}'))


def by_both(topic: str, n: int, conn: Connection[Any]) -> None:
    in_python(topic, n, conn)
    by_insert(topic, n, conn)
    in_python(topic, n, conn)


def under_a_savepoint(topic: str, n: int, conn: Connection[Any]) -> None:
    with conn.transaction(force_rollback=True):
        by_insert(topic, -n, conn)
    with conn.transaction():
        in_python(topic, n, conn)


TRIGGER = """
create table public.paid (topic text, n int);
create function public.tell_of_it() returns trigger language plpgsql as $$
begin
  perform gapless.publish(new.topic, json_build_object('n', new.n));
  return null;
end
$$;
create {} trigger tell after insert on public.paid {} for each row execute function tell_of_it();
"""


@pytest.fixture
def trigger(world: World) -> Iterator[Callable[..., None]]:
    """A table whose trigger publishes; how it is written to."""

    def write(topic: str, n: int, conn: Connection[Any]) -> None:
        conn.execute("insert into public.paid values (%s, %s)", [topic, n])

    world.conn.execute(TRIGGER.format("", ""))
    yield write
    world.conn.execute("drop table public.paid; drop function public.tell_of_it")


@pytest.fixture
def deferred(world: World) -> Iterator[Callable[..., None]]:
    """The same, but it publishes at COMMIT."""

    def write(topic: str, n: int, conn: Connection[Any]) -> None:
        conn.execute("insert into public.paid values (%s, %s)", [topic, n])

    world.conn.execute(TRIGGER.format("constraint", "deferrable initially deferred"))
    yield write
    world.conn.execute("drop table public.paid; drop function public.tell_of_it")


WAYS = [
    in_python, some_in_python, many_in_python, by_function, by_insert, by_copy, by_both,
    under_a_savepoint, "trigger", "deferred",
]  # fmt: skip


@pytest.fixture(params=WAYS, ids=lambda way: getattr(way, "__name__", way))
def way(request: pytest.FixtureRequest) -> Callable[..., None]:
    """How a handler publishes."""
    if isinstance(request.param, str):
        made: Callable[..., None] = request.getfixturevalue(request.param)
        return made
    return request.param  # type: ignore[no-any-return]


def relay(group: Group, below: World, way: Callable[..., None], **options: Any) -> Handler:
    """A handler that publishes for each unit, and refuses those that are `failing`."""

    def handle(unit: Unit, conn: Connection[Any]) -> None:
        group.effect(unit, conn)
        way(below.topic.name, unit.first_offset, conn)
        group.refuse(unit)

    return make_handler(handle, **options)


FIRSTS = [1, 2, 4, 5, 6, 8, 9, 10, 12]


@pytest.mark.usefixtures("orders")
class TestUnits:
    @pytest.mark.few(6)
    @pytest.mark.parametrize("batch_size", BATCH_SIZES)
    def test_each_is_a_unit_of_its_own(
        self, group: Group, below: World, way: Callable[..., None], batch_size: int
    ) -> None:
        group.drain(relay(group, below, way), batch_size=batch_size)
        group.assert_all_once(12)
        found = by_cause(below)
        assert [first for first, _ in found] == FIRSTS
        assert all(payload == {"n": first} for first, unit in found for payload in unit)

    @pytest.mark.few(3)
    def test_behind_with_units_read_ahead(
        self, world: World, group: Group, below: World, way: Callable[..., None]
    ) -> None:
        world.units(*[1] * 60)
        reader = Reader(group)
        handler = relay(group, below, way)
        while reader.step(4, handler).outcome == "done":
            pass
        group.assert_all_once(72)
        assert [first for first, _ in by_cause(below)] == [*FIRSTS, *range(13, 73)]

    @pytest.mark.few(6)
    @pytest.mark.parametrize("failing", [{2}, {1, 12}, {4, 5, 6, 8}, set(FIRSTS)], ids=str)
    def test_beside_units_that_fail(
        self, group: Group, below: World, way: Callable[..., None], failing: set[int]
    ) -> None:
        group.failing = failing
        group.drain(relay(group, below, way))
        group.assert_all_once(12)
        assert [first for first, _ in by_cause(below)] == [
            first for first in FIRSTS if first not in failing
        ]

    @pytest.mark.few(3)
    def test_when_it_is_handled_again(
        self, world: World, group: Group, below: World, way: Callable[..., None]
    ) -> None:
        group.failing = {2, 6}
        handler = relay(group, below, way)
        group.drive(handler)
        assert set(group.states()) == {2, 6}
        group.failing = set()
        for first in (2, 6):
            redrive(world, group, first)
        group.drive(relay(group, below, way))  # another handler: nothing was learned of it
        assert group.effects() == [1, 4, 5, 8, 9, 10, 11, 12, 2, 3, 6, 7]
        assert [first for first, _ in by_cause(below)] == [1, 4, 5, 8, 9, 10, 12, 2, 6]

    @pytest.mark.parametrize("failing", [set(), {4}], ids=str)
    def test_at_commit_for_merged_units(
        self,
        world: World,
        group: Group,
        below: World,
        deferred: Callable[..., None],
        failing: set[int],
    ) -> None:
        """groupBy user: what is one unit to the handler is several in the log."""
        world.units(1, 1, 1, user_id="a", key="k")
        world.units(1, 1, user_id="b", key="k")
        world.units(1, 1, user_id="a", key="k")
        group.drain_to(13)
        group.failing = {offset + 12 for offset in failing}
        group.drain(relay(group, below, deferred, group_by="user"))
        expected = [13, 16, 18] if not failing else [13, 18]
        assert [first for first, _ in by_cause(below)] == expected

    def test_a_handler_that_publishes_nothing_is_told_nothing(self, group: Group) -> None:
        handler = group.handler
        group.drain(handler)
        assert not handler.habits.publishes

    def test_what_is_learned_costs_one_more_call_a_unit_once(
        self, world: World, group: Group, below: World
    ) -> None:
        calls: list[int] = []

        def handle(unit: Unit, conn: Connection[Any]) -> None:
            calls.append(unit.first_offset)
            by_insert(below.topic.name, unit.first_offset, conn)

        handler = make_handler(handle)
        group.drain(handler)
        assert calls == FIRSTS * 2
        world.units(1, 1)
        calls.clear()
        group.drain(handler)
        assert calls == [13, 14]

    def test_who_empties_the_setting_dies_of_it_and_nobody_else(
        self, group: Group, below: World
    ) -> None:
        def handle(unit: Unit, conn: Connection[Any]) -> None:
            if unit.first_offset == 4:
                conn.execute("set local gapless.cause = ''")
            by_insert(below.topic.name, unit.first_offset, conn)
            group.effect(unit, conn)

        group.drain(make_handler(handle))
        group.assert_all_once(12)
        assert set(group.letters()) == {4}
        assert "gapless.cause is empty" in group.letters()[4]


@pytest.mark.usefixtures("orders")
class TestWhatIsKnown:
    @pytest.mark.few(3)
    def test_the_cause_and_the_correlation(
        self, world: World, group: Group, below: World, way: Callable[..., None]
    ) -> None:
        roots = {unit[0].transaction_id for unit in units_of(world)}
        group.drain(relay(group, below, way))
        for unit in units_of(below):
            assert unit[0].cause == Cause(group.name, world.topic.name, 0, unit[0].payload["n"])
            assert {event.correlation for event in unit} <= roots
            assert len({(event.transaction_id, event.cause) for event in unit}) == 1

    def test_the_correlation_is_handed_on(self, world: World, group: Group, below: World) -> None:
        group.drain(relay(group, below, in_python))
        last = World(
            world.dsn, world.conn, ensure_topic(world.conn, f"{below.topic.name}-x", partitions=1)
        )
        sequence(world.conn)
        middle = below.group()
        with middle.conn:
            middle.drain(relay(middle, last, by_insert))
        roots = [unit[0].transaction_id for unit in units_of(world)]
        ends = units_of(last)
        assert [unit[0].correlation for unit in ends] == roots
        assert {unit[0].cause.group for unit in ends if unit[0].cause} == {middle.name}

    def test_the_transaction_id_is_the_same_at_every_attempt(
        self, group: Group, below: World
    ) -> None:
        given: dict[int, set[UUID]] = {}

        def handle(unit: Unit, conn: Connection[Any]) -> None:
            id_ = publish(conn, below.topic.name, {"n": unit.first_offset})
            given.setdefault(unit.first_offset, set()).add(id_)
            group.refuse(unit)

        group.failing = {6}
        group.drain(make_handler(handle))
        assert all(len(ids) == 1 for ids in given.values())
        assert len(set.union(*given.values())) == len(FIRSTS)
        found = {unit[0].payload["n"]: unit[0].transaction_id for unit in units_of(below)}
        assert {n: {id_} for n, id_ in found.items()} == {n: given[n] for n in found}

    def test_an_explicit_transaction_id_is_kept_and_does_not_join_units(
        self, group: Group, below: World
    ) -> None:
        own = uuid4()

        def handle(unit: Unit, conn: Connection[Any]) -> None:
            publish(conn, below.topic.name, {"n": 0}, transaction_id=own)

        group.drain(make_handler(handle))
        found = units_of(below)
        assert [len(unit) for unit in found] == [1] * 9
        assert {unit[0].transaction_id for unit in found} == {own}

    def test_outside_of_handlers_there_is_none(self, world: World) -> None:
        for unit in units_of(world):
            assert unit[0].cause is None
            assert unit[0].correlation == unit[0].transaction_id

    @pytest.mark.parametrize(
        "text", ["", "x", "a/b@1", "a/b/x@1", "a/b/1@", "a/b/1@1~x", "\n/\n/1@2"]
    )
    def test_a_cause_that_says_nothing(self, world: World, below: World, text: str) -> None:
        with world.conn.transaction():
            world.conn.execute("select set_config('gapless.cause', %s, true)", [text])
            publish(world.conn, below.topic.name, {})
        ((event,),) = units_of(below)
        assert event.cause is None


@pytest.mark.usefixtures("orders")
class TestBatchHandlers:
    def drained(self, group: Group, take: Callable[..., object], **said: Any) -> None:
        group.drain(make_handler(take, batch=True), **said)
        assert group.next_offset() == 13

    @pytest.mark.parametrize("batch_size", BATCH_SIZES)
    def test_a_loop_over_units_tells(self, group: Group, below: World, batch_size: int) -> None:
        def take(batch: Batch, conn: Connection[Any]) -> None:
            for unit in batch:
                in_python(below.topic.name, unit.first_offset, conn)

        self.drained(group, take, batch_size=batch_size)
        assert [(first, unit[0]["n"]) for first, unit in by_cause(below)] == [
            (first, first) for first in FIRSTS
        ]

    @pytest.mark.parametrize("batch_size", BATCH_SIZES)
    def test_a_loop_over_events_tells(self, group: Group, below: World, batch_size: int) -> None:
        def take(batch: Batch, conn: Connection[Any]) -> None:
            for event in batch.events:
                in_python(below.topic.name, event.offset, conn)

        self.drained(group, take, batch_size=batch_size)
        assert [first for first, _ in by_cause(below)] == FIRSTS

    @pytest.mark.parametrize("batch_size", BATCH_SIZES)
    def test_one_may_say_it(self, group: Group, below: World, batch_size: int) -> None:
        def take(batch: Batch, conn: Connection[Any]) -> None:
            units = sorted(batch, key=lambda unit: -unit.first_offset)
            for unit in units:
                publish(conn, below.topic.name, {"n": unit.first_offset}, cause=unit)

        self.drained(group, take, batch_size=batch_size)
        assert sorted(first for first, _ in by_cause(below)) == FIRSTS

    @pytest.mark.parametrize(
        "way", [in_python, by_insert, many_in_python, "deferred"], indirect=True
    )
    def test_else_it_is_the_batchs(
        self, group: Group, below: World, way: Callable[..., None]
    ) -> None:
        def take(batch: Batch, conn: Connection[Any]) -> None:
            way(below.topic.name, len(list(batch)), conn)

        self.drained(group, take)
        ((event, *_),) = units_of(below)
        assert event.cause is not None
        assert event.cause.offset == 1
        assert event.payload == {"n": 9}


def test_at_least_once(world: World, group: Group, below: World) -> None:
    """Each call has its own transaction; publish() knows the unit all the same, on any thread."""
    world.units(*[1] * 12)
    conn = psycopg.connect(world.dsn, autocommit=True)

    def send(unit: Unit) -> None:
        in_python(below.topic.name, unit.first_offset, conn)

    with conn:
        handler = make_handler(send, delivery="at-least-once", concurrency=4)
        driver = Driver(turn(group.conn, group.assignment, handler))
        while driver.turn().outcome == "done" or driver.going_on:
            pass
        assert sorted(first for first, _ in by_cause(below)) == list(range(1, 13))


def test_two_partitions_and_two_topics(world: World, group: Group, below: World) -> None:
    wide = ensure_topic(world.conn, f"{below.topic.name}-wide", partitions=4)
    world.units(*[1] * 6)

    def handle(unit: Unit, conn: Connection[Any]) -> None:
        for key in "abcdef":
            publish(conn, wide.name, {"of": unit.first_offset}, key=key)
        publish(conn, below.topic.name, {"of": unit.first_offset})

    group.drain(make_handler(handle))
    assert [first for first, _ in by_cause(below)] == list(range(1, 7))
    sequence(world.conn)
    for partition_id in range(4):
        reader = World(world.dsn, world.conn, wide).group(partition_id)
        seen: list[list[int]] = []
        with reader.conn:
            reader.drain(
                make_handler(lambda unit, conn, to=seen: to.append([e.payload["of"] for e in unit]))
            )
        assert [unit[0] for unit in seen] == ([*range(1, 7)] if seen else [])
        assert all(len(set(unit)) == 1 for unit in seen)


@pytest.mark.invariant("I10")
@pytest.mark.parametrize("batch_size", [1, 100])
def test_three_orders_are_refused_by_themselves(
    dsn: str, conn: Connection[Any], batch_size: int
) -> None:
    """The stock is 5, each takes 2: two are served, whatever the batch size upstream."""
    conn.execute("create table stock (qty int check (qty >= 0)); insert into stock values (5)")
    gapless.testing.install(dsn, topics={"orders": 1, "payments": 1})

    @gapless.handler(topic="orders", group="pay", batch_size=batch_size)
    def pay(unit: Unit, conn: Connection[Any]) -> None:
        for event in unit:
            gapless.publish(conn, "payments", event.payload)

    @gapless.handler(topic="payments", group="reserve")
    def reserve(unit: Unit, conn: Connection[Any]) -> None:
        for event in unit:
            conn.execute("update stock set qty = qty - %s", [event.payload["qty"]])

    for _ in range(3):
        gapless.publish(conn, "orders", {"qty": 2})
    gapless.testing.drain(dsn, pay)
    done = gapless.testing.drain(dsn, reserve)
    assert (done.units, done.dead) == (3, 1)
    assert conn.execute("select qty from stock").fetchone() == (1,)
