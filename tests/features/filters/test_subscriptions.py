"""Groups with subscriptions: what none matches is passed, handlers are told which did (I3, I5, I6)."""

from typing import Any
from uuid import uuid4

import psycopg
import pytest

from gapless.consume.unit import Unit
from gapless.consume.verdict.policy import Policy
from gapless.lease import hold
from gapless.log.event import NewEvent
from support.subscriptions import Seen, subscribe, unsubscribe
from support.world import Group, World, make_handler


def of_customers(world: World, *customers: Any, key: str | None = None) -> None:
    """Publish an event for each of these, units of one event."""
    world.events(
        NewEvent(payload={"customer_id": each}, key=key, transaction_id=uuid4())
        for each in customers
    )


@pytest.fixture
def world(shared_world: World) -> World:
    return shared_world.another_topic()


class TestStopped:
    @pytest.mark.parametrize("more", [{}, {"match": {}, "where": "$.customer_id == $customer"}])
    def test_without_an_sql_condition_too(
        self, world: World, group: Group, more: dict[str, Any]
    ) -> None:
        """It matches nothing in that partition, and gets what it missed, for it alone, when it is resumed."""
        subscribe(group, "ann", {"customer": 1}, **more)
        subscribe(group, "ben", {"customer": 1}, **more)
        of_customers(world, 1)
        seen = Seen(group)
        group.drive(seen.handler)
        world.conn.execute(
            "insert into gapless.subscription_stop (subscription_id, partition_id, from_offset, reason)"
            " select subscription_id, 0, 2, 'a test' from gapless.subscription"
            " where group_id = %s and name = 'ann'",
            [group.name],
        )
        of_customers(world, 1, 2, 1)
        group.drive(seen.handler)
        assert seen.events == [(1, ["ann", "ben"]), (2, ["ben"]), (4, ["ben"])]
        resume = "select gapless.resume_subscription(%s, %s, 'ann')"
        assert world.value(resume, group.name, world.topic.name) == 2
        group.assignment = group.successor(group.conn)
        assert hold.install(group.conn, group.assignment) is not None
        of_customers(world, 1)
        seen.events.clear()
        group.drive(seen.handler)
        assert sorted(seen.events) == [(2, ["ann"]), (4, ["ann"]), (5, ["ann", "ben"])]


class TestMatches:
    def test_what_is_for_another_group_is_passed(self, world: World, group: Group) -> None:
        other = world.group()
        assert world.value("select gapless.set_direct(%s)", world.topic.name)
        subscribe(group, "ann", {"customer": 1})
        for to in (group.name, other.name, None):
            world.events([NewEvent(payload={"customer_id": 1}, to_group=to)])
        other.conn.close()
        seen = Seen(group)
        assert group.step(seen.handler).events == 2
        assert seen.events == [(1, ["ann"]), (3, ["ann"])]
        assert group.next_offset() == 4

    def test_handler_is_told_who_matched(self, world: World, group: Group) -> None:
        subscribe(group, "ann", {"customer": 1, "mail": "ann@example.org"})
        subscribe(group, "ben", {"customer": 2})
        subscribe(group, "also ann", {"customer": 1})
        of_customers(world, 1, 3, 2, 3, 1)
        seen = Seen(group)
        assert group.step(seen.handler).events == 3
        assert seen.events == [(1, ["ann", "also ann"]), (3, ["ben"]), (5, ["ann", "also ann"])]
        assert group.next_offset() == 6
        mails: list[Any] = []
        of_customers(world, 1)
        group.step(make_handler(lambda unit, _: mails.extend(s.params for s in unit.subscriptions)))
        assert mails == [{"customer": 1, "mail": "ann@example.org"}, {"customer": 1}]

    def test_unit_names_each_once_and_holds_what_matched(self, world: World, group: Group) -> None:
        subscribe(group, "ann", {"customer": 1})
        subscribe(group, "ben", {"customer": 2})
        world.events(NewEvent(payload={"customer_id": n}) for n in (2, 9, 1, 2))
        seen = Seen(group)
        group.step(seen.handler)
        assert seen.units == [["ben", "ann"]]
        assert [offset for offset, _ in seen.events] == [1, 3, 4]

    @pytest.mark.parametrize(
        ("wanted", "published", "matches"),
        [
            (1, 1, True),
            (1, 1.0, True),
            (1, "1", False),
            ("a", "a", True),
            ("a", "A", False),
            (None, None, True),
            ([1, 2], [1, 2], True),
            ([1, 2], [2, 1], False),
            ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
            ("x" * 9000, "x" * 9000, True),
        ],
    )
    def test_values_are_equal_as_json(
        self, world: World, group: Group, wanted: Any, published: Any, matches: bool
    ) -> None:
        subscribe(group, "it", {"customer": wanted})
        of_customers(world, published)
        seen = Seen(group)
        group.step(seen.handler)
        assert bool(seen.events) is matches

    def test_by_parts_of_the_event(self, world: World, group: Group) -> None:
        subscribe(group, "type", {"t": "order.paid"}, match={"t": "event_type"})
        subscribe(group, "key", {"k": "k1"}, match={"k": "key"})
        subscribe(group, "both", {"k": "k1", "c": "CH"}, match={"k": "key", "c": "$.to.country"})
        subscribe(group, "absent", {"c": None}, match={"c": "$.to.country"})
        world.events([NewEvent(payload={"to": {"country": "CH"}}, key="k1")])
        world.events([NewEvent(payload={"to": {"country": "DE"}}, key="k1")])
        world.events([NewEvent(payload={"to": {"country": "DE"}}, event_type="order.paid")])
        world.events([NewEvent(payload=[1])])
        seen = Seen(group)
        group.step(seen.handler)
        assert seen.events == [(1, ["key", "both"]), (2, ["key"]), (3, ["type"]), (4, ["absent"])]

    def test_condition_is_asked_of_those_whose_values_match(
        self, world: World, group: Group
    ) -> None:
        large = {"where": "$.total > $min"}
        subscribe(group, "ann", {"customer": 1, "min": 100}, **large)
        subscribe(group, "also ann", {"customer": 1, "min": 10}, **large)
        subscribe(group, "ben", {"customer": 2, "min": 0}, **large)
        subscribe(group, "all large", {"min": 500}, match={}, **large)
        for total in (50, 200, 1000, "many", None):
            world.events([NewEvent(payload={"customer_id": 1, "total": total})])
        world.events([NewEvent(payload={"total": 600})])
        world.events([NewEvent(payload=7)])
        seen = Seen(group)
        group.step(seen.handler)
        assert seen.events == [
            (1, ["also ann"]),
            (2, ["ann", "also ann"]),
            (3, ["ann", "also ann", "all large"]),
            (6, ["all large"]),
        ]
        forms = "select count(*) from gapless.subscription_form where group_id = %s"
        assert world.value(forms, group.name) == 2

    def test_payload_that_is_no_jsonb_is_delivered_and_says_so(
        self, world: World, group: Group
    ) -> None:
        subscribe(group, "ann", {"customer": 1})
        world.events([NewEvent(payload=b'{"customer_id": "\\u0000"}')])
        of_customers(world, 1)
        seen: list[Any] = []
        group.step(
            make_handler(
                lambda unit, _: seen.extend((e.filter_error, e.subscriptions) for e in unit)
            )
        )
        assert "no subscription could be asked" in seen[0][0]
        assert seen[0][1] == ()
        assert seen[1][0] is None
        assert len(seen[1][1]) == 1

    def test_claim_looks_at_a_thousand_events_at_most(self, world: World, group: Group) -> None:
        subscribe(group, "ann", {"customer": 1})
        world.events(NewEvent(payload={}, key=str(n)) for n in range(1))
        world.conn.execute(
            "select gapless.publish(%s, '{}', transaction_id => gen_random_uuid())"
            " from generate_series(1, 1500)",
            [world.topic.name],
        )
        of_customers(world, 1)
        assert group.step(batch_size=10).next_offset == 1001
        assert group.step(batch_size=10).next_offset == 1503
        assert group.effects() == [1502]


class TestChanges:
    def test_only_what_is_published_afterwards(self, world: World, group: Group) -> None:
        seen = Seen(group)
        assert subscribe(group, "ann", {"customer": 1})
        assert not subscribe(group, "ann", {"customer": 1})
        of_customers(world, 1, 2)
        group.step(seen.handler)
        assert subscribe(group, "ann", {"customer": 2})
        of_customers(world, 1, 2)
        group.step(seen.handler)
        assert unsubscribe(group, "ann")
        assert not unsubscribe(group, "ann")
        of_customers(world, 1, 2)
        assert group.step(seen.handler).events == 0
        assert seen.events == [(1, ["ann"]), (4, ["ann"])]
        assert group.next_offset() == 7
        forms = "select count(*) from gapless.subscription_form where group_id = %s"
        assert world.value(forms, group.name) == 0

    def test_group_whose_last_one_went_takes_nothing_until_it_is_cleared(
        self, world: World, group: Group
    ) -> None:
        clear = "select gapless.clear_filter(%s, %s)"
        subscribe(group, "ann", {"customer": 1})
        with pytest.raises(psycopg.Error, match="unsubscribe\\(\\) all of them first"):
            world.value(clear, group.name, world.topic.name)
        unsubscribe(group, "ann")
        of_customers(world, 1)
        assert group.step().events == 0
        assert world.value(clear, group.name, world.topic.name)
        of_customers(world, 1)
        group.step()
        assert group.effects() == [2]

    def test_dropped_group_leaves_nothing(self, world: World, group: Group) -> None:
        subscribe(group, "ann", {"customer": 1})
        group.gone()
        world.value("select gapless.drop_group(%s)", group.name)
        left = "select count(*) from gapless.subscription where group_id = %s"
        assert world.value(left, group.name) == 0


class TestFailures:
    def test_unit_that_fails_is_tried_again_with_who_matched(
        self, world: World, group: Group
    ) -> None:
        subscribe(group, "ann", {"customer": 1})
        subscribe(group, "ben", {"customer": 2})
        world.events(NewEvent(payload={"customer_id": n}) for n in (1, 9, 2))
        of_customers(world, 2)
        seen = Seen(group)
        group.failing = {1}
        retry = Policy(on_failure="retry", retry_delays_s=(0.0,))
        group.step(seen.handler, policy=retry)
        assert group.states() == {1: "waiting"}
        unsubscribe(group, "ben")
        group.failing.clear()
        seen.events.clear()
        group.drive(seen.handler, policy=retry)
        assert seen.events == [(1, ["ann"]), (3, [])]
        assert sorted(group.effects()) == [1, 3, 4]

    def test_batch_that_fails_once_is_handled_with_who_matched_now(
        self, world: World, group: Group
    ) -> None:
        subscribe(group, "ann", {"customer": 1})
        of_customers(world, 1, 1)
        told: list[list[str]] = []

        def take(unit: Unit, conn: psycopg.Connection[Any]) -> None:
            group.effect(unit, conn)
            if not told:
                subscribe(group, "ben", {"customer": 1})
            told.append([each.name for each in unit.subscriptions])
            if len(told) == 1:
                raise ValueError

        while group.step(make_handler(take)).next_offset != 3:
            pass
        assert group.effects() == [1, 2]
        assert told[1:] == [["ann", "ben"]] * 2


CORRECTED: dict[str, dict[str, Any]] = {
    "what handlers see": {"params": {"customer": 1, "mail": "new"}},
    "the values": {"params": {"customer": 7, "mail": "new"}},
    "the match": {"match": {"mail": "key"}},
    "a condition more": {"where": "$.customer_id > $customer"},
    "all of it": {"params": {"min": 9, "mail": "new"}, "match": {}, "where": "$.n > $min"},
}
WAITS: dict[str, tuple[dict[str, Any], dict[int, str]]] = {
    "retry": ({"on_failure": "retry"}, {1: "waiting"}),
    "redrive": ({"on_failure": "dead-letter"}, {1: "dead"}),
    "park-key": ({"on_failure": "park-key"}, {1: "waiting", 2: "parked"}),
}


class TestCorrected:
    """Units that wait for a subscription are handled for the one of its name, as it is now (I1)."""

    @pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
    @pytest.mark.parametrize("waits", WAITS)
    @pytest.mark.parametrize("what", CORRECTED)
    def test_while_a_unit_waits(
        self, world: World, group: Group, what: str, waits: str, delivery: str
    ) -> None:
        said: dict[str, Any] = {"params": {"customer": 1, "mail": "old"}, **CORRECTED[what]}
        policy, states = WAITS[waits]
        limits = {"policy": Policy(retry_delays_s=(3600.0,), **policy)}
        told: list[tuple[int, list[tuple[str, Any]]]] = []

        def take(unit: Unit, *_: object) -> None:
            told.extend((e.offset, [(s.name, s.params) for s in e.subscriptions]) for e in unit)
            group.refuse(unit)

        handler = make_handler(take, delivery=delivery)
        subscribe(group, "ann", {"customer": 1, "mail": "old"})
        of_customers(world, *[1] * len(states), key="k")
        group.failing = {1}
        group.drive(handler, **limits)
        assert group.states() == states
        assert subscribe(group, "ann", **said)
        group.failing.clear()
        told.clear()
        world.value("select gapless.redrive_letter(%s, %s, 0, 1)", group.name, world.topic.name)
        group.drive(handler, **limits)
        assert told == [(n, [("ann", said["params"])]) for n in states]
        assert set(group.states().values()) <= {"redriven"}


class TestOutside:
    """At least once: the window over the log holds what is passed, too."""

    def test_is_told_who_matched_also_at_the_second_attempt(
        self, world: World, group: Group
    ) -> None:
        subscribe(group, "ann", {"customer": 1})
        of_customers(world, 9, 1, 9, 1, 9)
        told: list[tuple[int, list[str]]] = []

        def take(unit: Unit) -> None:
            told.extend((e.offset, [s.name for s in e.subscriptions]) for e in unit)
            if len(told) == 1:
                raise ValueError("refused")

        outside = make_handler(take, delivery="at-least-once")
        group.drive(outside, batch_size=3, concurrency=1)
        assert group.states() == {2: "dead"}
        world.value("select gapless.redrive_letter(%s, %s, 0, 2)", group.name, world.topic.name)
        group.drive(outside, batch_size=3, concurrency=1)
        assert told == [(2, ["ann"]), (4, ["ann"]), (2, ["ann"])]
        assert group.next_offset() == 6
