"""What was set aside is handled later: exactly once, in order per key where that is promised (I6)."""

import os
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import Connection

import gapless
from gapless.consume.aside.retry import retry_aside as redrive_unit
from gapless.consume.unit import Unit
from gapless.consume.verdict.policy import OnFailure, Policy
from gapless.db.connect import connect
from gapless.errors import BlockedError
from gapless.lease import hold
from gapless.log.event import NewEvent
from support.examples import examples
from support.redrive import redrive
from support.turn import turn as make_turn
from support.world import Group, World, make_handler


def policy(on_failure: OnFailure, *delays_s: float, **more: Any) -> dict[str, Any]:
    return {"policy": Policy(on_failure=on_failure, retry_delays_s=delays_s, **more)}


def discard(world: World, group: Group, offset: int) -> str:
    ask = "select gapless.discard_letter(%s, %s, 0, %s, 'of no use', 'ann')"
    return str(world.value(ask, group.name, world.topic.name, offset))


class TestRetry:
    def test_it_goes_through_in_the_end(self, world: World, group: Group) -> None:
        world.units(1, 2, 1)
        attempts: list[tuple[int, int]] = []

        def third_time(unit: Unit, conn: Connection[Any]) -> None:
            attempts.append((unit.first_offset, unit.attempt))
            group.effect(unit, conn)
            if unit.first_offset == 2 and unit.attempt < 3:
                raise ValueError("not yet")

        group.drive(make_handler(third_time), **policy("retry", 0, 0))
        assert sorted(group.effects()) == [1, 2, 3, 4]
        assert group.states() == {}, "nothing is kept of one that was never dead"
        assert world.value("select count(*) from gapless.dead_letter_event") == 0
        assert {a for a in attempts if a[0] == 2} == {(2, 1), (2, 2), (2, 3)}

    def test_it_waits_as_long_as_was_said_and_others_go_on(
        self, world: World, group: Group
    ) -> None:
        world.units(1, 1, 1)
        group.failing = {2}
        group.drive(**policy("retry", 3600), worker="w")
        assert (group.effects(), group.states()) == ([1, 3], {2: "waiting"})
        ((wait_s, reason, kind, worker),) = world.rows(
            "select extract(epoch from next_attempt_ts - now())::float8, reason, exception_class,"
            " worker from gapless.dead_letter"
        )
        assert 3500 < wait_s <= 3600
        assert (reason, kind) == ("ValueError: refused 2", "ValueError")
        assert worker == f"w pid {os.getpid()}"
        assert redrive(world, group, 2) == "asked"  # a person does not want to wait
        group.failing = set()
        group.drive(**policy("retry", 3600))
        assert (group.effects(), group.states()) == ([1, 3, 2], {})

    def test_it_dies_when_all_attempts_have_failed(self, world: World, group: Group) -> None:
        world.units(1, 1)
        group.failing = {1}
        group.drive(**policy("retry", 0, 0, 0))
        assert group.states() == {1: "dead"}
        assert group.letters_have("attempts") == {4}
        group.assert_all_once(2)

    def test_redrive_of_one_that_is_dead(self, world: World, group: Group) -> None:
        world.units(1, 2, 1)
        group.failing = {2}
        group.drive()
        assert redrive(world, group, 2) == "asked"
        group.drive(**policy("retry", 0))
        assert group.states() == {2: "dead"}, "it died again at once"
        assert group.letters_have("attempts") == {2}
        group.failing = set()
        assert redrive(world, group, 2) == "asked"
        group.drive()
        assert (group.effects(), group.states()) == ([1, 4, 2, 3], {2: "redriven"})
        assert group.letters() == {}, "nothing is both handled and dead"
        assert redrive(world, group, 2) == "redriven"
        group.drive()
        assert group.effects() == [1, 4, 2, 3]

    def test_the_log_is_not_needed_any_more(self, world: World, group: Group) -> None:
        """I9: retention may have dropped it."""
        world.events([NewEvent(payload={"n": 1.5}, key="k", headers={"a": 1}, user_id="u")])
        group.failing = {1}
        group.drive()
        world.conn.execute("truncate gapless.outbox_message_t")
        redrive(world, group, 1)
        seen: list[Any] = []

        def look(unit: Unit, conn: Connection[Any]) -> None:
            seen.extend((e.offset, e.payload, e.key, e.headers, e.user_id) for e in unit)

        group.drive(make_handler(look))
        assert seen == [(1, {"n": 1.5}, "k", {"a": 1}, "u")]

    @pytest.mark.long
    @pytest.mark.parametrize("stream_above", [1, 10_000])
    def test_a_large_unit_is_streamed(self, world: World, group: Group, stream_above: int) -> None:
        world.units(2500, 1)
        seen: list[list[int]] = []

        def once(unit: Unit, conn: Connection[Any]) -> None:
            if unit.attempt == 1:
                raise ValueError("not yet")
            seen.append([event.offset for event in unit])

        group.drive(make_handler(once), **policy("retry", 0), stream_above_events=stream_above)
        assert seen == [list(range(1, 2501)), [2501]]

    @pytest.mark.long
    @pytest.mark.parametrize("how", ["commit", "rollback", "constraint"])
    def test_what_a_handler_must_not_do_fails_there_too(
        self, world: World, group: Group, how: str
    ) -> None:
        world.conn.execute(
            "create table one (n int, constraint one_only unique (n) deferrable initially deferred)"
        )
        world.conn.execute("insert into one values (1)")
        world.units(1)
        group.failing = {1}
        group.drive()
        redrive(world, group, 1)

        def misbehave(unit: Unit, conn: Connection[Any]) -> None:
            group.effect(unit, conn)
            if how == "constraint":
                conn.execute("insert into one values (1)")
            else:
                conn.execute(how)

        group.drive(make_handler(misbehave))
        assert (group.states(), group.effects()) == ({1: "dead"}, [])
        assert group.letters_have("attempts") == {2}

    @pytest.mark.long
    def test_a_former_owner_handles_nothing_that_was_set_aside(
        self, world: World, group: Group
    ) -> None:
        """I7: fenced before it looked, and fenced between its look and its claim."""
        world.units(1)
        group.failing = {1}
        group.drive()
        redrive(world, group, 1)
        group.failing = set()
        turn = make_turn(group.conn, group.assignment, group.handler)
        world.conn.execute("update gapless.consumer_offsets set epoch = epoch + 1")
        assert redrive_unit(turn, 1) == "fenced"
        assert (group.calls[2:], group.effects(), group.states()) == ([], [], {1: "waiting"})


class TestWishes:
    def test_skip(self, world: World, group: Group) -> None:
        world.units(1, 1, 1)

        def skip(unit: Unit, conn: Connection[Any]) -> None:
            group.effect(unit, conn)
            if unit.first_offset == 2:
                raise gapless.Skip("not ours")

        group.drive(make_handler(skip))
        assert (group.effects(), group.states(), group.next_offset()) == ([1, 3], {}, 4)

    def test_retry_as_often_as_the_handler_likes(self, world: World, group: Group) -> None:
        world.units(1, 1)

        def later(unit: Unit, conn: Connection[Any]) -> None:
            group.effect(unit, conn)
            if unit.first_offset == 1 and unit.attempt < 5:
                raise gapless.Retry(after=0)

        group.drive(make_handler(later))
        assert (group.effects(), group.states()) == ([2, 1], {})

    def test_dead_letter_now(self, world: World, group: Group) -> None:
        world.units(1, 1)

        def give_up(unit: Unit, conn: Connection[Any]) -> None:
            if unit.first_offset == 1:
                try:
                    conn.execute("select pg_sleep(0), 1 / 0")
                except psycopg.Error as error:
                    raise gapless.DeadLetter("no total") from error
            group.effect(unit, conn)

        group.drive(make_handler(give_up), **policy("retry", 0, 0, 0))
        assert (group.effects(), group.states()) == ([2], {1: "dead"})
        assert world.value("select reason from gapless.dead_letter").endswith("no total")

    def test_skip_of_one_that_was_set_aside(self, world: World, group: Group) -> None:
        world.units(1)

        def skip(unit: Unit, conn: Connection[Any]) -> None:
            raise ValueError if unit.attempt == 1 else gapless.Skip

        group.drive(make_handler(skip), **policy("retry", 0))
        assert (group.states(), group.next_offset()) == ({}, 2)


class TestBlock:
    def test_nothing_passes_it(self, world: World, group: Group) -> None:
        world.units(1, 1, 1, 1)
        group.failing = {3}
        for _ in range(3):
            with pytest.raises(BlockedError, match=r"@3: ValueError: refused 3"):
                group.drive(**policy("block"))
            assert (group.effects(), group.states(), group.next_offset()) == ([1, 2], {}, 3)
        group.failing = set()
        group.drive(**policy("block"))
        group.assert_all_once(4)

    def test_a_handler_may_still_set_it_aside(self, world: World, group: Group) -> None:
        world.units(1, 1)

        def give_up(unit: Unit, conn: Connection[Any]) -> None:
            if unit.first_offset == 1:
                raise gapless.DeadLetter("no")
            group.effect(unit, conn)

        group.drive(make_handler(give_up), **policy("block"))
        assert (group.effects(), group.states()) == ([2], {1: "dead"})


class TestParkKey:
    def test_only_units_of_its_keys_wait(self, world: World, group: Group) -> None:
        for key in "abacab":
            world.events([NewEvent(payload={}, key=key)])
        group.failing = {1}
        group.drive(**policy("park-key"), batch_size=2)
        assert group.effects() == [2, 4, 6]
        assert group.states() == {1: "dead", 3: "parked", 5: "parked"}
        group.failing = set()
        redrive(world, group, 1)
        group.drive(**policy("park-key"))
        assert group.effects() == [2, 4, 6, 1, 3, 5]
        assert group.states() == {1: "redriven"}
        assert world.value("select count(*) from gapless.dead_letter_key") == 0

    def test_a_unit_of_several_keys_holds_them_all(self, world: World, group: Group) -> None:
        for keys in ("a", "ab", "b", "c"):
            world.events([NewEvent(payload={}, key=key) for key in keys])
        group.failing = {1}
        group.drive(**policy("park-key"))
        assert group.effects() == [5]
        assert group.states() == {1: "dead", 2: "parked", 4: "parked"}
        assert discard(world, group, 1) == "discarded"
        group.failing = {2}
        group.drive(**policy("park-key", 3600))
        assert group.states() == {1: "discarded", 2: "waiting", 4: "parked"}
        group.failing = set()
        redrive(world, group, 2)
        group.drive(**policy("park-key"))
        assert group.effects() == [5, 2, 3, 4]
        assert list(group.letters()) == [1]

    @pytest.mark.long
    def test_a_new_owner_knows_what_is_parked(self, world: World, group: Group) -> None:
        """Another session, an epoch later, and nothing kept in memory."""
        world.units(1, 1, key="a")
        group.failing = {1}
        group.drive(**policy("park-key"))
        with connect(world.dsn, role="worker") as conn:
            old, group.conn = group.conn, conn
            old.close()
            group.assignment = group.successor(conn)
            assert hold.install(conn, group.assignment) is not None
            world.units(1, 1, key="a")
            world.units(1, key="b")
            group.drive(**policy("park-key"))
            assert group.effects() == [5], "all of key a are behind the one that is dead"
            assert group.states() == {1: "dead", 2: "parked", 3: "parked", 4: "parked"}
            discard(world, group, 1)
            group.drive(**policy("park-key"))
            assert group.effects() == [5, 2, 3, 4]

    def test_a_group_that_parks_no_more_still_keeps_the_order(
        self, world: World, group: Group
    ) -> None:
        world.units(1, 1, key="a")
        group.failing = {1}
        group.drive(**policy("park-key"))
        world.units(1, key="a")
        world.units(1, key="b")
        group.drive(**policy("dead-letter"))
        assert (group.effects(), group.states()) == ([4], {1: "dead", 2: "parked", 3: "parked"})
        discard(world, group, 1)
        group.drive(**policy("dead-letter"))
        assert group.effects() == [4, 2, 3]

    def test_batches_pass_without_what_is_parked(self, world: World, group: Group) -> None:
        for key in "aab":
            world.events([NewEvent(payload={}, key=key)])
        group.failing = {1}
        group.drive(group.batch_handler, **policy("park-key"))
        world.events([NewEvent(payload={}, key=key) for key in "c"])
        world.events([NewEvent(payload={}, key=key) for key in "a"])
        group.drive(group.batch_handler, **policy("park-key"))
        assert group.effects() == [3, 4]
        assert group.states() == {1: "dead", 2: "parked", 5: "parked"}

    @settings(
        max_examples=examples(40),
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )
    @given(data=st.data())
    def test_order_per_key_whatever_fails(self, shared_world: World, data: st.DataObject) -> None:
        """Exactly once, and in offset order for each key, whatever fails how often."""
        world = shared_world.another_topic()
        units = data.draw(st.lists(st.text("abcde", min_size=1, max_size=3), max_size=25))
        for keys in units:
            world.events([NewEvent(payload={}, key=key) for key in keys])
        firsts = [1 + sum(map(len, units[:n])) for n in range(len(units))]
        fails = {first: data.draw(st.integers(0, 4)) for first in firsts}
        group = world.group()
        calls: dict[int, int] = dict.fromkeys(firsts, 0)

        def handle(unit: Unit, conn: Connection[Any]) -> None:
            if unit.attempt <= fails[unit.first_offset]:
                raise ValueError("not yet")
            calls[unit.first_offset] += 1
            group.effect(unit, conn)

        with group.conn:
            limits = policy("park-key", 0, 0) | {"batch_size": data.draw(st.integers(1, 30))}
            group.drive(make_handler(handle), **limits)
            for _ in range(200):
                dead = [offset for offset, state in group.states().items() if state == "dead"]
                if not dead:
                    break
                redrive(world, group, data.draw(st.sampled_from(dead)))
                group.drive(make_handler(handle), **limits)
            keys = [key for unit in units for key in unit]
            effects = group.effects()
            assert sorted(effects) == list(range(1, len(keys) + 1))
            for key in set(keys):
                own = [offset for offset in effects if keys[offset - 1] == key]
                assert own == sorted(own), key
            assert set(group.states().values()) <= {"redriven"}
            assert (
                world.value(
                    "select count(*) from gapless.dead_letter_key where group_id = %s", group.name
                )
                == 0
            )
