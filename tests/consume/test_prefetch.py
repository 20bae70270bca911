"""Events read ahead, and the place of the group's row: hints, which no guard relies on."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from psycopg import ClientCursor, Connection, IsolationLevel

from gapless.consume.read import backlog, claim, units
from gapless.consume.read.backlog import BYTES_MAX, EVENTS_MAX, Backlog
from gapless.consume.session import transaction
from gapless.consume.unit import Unit, UnitRanges
from gapless.db import wire
from gapless.db.connect import connect
from gapless.db.queries import query
from gapless.errors import HoleError
from gapless.lease import hold
from support.plans import pages
from support.world import Group, Reader, World, make_handler

SIZES = [1, 3, 1, 40, 1, 1, 2] * 12
EVENTS = sum(SIZES)


@pytest.fixture
def world(shared_world: World) -> World:
    return shared_world.another_topic()


class Ahead(Reader):
    """One that begins with something read ahead, and drains."""

    def begin(self) -> int:
        """Take the two steps after which some is read ahead; return the next offset."""
        self.step()
        return self.step().next_offset

    def drain(self, batch_size: int = 10, **limits: Any) -> None:
        while self.step(batch_size, **limits).outcome == "done":
            pass


@pytest.fixture
def read(group: Group) -> Ahead:
    return Ahead(group)


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many events were read at a time."""
    sizes: list[int] = []

    def counted(what: Callable[..., Any]) -> Callable[..., Any]:
        def count(having: Any, ids: Any) -> Any:
            sizes.append(len(ids))
            return what(having, ids)

        return count

    monkeypatch.setattr(units, "fetch", counted(units.fetch))
    monkeypatch.setattr(backlog, "fetch", counted(backlog.fetch))
    monkeypatch.setattr(claim, "in_order", counted(claim.in_order))
    return sizes


@pytest.fixture
def trips(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many statements went with each round trip."""
    made: list[int] = []
    exchange = wire._exchange

    def counted(conn: Any, session: Any, calls: Any, *rest: Any, **named: Any) -> Any:
        made.append(len(calls))
        return exchange(conn, session, calls, *rest, **named)

    monkeypatch.setattr(wire, "_exchange", counted)
    return made


@pytest.fixture
def one_batch_a_step(read: Ahead) -> None:
    """What was read ahead is still there after a step."""
    read.continue_while = False


class TestReadAhead:
    @pytest.mark.long
    def test_a_worker_that_is_behind_reads_many_batches_at_once(
        self, world: World, read: Ahead, fetched: list[int]
    ) -> None:
        world.units(*[1] * 3200)
        read.drain(100)
        assert fetched == [100, 1000, EVENTS_MAX, 100]
        read.group.assert_all_once(3200)

    def test_one_that_keeps_up_does_not(
        self, world: World, read: Ahead, fetched: list[int], trips: list[int]
    ) -> None:
        """Nor does it ask for what it has claimed: BEGIN, claim and read; then finish and COMMIT."""
        with transaction(read.group.conn):
            pass  # the first of a session asks for its settings
        for _ in range(3):
            world.units(*[1] * 9)
            trips.clear()
            assert read.step().events == 9
            assert trips == [2, 2]
        assert fetched == [9, 9, 9]

    @pytest.mark.parametrize("batch_size", [1, 2, 7, 50])
    def test_units_stay_whole(self, world: World, read: Ahead, batch_size: int) -> None:
        world.units(*SIZES)
        firsts = [sum(SIZES[:n]) + 1 for n in range(len(SIZES))]
        seen: list[tuple[int, int]] = []
        what = make_handler(lambda unit, _: seen.append((unit.first_offset, len(list(unit)))))
        while (done := read.step(batch_size, what)).outcome == "done":
            assert done.next_offset in {*firsts, EVENTS + 1}
        assert seen == list(zip(firsts, SIZES, strict=True))

    def test_a_unit_that_is_to_be_streamed_is_read_by_itself(
        self, world: World, read: Ahead, fetched: list[int]
    ) -> None:
        world.units(*[1] * 40, 60, 1)
        read.drain(stream_above_events=20)
        assert fetched == [10, 20, 10, 60, 1]
        read.group.assert_all_once(101)

    def test_no_more_than_fits(self) -> None:
        ahead = Backlog()
        row: Any = (1, None, None, b"x" * (BYTES_MAX // 50))
        ahead._gauge([row] * 10, 10, EVENTS_MAX)
        assert ahead.events == 49
        ahead._gauge([row] * 9, 10, EVENTS_MAX)
        assert ahead.events == 0
        ahead._gauge([(1, None, None, None)] * 10, 10, EVENTS_MAX)  # type: ignore[list-item]
        assert ahead.events == EVENTS_MAX

    def test_units_are_given_once(self) -> None:
        ahead = Backlog()
        rows: list[Any] = [(n,) for n in range(10)]
        ahead.keep(UnitRanges(5, list(range(10)), [1, 4, 9, 10]), rows)
        taken = []
        while (batch := ahead.take(4))[0]:
            taken.append((batch[0].first_offset, [*batch[0].ends], [row[0] for row in batch[1]]))
        assert taken == [(5, [1, 4], [0, 1, 2, 3]), (9, [5], [4, 5, 6, 7, 8]), (14, [1], [9])]


class TestOnlyAHint:
    @pytest.fixture(autouse=True)
    def log(self, world: World, one_batch_a_step: None) -> None:
        world.units(*[1] * 200)

    def test_a_former_owner_is_fenced(self, world: World, read: Ahead) -> None:
        """I7, the epoch."""
        before = read.begin()
        with connect(world.dsn, role="worker") as other:
            hold.install(other, read.group.successor(other))
        assert read.step().outcome == "fenced"
        assert read.group.next_offset() == before
        assert len(read.group.effects()) == before - 1

    def test_the_offset_has_moved(self, world: World, read: Ahead) -> None:
        read.begin()
        world.conn.execute(
            "update gapless.consumer_offsets set next_offset = 6 where group_id = %s",
            [read.group.name],
        )
        read.drain()
        assert read.group.effects() == [*range(1, 21), *range(6, 201)]

    def test_a_pause_holds_at_once(self, world: World, read: Ahead) -> None:
        before = read.begin()
        world.conn.execute("select gapless.pause(%s)", [read.group.name])
        assert read.step().outcome == "idle"
        assert read.group.next_offset() == before
        world.conn.execute("select gapless.resume(%s)", [read.group.name])
        read.drain()
        read.group.assert_all_once(200)

    def test_a_unit_that_fails(self, read: Ahead) -> None:
        read.group.failing |= {3, 44, 45, 200}
        read.drain()
        assert set(read.group.letters()) == {3, 44, 45, 200}
        read.group.assert_all_once(200)

    def test_what_was_rolled_back_comes_again(self, read: Ahead) -> None:
        read.begin()

        def lose(_: Unit, conn: Connection[Any]) -> None:
            raise psycopg.errors.SerializationFailure

        with pytest.raises(psycopg.errors.SerializationFailure):
            read.step(what=make_handler(lose))
        read.drain()
        read.group.assert_all_once(200)

    @pytest.mark.parametrize("what", ["event", "segment"])
    def test_up_to_a_hole_it_goes_on(self, world: World, read: Ahead, what: str) -> None:
        world.units(*[1] * 400)
        topic = world.topic.topic_id
        if what == "event":
            gone = (
                "delete from gapless.outbox_message_t where topic_id = %s and id = ("
                "select message_ids[5] from gapless.log_segment where topic_id = %s and base_offset = 201)"
            )
            world.conn.execute(gone, [topic, topic])
        else:
            gone = "delete from gapless.log_segment where topic_id = %s and base_offset = 201"
            world.conn.execute(gone, [topic])
        with pytest.raises(HoleError):
            read.drain()
        end = 205 if what == "event" else 201
        assert read.group.next_offset() == end
        assert read.group.effects() == list(range(1, end))

    @pytest.mark.parametrize("place", ["(0,1)", "(0,2)", "(7,7)", None])
    def test_a_place_where_something_else_is(
        self, world: World, read: Ahead, place: str | None
    ) -> None:
        others = world.group()
        for batch_size in (5, 10, 10, 10):
            read.ahead.place = place
            assert read.step(batch_size).events == batch_size
        assert others.next_offset() == 1
        read.drain()
        read.group.assert_all_once(200)
        others.conn.close()


@contextmanager
def held_snapshot(dsn: str) -> Iterator[None]:
    with psycopg.connect(dsn) as conn:
        conn.isolation_level = IsolationLevel.REPEATABLE_READ
        conn.execute("select count(*) from gapless.topic")
        yield


@pytest.mark.long
@pytest.mark.parametrize("name", ["claim", "claim_events", "claim_ahead"])
@pytest.mark.usefixtures("one_batch_a_step")
def test_claims_stay_flat_while_a_snapshot_is_held(world: World, read: Ahead, name: str) -> None:
    """Counted in pages, those of a claim whose COMMIT is next."""
    world.units(*[1] * 2000)
    group, conn, ahead = read.group, read.group.conn, read.ahead
    literal = ClientCursor(conn)

    def touched() -> int:
        first = group.next_offset()
        hints = {
            "place": ahead.place,
            "batch_size": 1,
            "read_ahead": 0,
            "events_max": 1,
            "group_by": "transaction",
        }
        params = {**group.assignment.params, **hints, "first_offset": first, "last_offset": first}
        with conn.transaction(force_rollback=True):
            return pages(conn, literal.mogrify(query("consume", name), params))  # type: ignore[arg-type]

    def take(batches: int) -> None:
        for _ in range(batches):
            read.step(1, noop)

    noop = make_handler(lambda unit, conn: None)
    with held_snapshot(world.dsn):
        take(100)
        at_first = touched()
        take(1500)
        assert touched() <= at_first * 1.5
