"""The savepoint fallback: failing units go to the dead letter queue whole, others stay (I5, I9)."""

import json
from time import sleep
from typing import Any, Literal
from uuid import uuid4

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import Connection

import gapless
from gapless import handler, testing
from gapless.consume.unit import Unit
from gapless.log.event import NewEvent
from gapless.settings import Settings
from support.examples import examples
from support.world import Group, World, make_handler

UNITS_PER_COMMIT = Settings().max_units_per_savepoint_batch
MOST_SUBTRANSACTIONS = """
select max(n) from (
  select count(distinct e.xmin::text) as n from effect e
  where e.group_id = %s and e.xmin::text <> (e.top_xid::bigint %% (1::bigint << 32))::text
  group by e.top_xid
) as per_commit
"""


@pytest.fixture
def world(shared_world: World) -> World:
    return shared_world.another_topic()


@pytest.mark.invariant("I9")
class TestLetter:
    def test_a_unit_is_dead_as_a_whole(self, world: World, group: Group) -> None:
        """All its events, with all that is needed to try again by hand; its effects are gone."""
        id_ = uuid4()
        world.units(1)
        payloads = ['{"n" : 1,  "x": "\\u0000"}', '{"n":2}']
        world.events(
            NewEvent(
                payload=payload.encode(),
                transaction_id=id_,
                key="k",
                event_type="order.paid",
                headers={"trace": "t1"},
                host_id="h",
                user_id="u",
            )
            for payload in payloads
        )
        world.units(1)
        group.failing = {2}
        done = group.step()
        assert (done.events, done.units, done.dead, done.next_offset) == (4, 3, 1, 5)
        assert group.effects() == [1, 4]
        letters = world.rows(
            "select c_offset, partition_id, topic_id, payload::text, headers, key, host_id,"
            " user_id, transaction_id, event_type, attempts, status, sqlstate"
            " from gapless.dead_letter_queue where group_id = %s order by c_offset",
            group.name,
        )
        same = ({"trace": "t1"}, "k", "h", "u", id_, "order.paid", 1, "dead", None)
        assert letters == [
            (n, 0, world.topic.topic_id, payload, *same)
            for n, payload in zip((2, 3), payloads, strict=True)
        ]
        assert set(group.letters().values()) == {group.letters()[2]}
        text = group.letters()[2]
        assert text.startswith("Traceback (most recent call last):")
        assert text.endswith("ValueError: refused 2")
        assert "def record" not in text
        assert "in refuse" in text
        assert "another exception" not in text, "one failure, one traceback"

    def test_it_is_the_event_that_was_published(self, world: World, group: Group) -> None:
        """message_id leads back to outbox_message_t; without an id, the xid's is given."""
        with world.conn.transaction():
            world.conn.execute("select gapless.publish(%s, '{}')", [world.topic.name])
        world.units(1)
        group.failing = {1, 2}
        group.drain()
        rows = world.rows(
            "select o.id = d.message_id, o.created_ts = d.created_ts,"
            " d.transaction_id = coalesce(o.transaction_id, gapless.transaction_uuid(o.xid))"
            " from gapless.dead_letter_queue d"
            " join gapless.outbox_message_t o on o.id = d.message_id where d.group_id = %s",
            group.name,
        )
        assert rows == [(True, True, True)] * 2

    def test_a_database_error_keeps_its_sqlstate(self, world: World, group: Group) -> None:
        world.units(1, 1)
        failing = make_handler(lambda unit, conn: conn.execute("select 1 / 0"))
        assert group.step(failing).dead == 2
        assert group.letters_have("sqlstate") == {"22012"}
        assert "DivisionByZero: division by zero" in group.letters()[1]

    def test_a_group_that_was_moved_back_replaces_its_letters(
        self, world: World, group: Group
    ) -> None:
        world.units(1, 2)
        group.failing = {2}
        group.drain()
        mine = "where group_id = %s"
        world.conn.execute(
            f"update gapless.consumer_offsets set next_offset = 1 {mine}", [group.name]
        )
        world.conn.execute(f"delete from effect {mine}", [group.name])
        group.drain()
        group.assert_all_once(3)
        assert group.letters_have("attempts") == {2}

    def test_fewer_letters_than_events_would_be_a_loss(self, world: World, group: Group) -> None:
        world.units(3)
        ids = world.value(
            "select message_ids from gapless.log_segment where topic_id = %s", world.topic.topic_id
        )
        letter = "select gapless.dead_letter(%s, %s, 0, 1, %s, 'refused')"
        with pytest.raises(psycopg.Error, match="2 of 3 events found"):
            world.conn.execute(letter, [group.name, world.topic.topic_id, [*ids[:2], 2**40]])
        assert group.letters() == {}


PATTERNS = {
    "first": {1},
    "last": {100},
    "first and last": {1, 100},
    "every third": set(range(1, 101, 3)),
    "every other": set(range(2, 101, 2)),
    "middle run": set(range(40, 60)),
    "all": set(range(1, 101)),
    "none": set(),
}
# Handler calls for 100 units in batches of 100: one for each unit, and for each step that met a
# failure one more for the failing unit and those before it. Such a step ends after 64 units.
CALLS = {
    "first": 100 + 1,
    "last": 100 + 100,
    "first and last": 100 + 1 + 36,
    "every third": 100 + 1 + 3,
    "every other": 100 + 2 + 1,
    "middle run": 100 + 40,
    "all": 100 + 1 + 1,
    "none": 100,
}


class TestNeighbours:
    @pytest.mark.few(3)
    @pytest.mark.parametrize("pattern", PATTERNS)
    def test_stay_in_order(self, world: World, group: Group, pattern: str) -> None:
        world.units(*[1] * 100)
        group.failing = PATTERNS[pattern]
        group.drain(batch_size=100)
        group.assert_all_once(100)
        assert set(group.letters()) == group.failing
        assert len(group.calls) == CALLS[pattern]

    @pytest.mark.parametrize("failing", [0, 1, 50, 99])
    def test_one_failure_costs_the_units_before_it_and_one_call(
        self, world: World, group: Group, failing: int
    ) -> None:
        world.units(*[2] * 100)
        group.failing = {1 + 2 * failing}
        first = group.step(batch_size=200)
        assert len(group.calls) == first.units + failing + 1
        group.drain(batch_size=200)
        assert len(group.calls) == 100 + failing + 1
        group.assert_all_once(200)

    def test_a_unit_that_fails_alone_is_called_twice(self, world: World, group: Group) -> None:
        """The second time under a savepoint; what fails once only is not dead."""
        world.units(1, 1)
        group.failing = {1}

        def moody(unit: Unit, conn: Connection[Any]) -> None:
            group.failing = {1} if not group.calls else set()
            group.record(unit, conn)

        group.drain(make_handler(moody))
        group.assert_all_once(2)
        assert (group.calls, group.letters()) == ([1, 1, 2], {})

    def test_units_before_a_failure_that_fail_the_second_time(
        self, world: World, group: Group
    ) -> None:
        world.units(*[1] * 10)
        group.failing = {8}

        def moody(unit: Unit, conn: Connection[Any]) -> None:
            if len(group.calls) == 8:
                group.failing = {3, 8}
            group.record(unit, conn)

        group.drain(make_handler(moody))
        group.assert_all_once(10)
        assert list(group.letters()) == [3, 8]

    @pytest.mark.few(3)
    @pytest.mark.parametrize("units_per_commit", [1, 2, 64])
    @pytest.mark.parametrize("failing", [{1}, {150}, set(range(1, 301, 50))])
    def test_never_more_subtransactions_than_shared_memory_holds(
        self, world: World, group: Group, units_per_commit: int, failing: set[int]
    ) -> None:
        world.units(*[1] * 300)
        group.failing = failing
        group.drain(batch_size=1000, units_per_commit=units_per_commit)
        group.assert_all_once(300)
        most = world.value(MOST_SUBTRANSACTIONS, group.name) or 0
        assert units_per_commit * 3 // 4 <= most <= units_per_commit <= UNITS_PER_COMMIT == 64

    @pytest.mark.long
    def test_many_failures_in_a_row_take_few_commits(self, world: World, group: Group) -> None:
        """A thousand, through a supervisor: tests/worker/test_failure_storm.py."""
        world.units(*[1] * 200)
        group.failing = set(range(1, 201))
        steps = group.drain(batch_size=200)
        assert steps == 4, "64 a commit"
        assert len(group.calls) == 200 + 4
        assert list(group.letters()) == list(range(1, 201))

    def test_effects_of_a_failing_unit_are_gone_whatever_they_were(
        self, world: World, group: Group
    ) -> None:
        world.units(1, 1)
        path = group.conn.execute("show search_path").fetchone()

        def messy(unit: Unit, conn: Connection[Any]) -> None:
            if unit.first_offset == 2:
                group.record(unit, conn)
                return
            conn.execute("create table left_behind (n int)")
            conn.execute("set search_path = nowhere")
            conn.execute("update gapless.topic set retention = '1 day'")
            with conn.transaction():
                conn.execute("create temp table temporary (n int)")
            raise ValueError("refused")

        assert group.step(make_handler(messy)).dead == 1
        assert group.effects() == [2]
        assert world.rows(
            "select to_regclass('left_behind'), retention from gapless.topic where name = %s",
            world.topic.name,
        ) == [(None, None)]
        assert group.conn.execute("show search_path").fetchone() == path != ("nowhere",)


SHAPES = st.lists(st.tuples(st.integers(1, 5), st.booleans()), min_size=1, max_size=150)


class TestAnyFailures:
    @pytest.mark.long
    @settings(
        max_examples=examples(25),
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )
    @given(
        shape=SHAPES,
        batch_size=st.integers(1, 200),
        units_per_commit=st.sampled_from([1, 3, 64]),
        batches=st.booleans(),
    )
    def test_nothing_is_both_handled_and_dead(
        self,
        world: World,
        shape: list[tuple[int, bool]],
        batch_size: int,
        units_per_commit: int,
        batches: bool,
    ) -> None:
        """I9: {effects} and {dead letters} are disjoint, are all, are in order, each event once."""
        start = world.value(
            "select coalesce(max(last_offset), 0) from gapless.log_segment where topic_id = %s",
            world.topic.topic_id,
        )
        group = world.group(start="latest")
        world.units(*[size for size, _ in shape])
        with group.conn:
            first = start + 1
            expected_dead: list[int] = []
            for size, fails in shape:
                if fails:
                    group.failing.add(first)
                    expected_dead += range(first, first + size)
                first += size
            what = group.batch_handler if batches else group.handler
            group.drain(what, batch_size=batch_size, units_per_commit=units_per_commit)
            effects, letters = group.effects(), group.letters()
            assert list(letters) == expected_dead
            assert effects == [o for o in range(start + 1, first) if o not in letters]


@pytest.mark.long
def test_payloads_are_copied_inside_the_server(world: World, group: Group) -> None:
    """Whatever was accepted can be dead-lettered: here 20 MB of it, in one unit."""
    big = json.dumps("x" * 1_000_000).encode()
    id_ = uuid4()
    world.events(NewEvent(payload=big, transaction_id=id_, key="k") for _ in range(20))
    group.failing = {1}
    group.step()
    copied = "select sum(length(payload::text)) from gapless.dead_letter_queue where group_id = %s"
    assert world.value(copied, group.name) == 20 * len(big)


@pytest.mark.parametrize("again", [False, True], ids=["first", "redriven"])
def test_how_long_the_last_attempt_took_is_kept_in_milliseconds(
    world: World, group: Group, again: bool
) -> None:
    world.units(1)

    def slow(unit: Unit, conn: Connection[Any]) -> None:
        sleep(0.05)
        raise ValueError("refused")

    group.drive(make_handler(slow))
    if again:
        world.conn.execute(
            "update gapless.dead_letter set duration_ms = null where group_id = %s", [group.name]
        )
        world.value("select gapless.redrive_letter(%s, %s, 0, 1)", group.name, world.topic.name)
        group.drive(make_handler(slow))
    look = "select duration_ms from gapless.dead_letter where group_id = %s"
    ((duration_ms,),) = world.rows(look, group.name)
    assert duration_ms >= 50


@pytest.mark.parametrize("mode", ["ordered", "queue"])
@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
@pytest.mark.parametrize("retry_delays_s", [[], [0]])
def test_the_log_tells_the_place_the_error_and_the_command(
    dsn: str,
    conn: Connection[Any],
    caplog: pytest.LogCaptureFixture,
    mode: Literal["ordered", "queue"],
    delivery: Literal["exactly-once", "at-least-once"],
    retry_delays_s: list[float],
) -> None:
    def refuse(unit: Unit) -> None:
        raise ValueError("no amount")

    def refuse_with(unit: Unit, conn: Connection[Any]) -> None:
        refuse(unit)

    testing.install(dsn, topics={"orders": 1})
    gapless.publish(conn, "orders", {})
    testing.drain(
        dsn,
        handler(
            topic="orders",
            group="billing",
            mode=mode,
            delivery=delivery,
            on_failure="retry" if retry_delays_s else "dead-letter",
            retry_delays_s=retry_delays_s or None,
        )(refuse if delivery == "at-least-once" else refuse_with),
    )
    place = "billing/orders/0@1"
    assert [text for text in caplog.messages if "dead letter" in text] == [
        f"{place}: dead letter: ValueError: no amount (gapless dlq show {place})"
    ]
