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
from gapless.consume.unit import Source, Unit
from gapless.consume.user.handler import Handler
from gapless.consume.verdict.failure import Failure, crash_reason
from gapless.consume.verdict.policy import Policy, Verdict
from gapless.errors import HoleError, ReceiptError
from gapless.features.queue import outside as module
from gapless.features.queue.outside import RENEW_AFTER, QueueCalls
from gapless.features.queue.place import Queue, QueuePlace
from gapless.features.queue.receipts import Reserved
from support.turn import terms

CONN: Any = "the session"
TOPICS = {"orders": 1, "mails": 2}
IDLE = Step(outcome="idle")
VISIBLE_S = 10.0


class World:
    """The clock, what calls have ended, and what can be reserved."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1000.0
        self._numbers = count(1)
        self.story: list[Any] = []
        self.open: list[Any] = []
        self.under_way: dict[int, Unit] = {}
        self.ends: list[tuple[int, Ended]] = []
        self.waited_for: list[tuple[int, Ended]] = []
        self.lost: set[str] = set()
        self.verdicts: list[Any] = []
        for name in ("acknowledge", "extend", "fail", "give_back"):
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
        self.place = QueuePlace(self.queue, self.queue.job("orders", 0), 1, 64, 0)

    def calls(self, *, waits: bool = False, wake: Any = str) -> QueueCalls:
        return QueueCalls(self.queue, None if waits else wake)

    def turn(self, calls: QueueCalls, most: int = 3, *, rests: bool = False) -> Step:
        return calls.turn(self.reserve, most, rests=rests)

    def some(self, *names: str, **known: Any) -> list[Reserved]:
        """Events that can be reserved; a receipt is named as its event."""
        made = []
        for name in names:
            number = next(self._numbers)
            source = Source(self.place.partition, lambda _: [], 1)
            found = {"attempts": 0, "crashes": 1, "is_letter": False, "was_dead": False, **known}
            unit: Unit = Unit(source, number, [_row(number)])
            made.append(Reserved(place=self.place, receipt=name, unit=unit, **found))
            self.open.append(made[-1])
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

    def reserve(self, events: int) -> list[Reserved]:
        self.story.append(("reserve", events))
        if self.open and isinstance(self.open[0], Exception):
            raise self.open.pop(0)
        found, self.open = self.open[:events], self.open[events:]
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


def _reserve(events: int) -> tuple[str, int]:
    return ("reserve", events)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def _begun(world: World, *names: str, **known: Any) -> QueueCalls:
    """Calls of these events, begun."""
    calls = world.calls()
    world.some(*names, **known)
    world.turn(calls)
    world.told()
    return calls


# -- what begins ----------------------------------------------------------------------------------


def test_as_many_begin_as_there_is_room_for(world: World) -> None:
    calls = world.calls()
    assert not calls.going_on
    assert calls.oldest_s == 5.0
    assert calls.wait_s == VISIBLE_S
    world.some("a", "b", "c", "d")
    assert world.turn(calls) == Step(outcome="done")
    assert world.told() == [_reserve(3), *(("call", n, n) for n in (1, 2, 3))]
    assert calls.going_on
    assert world.turn(calls) == IDLE
    assert world.told() == []
    world.ends = [(2, None)]
    assert world.turn(calls) == Step(outcome="done", events=1, units=1, handled=1)
    assert world.told() == [("acknowledge", "b"), _reserve(1), ("call", 4, 4)]
    world.ends = [(1, None), (3, None)]
    world.turn(calls)
    assert world.told() == [("acknowledge", "a", "c"), _reserve(2)]


def test_at_most_as_many_as_the_turn_says(world: World) -> None:
    calls = world.calls()
    world.some("a", "b", "c")
    world.turn(calls, most=1)
    assert world.told() == [_reserve(1), ("call", 1, 1)]
    world.turn(calls, most=1)
    assert world.told() == []


def test_to_rest_begins_nothing_and_lets_go_of_what_is_not_called(world: World) -> None:
    calls = _begun(world, "a")
    world.some("s", "t", crashes=2)
    world.turn(calls)
    world.told()
    assert world.turn(calls, rests=True) == IDLE
    assert world.told() == [("give back", "s", CONN), ("give back", "t", CONN)]
    world.ends = [(1, None)]
    assert world.turn(calls, rests=True).handled == 1
    assert world.told() == [("acknowledge", "a")]
    assert not calls.going_on


def test_a_suspect_is_called_when_nothing_else_is(world: World) -> None:
    calls = _begun(world, "a")
    world.some("s", "t", crashes=2)
    world.some("m")
    assert world.turn(calls) == IDLE, "they wait"
    assert world.told() == [_reserve(2)], "and nothing else begins"
    assert world.turn(calls) == IDLE
    assert world.told() == []
    world.ends = [(1, None)]
    assert world.turn(calls).outcome == "done"
    assert world.told() == [("acknowledge", "a"), ("call", 2, 2)]
    assert world.turn(calls) == IDLE
    world.ends = [(2, None)]
    world.turn(calls)
    assert world.told() == [("acknowledge", "s"), ("call", 3, 3)]
    assert world.turn(calls) == IDLE
    assert world.told() == [], "the last one is alone, too"
    world.ends = [(3, None)]
    world.turn(calls)
    assert world.told() == [("acknowledge", "t"), _reserve(3), ("call", 4, 4)]


def test_a_suspect_alone_begins_at_once(world: World) -> None:
    calls = world.calls()
    world.some("s", crashes=2)
    assert world.turn(calls) == Step(outcome="done")
    assert world.told()[-1] == ("call", 1, 1)
    assert calls.going_on


def test_what_too_many_died_of_is_given_up_unseen(world: World) -> None:
    calls = world.calls()
    world.some("p", crashes=4)
    assert world.turn(calls) == Step(outcome="done", events=1, units=1, dead=1)
    assert world.told() == [
        _reserve(3), ("fail", "p", crash_reason(3, ""), 0, Verdict(state="dead")),
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
    assert world.turn(calls) == Step(outcome="done", events=1, units=1, **done)
    assert world.told()[0] == ("fail", "a", str(error), 1, verdict)
    assert world.verdicts == [(error, verdict.state, known.get("attempts", 0) + 1)]
    assert not calls.going_on


def test_what_is_to_be_skipped_counts_as_handled(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    calls = _begun(world, "a", "b")
    world.lost = {"b"}
    world.ends = [(n, Failure(error=gapless.Skip("of no use"))) for n in (1, 2)]
    assert world.turn(calls) == Step(outcome="done", events=2, units=2, handled=2)
    assert world.told()[:2] == [("acknowledge", "a"), ("acknowledge", "b")]
    assert [message.partition(":")[0] for message in caplog.messages] == ["g/orders/0@2"]


def test_what_came_too_late_is_told(world: World, caplog: pytest.LogCaptureFixture) -> None:
    calls = _begun(world, "a", "b", "c")
    world.lost = {"b", "c"}
    world.ends = [(1, None), (2, None), (3, Failure(error=ValueError("no")))]
    with caplog.at_level(logging.WARNING, "gapless.worker"):
        done = world.turn(calls)
    assert (done.events, done.waiting, done.asked) == (3, 0, 0)
    assert [message.partition(":")[0] for message in caplog.messages] == [
        "g/orders/0@2", "g/orders/0@3",
    ]  # fmt: skip
    assert not calls.going_on


def test_what_died_too_often_and_is_anothers_is_not_counted(world: World) -> None:
    calls = world.calls()
    world.lost = {"p"}
    world.some("p", crashes=4)
    assert world.turn(calls) == IDLE


def test_trouble_is_raised_when_all_have_ended(world: World) -> None:
    calls = _begun(world, "a", "b", "c")
    world.some("d")
    world.ends = [(2, ConnectionError("first")), (3, KeyError("second"))]
    assert world.turn(calls) == IDLE, "nothing else begins"
    assert world.told() == [("give back", "b", CONN), ("give back", "c", CONN)]
    world.ends = [(1, None)]
    with pytest.raises(ConnectionError, match="first"):
        world.turn(calls)
    assert world.told() == [("acknowledge", "a")]
    world.turn(calls)
    assert ("call", 4, 4) in world.told()


def test_without_a_wake_a_turn_waits(world: World) -> None:
    calls = world.calls(waits=True)
    assert world.turn(calls) == IDLE
    assert "wait" not in world.told()
    world.some("a")
    assert world.turn(calls) == Step(outcome="done")
    assert "wait" not in world.told()
    world.waited_for = [(1, None)]
    assert world.turn(calls).handled == 1
    assert world.told()[-2:] == ["wait", ("acknowledge", "a")]
    world.some("b", "c")
    world.turn(calls)
    world.ends = [(2, None)]
    world.told()
    assert world.turn(calls).handled == 1
    assert "wait" not in world.told()
    world.waited_for = [(3, ConnectionError("lost"))]
    with pytest.raises(ConnectionError):
        world.turn(calls)


def test_who_gives_it_a_wake_is_not_kept_waiting(world: World) -> None:
    woken: list[bool] = []
    calls = world.calls(wake=lambda: woken.append(True))
    assert woken
    world.some("a")
    world.turn(calls)
    world.turn(calls)
    assert "wait" not in world.told()


# -- what lasts -----------------------------------------------------------------------------------


def test_a_reservation_is_renewed_in_time(world: World) -> None:
    calls = _begun(world, "a")
    after_s = RENEW_AFTER * VISIBLE_S
    assert calls.wait_s == after_s
    world.now_s += 1.0
    world.some("b")
    world.turn(calls)
    assert calls.wait_s == after_s - 1.0
    world.now_s += after_s - 1.5
    world.turn(calls)
    assert ("extend", "a") not in world.told()
    world.now_s += 0.5
    world.turn(calls)
    assert world.told()[0] == ("extend", "a")
    assert calls.wait_s == 1.0
    world.now_s += 1.0
    world.turn(calls)
    assert world.told()[0] == ("extend", "b")
    world.now_s += 4.0
    assert calls.wait_s == 0.0
    world.turn(calls)
    assert {each for each in world.told() if each[0] == "extend"} == {
        ("extend", "a"),
        ("extend", "b"),
    }
    world.ends = [(1, None)]
    world.now_s += 20.0
    world.turn(calls)
    assert [each for each in world.told() if each[0] == "extend"] == [("extend", "b")]


def test_what_cannot_be_renewed_is_not_renewed_again_and_not_called_later(world: World) -> None:
    calls = _begun(world, "a")
    world.some("s", "t", crashes=2)
    world.turn(calls)
    world.told()
    world.lost = {"s", "a"}
    world.now_s += VISIBLE_S
    world.turn(calls)
    assert world.told() == [("extend", "a"), ("extend", "s"), ("extend", "t")]
    world.now_s += VISIBLE_S
    world.turn(calls)
    assert world.told() == [("extend", "t")]
    world.ends = [(1, None)]
    world.turn(calls)
    assert world.told() == [("acknowledge", "a"), ("call", 2, 3)]


def test_all_in_hand_is_given_back_from_a_new_session(world: World) -> None:
    calls = _begun(world, "a", "b")
    world.some("s", crashes=2)
    world.turn(calls)
    world.told()
    new: Any = "another session"
    calls.give_all_back(Queue(
        conn=new, handler=world.queue.handler, terms=world.queue.terms, group_id="g",
        topics=TOPICS, worker="w", reserve_s=60.0,
    ))  # fmt: skip
    assert world.told() == [("give back", name, new) for name in ("a", "b", "s")]


# -- holes ----------------------------------------------------------------------------------------


def test_a_hole_is_told_where_nothing_else_is_done(world: World) -> None:
    calls = world.calls()
    world.some("a")
    world.turn(calls)
    world.open = [HoleError("lost")]
    world.ends = [(1, None)]
    assert world.turn(calls).handled == 1, "what has ended counts"
    with pytest.raises(HoleError):
        world.turn(calls)
    assert world.turn(calls) == IDLE, "there is none any more"
