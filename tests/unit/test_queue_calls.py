"""What an at-least-once queue does with its calls: what begins, what ended, renewals, holes, what is lost.

With a clock that stands still; calls, reservations and acknowledgements are as a test wants.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

import pytest

import gapless
from gapless.consume.job import Step
from gapless.consume.outside.calls import Ended
from gapless.consume.queue import outside as module
from gapless.consume.queue.outside import HOLE_AGAIN_S, RENEW_AFTER, QueueCalls
from gapless.consume.queue.place import Queue, QueuePlace
from gapless.consume.queue.receipts import Reserved
from gapless.consume.queue.shares import Shares
from gapless.consume.unit import Source, Unit
from gapless.consume.user.handler import Handler
from gapless.consume.verdict.crash import crash_reason
from gapless.consume.verdict.failure import Failure
from gapless.consume.verdict.policy import Policy, Verdict
from gapless.errors import HoleError, ReceiptError
from support.turn import terms

CONN: Any = "the session"
TOPICS = {"orders": 1, "mails": 2}
IDLE = Step(outcome="idle")
VISIBLE_S = 10.0


class World:
    """The clock, what calls have ended, and what can be reserved, by topic."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1000.0
        self._numbers = count(1)
        self.story: list[Any] = []
        self.open: dict[str, list[Any]] = {"orders": [], "mails": []}
        self.under_way: dict[int, Unit] = {}
        self.ends: list[tuple[int, Ended]] = []
        self.waited_for: list[tuple[int, Ended]] = []
        self.lost: set[str] = set()
        self.verdicts: list[Any] = []
        for name in ("acknowledge", "extend", "fail", "give_back", "reserve"):
            monkeypatch.setattr(module, name, getattr(self, name))
        monkeypatch.setattr(module, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(module, "Calls", self._calls)
        monkeypatch.setattr(module.spans, "verdict", lambda *told: self.verdicts.append(told))
        made: Handler = gapless.handler(
            topic=[*TOPICS], mode="queue", group="g", delivery="at-least-once"
        )(_handle)
        policy = Policy(on_failure="retry", retry_delays_s=(3.0,), crashes_max=2)
        agreed = terms(made, policy=policy, concurrency=3, visibility_s=VISIBLE_S)
        self.queue = Queue(
            conn=CONN, handler=made, terms=agreed, group_id="g", topics=TOPICS, worker="w",
            reserve_s=60.0,
        )  # fmt: skip
        self.places: dict[str, dict[int, QueuePlace]] = {
            topic: {0: QueuePlace(self.queue, self.queue.job(topic, 0), 1, 64, 0)}
            for topic in TOPICS
        }

    def calls(
        self, *, waits: bool = False, weights: tuple[int, ...] = (), wake: Any = str
    ) -> QueueCalls:
        return QueueCalls(self.queue, Shares(tuple(TOPICS), weights), None if waits else wake)

    def some(self, *names: str, topic: str = "orders", **known: Any) -> list[Reserved]:
        """Events that can be reserved; a receipt is named as its event."""
        made = []
        for name in names:
            number = next(self._numbers)
            source = Source(self.places[topic][0].partition, lambda _: [], 1)
            found = {"attempts": 0, "crashes": 1, "is_letter": False, "was_dead": False, **known}
            unit: Unit = Unit(source, number, [_row(number)])
            place = self.places[topic][0]
            made.append(Reserved(place=place, receipt=name, unit=unit, **found))
            self.open[topic].append(made[-1])
        return made

    def told(self) -> list[Any]:
        told, self.story = self.story, []
        return told

    # -- Calls ------------------------------------------------------------------------------------

    def _calls(self, handler: object, concurrency: int, wake: Callable[[], None]) -> World:
        assert handler is self.queue.handler
        assert concurrency == 3
        wake()
        return self

    oldest_s = 5.0

    def __len__(self) -> int:
        return len(self.under_way)

    def begin(self, unit: Unit, conn: object, number: int) -> None:
        assert conn is CONN
        self.story.append(("call", number, unit.first_offset))
        self.under_way[number] = unit

    def collect(self, *, wait: bool) -> Iterator[tuple[int, Ended]]:
        if wait:
            self.story.append("wait")
        found = self.ends or (self.waited_for if wait else [])
        while found:
            number, end = found.pop(0)
            del self.under_way[number]
            yield number, end

    # -- receipts ---------------------------------------------------------------------------------

    def reserve(
        self, queue: Queue, topic: str, places: Any, events: int, visibility_s: float
    ) -> list[Reserved]:
        assert (queue, places, visibility_s) == (self.queue, self.places[topic], VISIBLE_S)
        self.story.append(("reserve", topic, events))
        waiting = self.open[topic]
        if waiting and isinstance(waiting[0], Exception):
            raise waiting.pop(0)
        found, self.open[topic] = waiting[:events], waiting[events:]
        return found

    def acknowledge(self, queue: Queue, handled: Sequence[Reserved]) -> list[Reserved]:
        assert queue is self.queue
        self.story.append(("acknowledge", *(each.receipt for each in handled)))
        return [each for each in handled if each.receipt in self.lost]

    def fail(self, queue: Queue, reserved: Reserved, failure: Failure, verdict: Verdict) -> None:
        assert queue is self.queue
        self.story.append(("fail", reserved.receipt, str(failure.error), failure.attempts, verdict))
        if reserved.receipt in self.lost:
            raise ReceiptError("lost")

    def give_back(self, queue: Queue, reserved: Reserved) -> None:
        self.story.append(("give back", reserved.receipt, queue.conn))

    def extend(self, queue: Queue, receipt: str, visibility_s: float) -> bool:
        assert (queue, visibility_s) == (self.queue, VISIBLE_S)
        self.story.append(("extend", receipt))
        return receipt not in self.lost


def _row(number: int) -> Any:
    return (number,)


def _handle(unit: object) -> None: ...


def _reserve(events: int, topic: str = "orders") -> tuple[str, str, int]:
    return ("reserve", topic, events)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def _begun(world: World, *names: str, **known: Any) -> QueueCalls:
    """Calls of these events of orders, begun."""
    calls = world.calls()
    world.some(*names, **known)
    calls.turn(world.places)
    world.told()
    return calls


# -- what begins ----------------------------------------------------------------------------------


def test_as_many_begin_as_there_is_room_for(world: World) -> None:
    calls = world.calls()
    assert not calls.going_on
    assert calls.oldest_s == 5.0
    assert calls.wait_s == VISIBLE_S
    world.some("a", "b", "c", "d")
    world.some("m", topic="mails")
    assert calls.turn(world.places) == Step(outcome="done")
    assert world.told() == [_reserve(3), *(("call", n, n) for n in (1, 2, 3))]
    assert calls.going_on
    assert calls.turn(world.places) == IDLE
    assert world.told() == []
    world.ends = [(2, None)]
    assert calls.turn(world.places) == Step(outcome="done", events=1, units=1, handled=1)
    assert world.told() == [("acknowledge", "b"), _reserve(1), ("call", 4, 4)]
    world.ends = [(1, None), (3, None)]
    calls.turn(world.places)
    assert world.told() == [
        ("acknowledge", "a", "c"), _reserve(2), _reserve(2, "mails"), ("call", 5, 5),
    ]  # fmt: skip


def test_at_most_as_many_as_the_turn_says(world: World) -> None:
    calls = world.calls()
    world.some("a", "b", "c")
    calls.turn(world.places, most=1)
    assert world.told() == [_reserve(1), ("call", 1, 1)]
    calls.turn(world.places, most=1)
    assert world.told() == []


def test_topics_have_their_shares(world: World) -> None:
    calls = world.calls(weights=(1, 1))
    world.some("a", "b", "c", "d")
    calls.turn(world.places)
    world.told()
    world.some("m", "n", topic="mails")
    world.ends = [(1, None)]
    calls.turn(world.places)
    assert world.told()[1:] == [_reserve(1, "mails"), ("call", 4, 5)]


def test_to_rest_begins_nothing_and_lets_go_of_what_is_not_called(world: World) -> None:
    calls = _begun(world, "a")
    world.some("s", "t", crashes=2)
    calls.turn(world.places)
    world.told()
    assert calls.turn(world.places, rests=True) == IDLE
    assert world.told() == [("give back", "s", CONN), ("give back", "t", CONN)]
    world.ends = [(1, None)]
    assert calls.turn(world.places, rests=True).handled == 1
    assert world.told() == [("acknowledge", "a")]
    assert not calls.going_on


def test_a_suspect_is_called_when_nothing_else_is(world: World) -> None:
    calls = _begun(world, "a")
    world.some("s", "t", crashes=2)
    world.some("m", topic="mails")
    assert calls.turn(world.places) == IDLE, "they wait"
    assert world.told() == [_reserve(2)], "and nothing else begins"
    assert calls.turn(world.places) == IDLE
    assert world.told() == []
    world.ends = [(1, None)]
    assert calls.turn(world.places).outcome == "done"
    assert world.told() == [("acknowledge", "a"), ("call", 2, 2)]
    assert calls.turn(world.places) == IDLE
    world.ends = [(2, None)]
    calls.turn(world.places)
    assert world.told() == [("acknowledge", "s"), ("call", 3, 3)]
    assert calls.turn(world.places) == IDLE
    assert world.told() == [], "the last one is alone, too"
    world.ends = [(3, None)]
    calls.turn(world.places)
    assert world.told() == [
        ("acknowledge", "t"), _reserve(3), _reserve(3, "mails"), ("call", 4, 4),
    ]  # fmt: skip


def test_a_suspect_alone_begins_at_once(world: World) -> None:
    calls = world.calls()
    world.some("s", crashes=2)
    assert calls.turn(world.places) == Step(outcome="done")
    assert world.told()[-1] == ("call", 1, 1)
    assert calls.going_on


def test_what_too_many_died_of_is_given_up_unseen(world: World) -> None:
    calls = world.calls()
    world.some("p", crashes=4)
    assert calls.turn(world.places) == Step(outcome="done", events=1, units=1, dead=1)
    assert world.told() == [
        _reserve(3), ("fail", "p", crash_reason(3, ""), 0, Verdict(state="dead")),
        _reserve(3, "mails"),
    ]  # fmt: skip
    assert not calls.going_on


# -- what has ended -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "known", "verdict", "done"),
    [
        (ValueError("no"), {}, Verdict(state="waiting", retry_after_s=3.0), {"waiting": 1}),
        (ValueError("no"), {"attempts": 1}, Verdict(state="dead"), {"dead": 1}),
        (ValueError("no"), {"was_dead": True}, Verdict(state="dead"), {"dead": 1}),
        (
            gapless.Retry(after=2.0), {"attempts": 5},
            Verdict(state="waiting", retry_after_s=2.0), {"waiting": 1, "asked": 1},
        ),
    ],
)  # fmt: skip
def test_what_failed_is_set_aside_as_the_policy_says(
    world: World, error: Exception, known: Any, verdict: Verdict, done: Any
) -> None:
    calls = _begun(world, "a", **known)
    world.ends = [(1, Failure(error=error))]
    assert calls.turn(world.places) == Step(outcome="done", events=1, units=1, **done)
    assert world.told()[0] == ("fail", "a", str(error), 1, verdict)
    assert world.verdicts == [(error, verdict.state, known.get("attempts", 0) + 1)]
    assert not calls.going_on


def test_what_is_to_be_skipped_counts_as_handled(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    calls = _begun(world, "a", "b")
    world.lost = {"b"}
    world.ends = [(n, Failure(error=gapless.Skip("of no use"))) for n in (1, 2)]
    assert calls.turn(world.places) == Step(outcome="done", events=2, units=2, handled=2)
    assert world.told()[:2] == [("acknowledge", "a"), ("acknowledge", "b")]
    assert [message.partition(":")[0] for message in caplog.messages] == ["g/orders/0@2"]


def test_what_came_too_late_is_told(world: World, caplog: pytest.LogCaptureFixture) -> None:
    calls = _begun(world, "a", "b", "c")
    world.lost = {"b", "c"}
    world.ends = [(1, None), (2, None), (3, Failure(error=ValueError("no")))]
    with caplog.at_level(logging.WARNING, "gapless.worker"):
        done = calls.turn(world.places)
    assert (done.events, done.waiting, done.asked) == (3, 0, 0)
    assert [message.partition(":")[0] for message in caplog.messages] == [
        "g/orders/0@2", "g/orders/0@3",
    ]  # fmt: skip
    assert not calls.going_on


def test_what_died_too_often_and_is_anothers_is_not_counted(world: World) -> None:
    calls = world.calls()
    world.lost = {"p"}
    world.some("p", crashes=4)
    assert calls.turn(world.places) == IDLE


def test_trouble_is_raised_when_all_have_ended(world: World) -> None:
    calls = _begun(world, "a", "b", "c")
    world.some("d")
    world.ends = [(2, ConnectionError("first")), (3, KeyError("second"))]
    assert calls.turn(world.places) == IDLE, "nothing else begins"
    assert world.told() == [("give back", "b", CONN), ("give back", "c", CONN)]
    world.ends = [(1, None)]
    with pytest.raises(ConnectionError, match="first"):
        calls.turn(world.places)
    assert world.told() == [("acknowledge", "a")]
    calls.turn(world.places)
    assert ("call", 4, 4) in world.told()


def test_without_a_wake_a_turn_waits(world: World) -> None:
    calls = world.calls(waits=True)
    assert calls.turn(world.places) == IDLE
    assert "wait" not in world.told()
    world.some("a")
    assert calls.turn(world.places) == Step(outcome="done")
    assert "wait" not in world.told()
    world.waited_for = [(1, None)]
    assert calls.turn(world.places).handled == 1
    assert world.told()[-2:] == ["wait", ("acknowledge", "a")]
    world.some("b", "c")
    calls.turn(world.places)
    world.ends = [(2, None)]
    world.told()
    assert calls.turn(world.places).handled == 1
    assert "wait" not in world.told()
    world.waited_for = [(3, ConnectionError("lost"))]
    with pytest.raises(ConnectionError):
        calls.turn(world.places)


def test_who_gives_it_a_wake_is_not_kept_waiting(world: World) -> None:
    woken: list[bool] = []
    calls = world.calls(wake=lambda: woken.append(True))
    assert woken
    world.some("a")
    calls.turn(world.places)
    calls.turn(world.places)
    assert "wait" not in world.told()


# -- what lasts -----------------------------------------------------------------------------------


def test_a_reservation_is_renewed_in_time(world: World) -> None:
    calls = _begun(world, "a")
    after_s = RENEW_AFTER * VISIBLE_S
    assert calls.wait_s == after_s
    world.now_s += 1.0
    world.some("b")
    calls.turn(world.places)
    assert calls.wait_s == after_s - 1.0
    world.now_s += after_s - 1.5
    calls.turn(world.places)
    assert ("extend", "a") not in world.told()
    world.now_s += 0.5
    calls.turn(world.places)
    assert world.told()[0] == ("extend", "a")
    assert calls.wait_s == 1.0
    world.now_s += 1.0
    calls.turn(world.places)
    assert world.told()[0] == ("extend", "b")
    world.now_s += 4.0
    assert calls.wait_s == 0.0
    calls.turn(world.places)
    assert {each for each in world.told() if each[0] == "extend"} == {
        ("extend", "a"),
        ("extend", "b"),
    }
    world.ends = [(1, None)]
    world.now_s += 20.0
    calls.turn(world.places)
    assert [each for each in world.told() if each[0] == "extend"] == [("extend", "b")]


def test_what_cannot_be_renewed_is_not_renewed_again_and_not_called_later(world: World) -> None:
    calls = _begun(world, "a")
    world.some("s", "t", crashes=2)
    calls.turn(world.places)
    world.told()
    world.lost = {"s", "a"}
    world.now_s += VISIBLE_S
    calls.turn(world.places)
    assert world.told() == [("extend", "a"), ("extend", "s"), ("extend", "t")]
    world.now_s += VISIBLE_S
    calls.turn(world.places)
    assert world.told() == [("extend", "t")]
    world.ends = [(1, None)]
    calls.turn(world.places)
    assert world.told() == [("acknowledge", "a"), ("call", 2, 3)]


def test_all_in_hand_is_given_back_from_a_new_session(world: World) -> None:
    calls = _begun(world, "a", "b")
    world.some("s", crashes=2)
    calls.turn(world.places)
    world.told()
    new: Any = "another session"
    calls.give_all_back(Queue(
        conn=new, handler=world.queue.handler, terms=world.queue.terms, group_id="g",
        topics=TOPICS, worker="w", reserve_s=60.0,
    ))  # fmt: skip
    assert world.told() == [("give back", name, new) for name in ("a", "b", "s")]


# -- holes ----------------------------------------------------------------------------------------


def test_a_hole_is_told_now_and_then_where_nothing_else_is_done(world: World) -> None:
    calls = world.calls()
    world.open["orders"] = [HoleError("lost") for _ in range(5)]
    world.some("m", topic="mails")
    assert calls.turn(world.places) == Step(outcome="done"), "another topic is served"
    world.ends = [(1, None)]
    assert calls.turn(world.places).handled == 1
    with pytest.raises(HoleError):
        calls.turn(world.places)
    assert calls.turn(world.places) == IDLE
    world.now_s += HOLE_AGAIN_S
    with pytest.raises(HoleError):
        calls.turn(world.places)
    world.now_s += HOLE_AGAIN_S
    assert calls.turn(world.places) == IDLE, "there is none any more"
