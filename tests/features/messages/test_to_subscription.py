"""Messages to one subscription of a group: it is told, whatever it matches, and no other (I1)."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import psycopg
import pytest

import gapless
from gapless import ops
from gapless.consume.unit import Unit
from gapless.consume.user.handler import Handler
from gapless.consume.verdict.failure import PartlyFailedError
from gapless.consume.verdict.policy import Policy
from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.sequence import sequence
from gapless.settings import Settings
from support.conditions import resume, stops, taken_over
from support.subscriptions import Seen, subscribe, unsubscribe
from support.world import Group, World, make_handler

RETRY = Policy(on_failure="retry", retry_delays_s=(3600.0,))
RAISES = "(e.payload ->> 'total')::int > 0"  # of a text


@pytest.fixture
def world(shared_world: World) -> World:
    made = shared_world.another_topic()
    assert made.value("select gapless.set_direct(%s)", made.topic.name)
    return made


@pytest.fixture
def group(world: World) -> Iterator[Group]:
    """A group with two subscriptions, of customers 1 and 2."""
    made = world.group()
    subscribe(made, "ann", {"customer": 1})
    subscribe(made, "ben", {"customer": 2})
    yield made
    made.conn.close()


def by_sql(group: Group, name: str, condition: str) -> None:
    group.world.value(
        "select gapless.subscribe(%s, %s, %s, sql_condition => %s)",
        group.name, group.world.topic.name, name, condition,
    )  # fmt: skip


def message(group: Group, name: str | None, payload: object = 0, **more: Any) -> NewEvent:
    more = {"transaction_id": uuid4(), **more}
    return NewEvent(payload=payload, to_group=group.name, to_subscription=name, **more)


def customer(number: int) -> dict[str, int]:
    return {"customer_id": number}


def due_now(group: Group) -> None:
    due = "update gapless.dead_letter set next_attempt_ts = now() where group_id = %s"
    group.world.conn.execute(due, [group.name])


class TestOne:
    @pytest.mark.parametrize("batch_size", [1, 2, 100])
    def test_is_told_and_no_other(self, world: World, group: Group, batch_size: int) -> None:
        """Also no other that matches; and what is for another group is nobody's, whatever it says."""
        other = world.group()
        subscribe(other, "ann", {"customer": 1})
        world.events(
            [
                message(group, "ann", customer(2), key="k"),
                message(group, None, customer(2), key="k"),
                message(other, "ann", customer(1), key="k"),
                message(group, "ben", key="k"),
                NewEvent(payload=customer(1), key="k", transaction_id=uuid4()),
            ]
        )
        seen, told = Seen(group), Seen(other)
        group.drive(seen.handler, batch_size=batch_size)
        other.drive(told.handler, batch_size=batch_size)
        other.conn.close()
        assert seen.events == [(1, ["ann"]), (2, ["ben"]), (4, ["ben"]), (5, ["ann"])]
        assert told.events == [(3, ["ann"]), (5, ["ann"])]
        assert group.next_offset() == other.next_offset() == 6

    def test_whatever_it_says(self, world: World, group: Group) -> None:
        """jsonpath, SQL: neither is asked, so what would raise does not. And a payload that is no jsonb."""
        subscribe(group, "path", {"min": 5}, match={}, where="$.total > $min")
        by_sql(group, "sql", RAISES)
        world.events(
            [
                message(group, "path", {"total": 1}),
                message(group, "sql", {"total": "x"}),
                message(group, "ann", b'{"a": "\\u0000"}'),
                message(group, "path", {"total": 9}),
            ]
        )
        seen = Seen(group)
        group.drive(seen.handler)
        assert seen.events == [(1, ["path"]), (2, ["sql"]), (3, ["ann"]), (4, ["path"])]
        assert stops(group) == []
        kept = "select sum(kept), sum(unasked) from gapless.filter_tally where group_id = %s"
        assert world.rows(kept, group.name) == [(4, 0)]

    def test_handler_sees_whom_it_is_for(self, world: World, group: Group) -> None:
        world.events(
            [message(group, "ben", n, transaction_id=None) for n in range(2)]
            + [message(group, "ann", customer(1), transaction_id=None)]
            + [NewEvent(payload=customer(1)), NewEvent(payload=customer(9))]
        )
        seen: list[Any] = []

        def note(unit: Unit, conn: object) -> None:
            seen.extend((e.offset, e.to_group, e.to_subscription) for e in unit)
            seen.append([(s.name, s.params) for s in unit.subscriptions])

        group.step(make_handler(note))
        assert seen == [
            *[(n, group.name, "ben") for n in (1, 2)],
            (3, group.name, "ann"),
            (4, None, None),
            [("ben", {"customer": 2}), ("ann", {"customer": 1})],
        ]

    def test_header_alone_is_a_header_as_any_other(self, world: World, group: Group) -> None:
        """Without a group, and in a topic that takes no direct messages."""
        closed = world.another_topic()
        there = closed.group()
        subscribe(there, "ann", {"customer": 1})
        header = {"gapless-to-subscription": "ann"}
        for each, to in ((world, {}), (closed, {"gapless-to-group": there.name})):
            each.events([NewEvent(payload=customer(2), headers={**header, **to})])
        for one, names in ((group, [(1, ["ben"])]), (there, [])):
            seen = Seen(one)
            one.drive(seen.handler)
            assert seen.events == names
        there.conn.close()


class TestPaths:
    def test_from_a_handler(self, world: World, group: Group) -> None:
        """A chain (I10): by Python, one and some, and by SQL."""
        first = world.another_topic()
        source = first.group()
        first.units(1)

        def pass_on(unit: Unit, conn: psycopg.Connection[Any]) -> None:
            to = {"to_group": group.name, "to_subscription": "ann"}
            publish(conn, world.topic.name, 1, **to)
            publish(conn, world.topic.name, [NewEvent(payload=n, **to) for n in (2, 3)])  # type: ignore[arg-type]
            conn.execute(
                "select gapless.publish(%s, '4', to_group => %s, to_subscription => 'ann')",
                [world.topic.name, group.name],
            )

        source.drive(make_handler(pass_on))
        source.conn.close()
        sequence(world.conn)
        seen: list[Any] = []

        def note(unit: Unit, conn: object) -> None:
            seen.extend(
                (e.payload, e.cause and e.cause.offset, [s.name for s in e.subscriptions])
                for e in unit
            )

        group.drive(make_handler(note))
        assert seen == [(n, 1, ["ann"]) for n in (1, 2, 3, 4)]

    def test_replay_is_called_with_them_and_no_subscriptions(
        self, world: World, group: Group
    ) -> None:
        other = world.group()
        world.events([message(group, "ann"), message(other, None), message(group, None)])
        other.conn.close()
        seen: list[Any] = []
        handler: Handler = gapless.handler(topic=world.topic.name, group=group.name)(
            lambda unit, conn: seen.extend(
                (e.offset, e.to_subscription, e.subscriptions) for e in unit
            )
        )
        terms = ops.replay_terms(handler, Settings())
        wanted = ops.ReplayRange(topic=world.topic.name)
        ops.create_replay(world.conn, wanted)
        ops.run_replay(world.conn, wanted.name, handler, terms)
        assert seen == [(1, "ann", ()), (3, None, ())]


class TestNotThere:
    def test_one_that_has_gone_is_no_loss(self, world: World, group: Group) -> None:
        """The group is called with it, told of nobody; event.filter_error says why."""
        world.events([message(group, "ann", customer(2)), message(group, "ben")])
        unsubscribe(group, "ann")
        seen: list[Any] = []

        def note(unit: Unit, conn: object) -> None:
            seen.extend(
                (e.offset, [s.name for s in e.subscriptions], e.to_subscription, e.filter_error)
                for e in unit
            )

        group.drive(make_handler(note))
        why = f'group "{group.name}" has no subscription "ann"'
        assert seen == [(1, [], "ann", why), (2, ["ben"], "ben", None)]
        unsubscribe(group, "ben")
        world.events([NewEvent(payload=customer(2)), self.inserted(group, "ben")])
        group.drive(make_handler(note))
        assert [each[:3] for each in seen[2:]] == [(4, [], "ben")]
        assert group.next_offset() == 5

    def test_beside_sql_conditions(self, world: World, group: Group) -> None:
        by_sql(group, "sql", "true")
        world.events([message(group, "ann"), NewEvent(payload=1)])
        unsubscribe(group, "ann")
        seen = Seen(group)
        group.drive(seen.handler)
        assert seen.events == [(1, []), (2, ["sql"])]
        tally = "select unasked_why from gapless.filter_tally where group_id = %s"
        assert world.value(tally, group.name).endswith('no subscription "ann"')

    def test_group_without_any_handles_it(self, world: World, group: Group) -> None:
        plain = world.group()
        world.events([self.inserted(plain, "ann"), message(group, "ann")])
        plain.drive()
        plain.conn.close()
        assert plain.effects() == [1]

    @staticmethod
    def inserted(group: Group, name: str) -> NewEvent:
        """What a plain INSERT stores: nobody looks whether it is there."""
        headers = {"gapless-to-group": group.name, "gapless-to-subscription": name}
        return NewEvent(payload=1, headers=headers)


class TestLetters:
    def test_one_that_failed_is_for_who_has_the_name(self, world: World, group: Group) -> None:
        """Also for one that was taken away, and made anew; what only matched the former one is not."""
        world.events([message(group, "ann"), NewEvent(payload=customer(1))])
        group.failing = {1, 2}
        seen = Seen(group)
        group.drive(seen.handler)
        assert group.states() == {1: "dead", 2: "dead"}
        unsubscribe(group, "ann")
        subscribe(group, "ann", {"customer": 3})
        group.failing.clear()
        seen.events.clear()
        for offset in (1, 2):
            world.value(
                "select gapless.redrive_letter(%s, %s, 0, %s)", group.name, world.topic.name, offset
            )
        group.drive(seen.handler)
        assert seen.events == [(1, ["ann"]), (2, [])]

    def test_one_that_fails_for_one_made_anew_waits_for_it(
        self, world: World, group: Group
    ) -> None:
        world.events([message(group, "ann")])
        told: list[str] = []

        def take(unit: Unit) -> None:
            told.extend(each.name for each in unit.subscriptions)
            if len(told) < 3:
                numbers = [each.subscription_id for each in unit.subscriptions]
                raise PartlyFailedError(ValueError("refused"), numbers)

        limits = {"policy": Policy(on_failure="retry", retry_delays_s=(3600.0,) * 2)}
        outside = make_handler(take, delivery="at-least-once")
        group.drive(outside, **limits)
        unsubscribe(group, "ann")
        subscribe(group, "ann", {"customer": 3})
        for states in ({1: "waiting"}, {}):
            due_now(group)
            group.drive(outside, **limits)
            assert group.states() == states
        assert told == ["ann"] * 3


class TestStopped:
    def stop(self, group: Group, name: str = "bad") -> None:
        """Have a subscription stopped, at offset 1."""
        by_sql(group, name, RAISES)
        group.world.events([NewEvent(payload={"total": "x"})])
        group.drive()
        assert [row[:2] for row in stops(group)] == [(name, 1)]

    def test_messages_wait_and_come_when_it_is_resumed(self, world: World, group: Group) -> None:
        self.stop(group)
        world.events([message(group, "bad", {"total": "x"}), message(group, "ann")])
        world.events(  # a unit of which others were told
            [message(group, name, transaction_id=None) for name in ("ann", "bad")]
        )
        seen = Seen(group)
        group.drive(seen.handler)
        assert seen.events == [(3, ["ann"]), (4, ["ann"])]
        assert group.next_offset() == 6
        by_sql(group, "bad", "e.key = 'never'")
        assert resume(group, "bad") == 2
        taken_over(group)
        seen.events.clear()
        world.events([message(group, "bad")])
        group.drive(seen.handler)
        assert sorted(seen.events) == [(2, ["bad"]), (5, ["bad"]), (6, ["bad"])]
        assert stops(group) == []

    def test_also_when_it_is_mended_without_sql(self, world: World, group: Group) -> None:
        self.stop(group)
        subscribe(group, "bad", {"customer": 5})
        world.events([message(group, "bad")])
        seen = Seen(group)
        group.drive(seen.handler)
        assert seen.events == []
        assert resume(group, "bad") == 1
        taken_over(group)
        group.drive(seen.handler)
        assert seen.events == [(2, ["bad"])]

    def test_in_a_unit_that_waits_for_others_already(self, world: World, group: Group) -> None:
        self.stop(group)
        world.events([message(group, name, transaction_id=None) for name in ("ann", "bad")])
        group.failing = {2}
        seen = Seen(group)
        group.drive(seen.handler, policy=RETRY)
        assert group.states() == {2: "waiting"}
        by_sql(group, "bad", "false")
        assert resume(group, "bad") == 1
        taken_over(group)
        due_now(group)
        group.failing.clear()
        seen.events.clear()
        group.drive(seen.handler, policy=RETRY)
        assert seen.events == [(2, ["ann"]), (3, ["bad"])]
