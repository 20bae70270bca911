"""What the driver of a queue does turn by turn: which partition is next, what is due, when it looks and sweeps.

With a clock that stands still; places, what is taken and what is reserved are as a test wants.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

import gapless
from gapless.consume.job import Step
from gapless.consume.user.handler import Handler
from gapless.errors import HoleError
from gapless.features.queue import drive as module
from gapless.features.queue.drive import (
    GOES_ON_S,
    HOLE_RETRY_S,
    LOOK_BUSY_S,
    SOON_S,
    SWEEP_EVERY_CLAIMS,
    QueueDriver,
)
from gapless.features.queue.place import Queue, QueuePlace
from support.turn import terms

CONN: Any = "the session"
TOPICS = {"orders": 1, "mails": 2}
IDLE = Step(outcome="idle")
DONE = Step(outcome="done", events=4, units=4, handled=4)


class Calls:
    """Stands for QueueCalls."""

    def __init__(self, story: list[Any]) -> None:
        self.story = story
        self.going_on = False
        self.oldest_s: float | None = None
        self.wait_s = 0.2
        self.reserves = False

    def turn(
        self, reserve: Callable[[int], Sequence[Any]], most: int, *, rests: bool = False
    ) -> Step:
        if self.reserves:
            return Step(outcome="done", events=len(reserve(most)))
        self.story.append(("calls", most, rests))
        return DONE

    def give_all_back(self, queue: Queue) -> None:
        self.story.append(("given back", queue.conn))


class World:
    """Two topics, whose partitions are in `open`: events to take, by topic and number."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1000.0
        self.story: list[Any] = []
        self.open: dict[str, dict[int, int]] = {"orders": {0: 0, 1: 0}, "mails": {0: 0}}
        self.unfinished = 0
        self.aside: dict[str, tuple[bool, float | None]] = {}
        self.reserved: dict[str, list[Any]] = {}
        self.steps: list[Any] = []
        self.went_on: list[bool] = []
        self.in_step: Callable[[], bool] = lambda: True
        self.calls = Calls(self.story)
        for name in (
            "find_places", "is_aside_due", "sweep", "step_place", "reserve", "step_reserved",
            "reserve_next",
        ):  # fmt: skip
            monkeypatch.setattr(module, name, getattr(self, name))
        monkeypatch.setattr(module, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(module, "QueueCalls", lambda *_: self.calls)

    def queue(self, *, outside: bool = False, weights: tuple[int, ...] = ()) -> Queue:
        topics: Any = dict(zip(TOPICS, weights, strict=True)) if weights else [*TOPICS]
        kind: Any = {"mode": "queue", "group": "g", "topic": topics, "batch_size": 4}
        made: Handler
        if outside:
            made = gapless.handler(**kind, delivery="at-least-once")(_at_least_once)
        else:
            made = gapless.handler(**kind)(_exactly_once)
        return Queue(
            conn=CONN, handler=made, terms=terms(made), group_id="g", topics=TOPICS,
            worker="w", reserve_s=60.0, holds=lambda *held: self.story.append(("holds", *held)),
        )  # fmt: skip

    def driver(
        self, *, outside: bool = False, weights: tuple[int, ...] = (), wait_period_s: float = 3.0
    ) -> QueueDriver:
        queue = self.queue(outside=outside, weights=weights)
        driver = QueueDriver(queue, wait_period_s=wait_period_s)
        self.in_step = lambda: driver.has_attempt
        return driver

    def told(self) -> list[Any]:
        told = self.story[:]
        self.story.clear()
        return told

    def find_places(
        self, queue: Queue, topic: str, known: Mapping[int, QueuePlace]
    ) -> dict[int, QueuePlace]:
        self.story.append(("look", topic))
        found = {}
        for number, is_open in self.open[topic].items():
            place = known.get(number) or QueuePlace(queue, queue.job(topic, number), 1, 64, 0)
            place.open, place.unfinished = is_open, self.unfinished
            found[number] = place
        return found

    def is_aside_due(self, queue: Queue, topic: str) -> tuple[bool, float | None]:
        return self.aside.get(topic, (False, None))

    def sweep(self, place: QueuePlace) -> None:
        self.story.append(("sweep", _name(place)))

    def step_place(
        self, place: QueuePlace, *, batch_size: int, continue_while: Callable[[], bool]
    ) -> tuple[Step, str]:
        assert self.in_step()
        self.story.append(("take", _name(place), place.hint, batch_size))
        self.went_on.append(continue_while())
        before_s, self.now_s = self.now_s, self.now_s + GOES_ON_S
        self.went_on.append(continue_while())
        self.now_s = before_s
        found = self.steps.pop(0) if self.steps else (DONE, "claimed")
        if isinstance(found, Exception):
            raise found
        place.claims += 1
        return found  # type: ignore[no-any-return]

    def reserve_next(self, place: QueuePlace, events: int) -> tuple[list[str], str]:
        self.story.append(("take", _name(place), place.hint, events))
        done, outcome = self.steps.pop(0)
        return ["an event"] * done.events, outcome

    def reserve(
        self, queue: Queue, topic: str, places: Mapping[int, QueuePlace], events: int,
        visibility_s: float, what: str,
    ) -> list[Any]:  # fmt: skip
        assert (events, visibility_s, what) == (1, 60.0, "aside")
        assert {place.partition.topic for place in places.values()} == {topic}
        self.story.append(("reserve", topic))
        found = self.reserved.get(topic, [])
        each = found.pop(0) if found else None
        if isinstance(each, Exception):
            raise each
        return [] if each is None else [_Reserved(each)]

    def step_reserved(self, place: object, reserved: _Reserved) -> Step:
        assert place == f"the place of {reserved.name}"
        self.story.append(("aside", reserved.name))
        return Step(outcome="done", events=1, units=1, handled=1)


class _Reserved:
    def __init__(self, name: str) -> None:
        self.name = name
        self.place = f"the place of {name}"


def _name(place: QueuePlace) -> str:
    return f"{place.partition.topic}/{place.partition.partition_id}"


def _exactly_once(unit: object, conn: object) -> None: ...
def _at_least_once(unit: object) -> None: ...


LOOKED = [("look", "orders"), ("look", "mails")]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def _take(name: str, hint: int | None = None, size: int = 4) -> tuple[Any, ...]:
    return ("take", name, hint, size)


def test_what_it_has(world: World) -> None:
    driver = world.driver()
    assert driver.conn is CONN
    assert not driver.going_on
    assert not driver.has_attempt
    assert driver.oldest_s is None
    assert driver.rest() == IDLE
    assert world.told() == []
    driver.turn()
    assert [_name(place) for place in driver.places] == ["orders/0", "orders/1", "mails/0"]
    assert set(driver.channels) == {"gapless_p_1_0", "gapless_p_1_1", "gapless_p_2_0"}


def test_the_first_partition_that_has_anything_is_next(world: World) -> None:
    driver = world.driver()
    assert driver.turn() == IDLE
    assert world.told() == LOOKED
    assert driver.wait_s(IDLE) == 3.0
    assert driver.wait_s(DONE) == 0.0
    world.now_s += 2.9
    assert driver.turn() == IDLE
    assert world.told() == []
    world.open = {"orders": {0: 0, 1: 4}, "mails": {0: 4}}
    world.now_s += 0.1
    assert driver.turn() == DONE
    assert driver.turn(one=True) == DONE
    assert world.told() == [*LOOKED, _take("orders/1"), _take("orders/1", size=1)]
    assert world.went_on == [True, False] * 2
    assert not driver.has_attempt


def test_a_clock_that_has_just_begun_keeps_nothing_back(world: World) -> None:
    world.now_s = 0.5
    driver = world.driver()
    assert driver.wait_s(IDLE) == 0.0
    driver.turn()
    assert world.told() == LOOKED
    for look_again in (driver.wake, lambda: driver.hear(["another"], grew_only=True)):
        look_again()
        driver.turn()
        assert world.told() == LOOKED
    driver.hear(["gapless_p_1_0"], grew_only=True)
    world.steps = [(IDLE, "moved")]
    driver.turn()
    world.told()
    world.aside, world.reserved = {"orders": (True, None)}, {"orders": ["a"]}
    assert driver.turn().handled == 1, "after a move it looks again, and what is due is due"
    assert world.told()[-2:] == [("reserve", "orders"), ("aside", "a")]


def test_while_there_is_work_it_looks_more_often(world: World) -> None:
    driver = world.driver()
    world.open["mails"] = {0: 1}
    driver.turn()
    world.now_s += LOOK_BUSY_S - 0.001
    driver.turn()
    assert world.told() == [*LOOKED, _take("mails/0"), _take("mails/0")]
    world.now_s += 0.001
    driver.turn()
    assert world.told() == [*LOOKED, ("sweep", "mails/0"), _take("mails/0")]
    assert [place.claims for place in driver.places] == [0, 0, 1], "since that look"
    quick = world.driver(wait_period_s=0.5)
    quick.turn()
    assert quick.wait_s(IDLE) == 0.5


def test_its_period_is_a_second_unless_it_is_told(world: World) -> None:
    driver = QueueDriver(world.queue())
    driver.turn()
    assert driver.wait_s(IDLE) == 1.0


def test_a_session_that_is_lost_amid_a_step_has_an_attempt(world: World) -> None:
    driver = world.driver()
    world.open["orders"] = {0: 1}
    world.steps = [ConnectionError()]
    with pytest.raises(ConnectionError):
        driver.turn()
    assert driver.has_attempt
    world.told()
    driver.forgive(CONN)
    assert world.told() == [("holds", 0, 0, 0)]
    driver.turn()
    assert not driver.has_attempt


# -- what a take says -----------------------------------------------------------------------------


def _hinted(world: World, hint: int | None = 9, **known: Any) -> tuple[QueueDriver, QueuePlace]:
    """A driver that has looked, with an open partition and a hint where to take."""
    driver = world.driver()
    world.open = {"orders": {0: 5}, "mails": {}}
    driver.turn()
    (place,) = driver.places
    place.hint = hint
    for name, value in known.items():
        setattr(place, name, value)
    world.told()
    return driver, place


@pytest.mark.parametrize(
    ("hint", "events", "outcome", "is_open", "hint_then", "looks"),
    [
        (9, 4, "claimed", True, 9, False),  # a full one: there may be more
        (9, 3, "claimed", True, None, False),  # from the floor on, too, before it rests
        (65, 3, "claimed", True, 65, False),  # it ended with its block
        (None, 3, "claimed", False, None, False),
        (None, 1, "claimed", False, None, False),
        (None, 4, "claimed", True, None, False),
        (None, 0, "claimed", True, None, False),  # all of it was tried again, and is not told
        (9, 0, "claimed", True, 9, False),
        (9, 0, "idle", True, None, False),
        (None, 0, "idle", False, None, False),
        (9, 4, "busy", False, None, False),
        (9, 0, "held", True, None, False),
        (None, 0, "held", False, None, False),
        (9, 0, "moved", False, None, True),
        (9, 0, "noted", True, None, False),
        (None, 0, "noted", False, None, False),
    ],
)
def test_what_a_take_says_of_the_next_one(
    world: World, hint: int | None, events: int, outcome: str, hint_then: int | None,
    *, is_open: bool, looks: bool,
) -> None:  # fmt: skip
    driver, place = _hinted(world, hint)
    done = Step(outcome="done" if events else "idle", events=events)
    world.steps = [(done, outcome), (IDLE, "busy")]
    answer = driver.turn()
    seen = world.told()
    took = [each for each in seen if each[0] == "take"]
    if is_open and not events:  # it is asked once more in this turn
        assert took.pop() == _take("orders/0", hint_then)
    else:
        assert (place.open > 0, place.hint) == (is_open, hint_then)
    assert took == [_take("orders/0", hint)]
    assert answer == (done if events else IDLE)
    assert driver.wait_s(IDLE) != SOON_S, "nothing has just come"
    world.open = {"orders": {0: 0}, "mails": {}}
    driver.turn()
    seen += world.told()
    assert (("look", "orders") in seen) == looks
    assert (("reserve", "orders") in seen) == (outcome == "noted")


def test_one_at_a_time_comes_to_the_end_when_there_is_none(world: World) -> None:
    driver, place = _hinted(world, None)
    world.steps = [(Step(outcome="done", events=1), "claimed")]
    driver.turn(one=True)
    assert place.open > 0


def test_a_block_is_all_that_is_taken_at_once(world: World) -> None:
    driver, _ = _hinted(world, block=3)
    driver.turn()
    assert world.told() == [_take("orders/0", 9, size=3)]


def test_now_and_then_the_floor_is_moved_and_it_begins_there(world: World) -> None:
    driver, place = _hinted(world, claims=SWEEP_EVERY_CLAIMS - 1)
    driver.turn()
    driver.turn()
    assert world.told() == [
        _take("orders/0", 9), ("sweep", "orders/0"), _take("orders/0", None),
    ]  # fmt: skip
    assert place.claims == 1
    driver.sweep()
    assert world.told() == [("sweep", "orders/0")]


def test_before_a_hole_a_partition_rests_and_others_are_served(world: World) -> None:
    driver, place = _hinted(world)
    world.open = {"orders": {0: 5}, "mails": {0: 5}}
    driver.wake()
    driver.turn()
    place.hint = 9
    world.told()
    world.steps = [HoleError("lost")]
    with pytest.raises(HoleError):
        driver.turn()
    assert place.hint is None
    driver.turn()
    assert world.told() == [_take("orders/0", 9), _take("mails/0")]
    world.now_s += HOLE_RETRY_S - 0.001
    driver.turn()
    assert world.told()[-1] == _take("mails/0")
    world.now_s += 0.001
    driver.turn()
    assert world.told()[-1] == _take("orders/0")


def test_what_others_had_may_have_been_let_go(world: World) -> None:
    driver = world.driver()
    world.open, world.unfinished = {"orders": {0: 0, 1: 2}, "mails": {}}, 3
    driver.turn()
    (first, second) = driver.places
    assert (first.open, first.hint) == (1, None)
    assert second.open == 2
    assert world.told() == [LOOKED[0], ("sweep", "orders/0"), LOOKED[1], _take("orders/0")]
    first.hint = 8
    driver.wake()
    driver.turn()
    assert world.told()[-1] == _take("orders/0", None)


def test_what_is_served_is_counted_for_the_shares(world: World) -> None:
    driver = world.driver(weights=(1, 1))
    world.open = {"orders": {0: 50}, "mails": {0: 50}}
    driver.turn()
    driver.turn()
    assert world.told()[2:] == [_take("orders/0"), _take("mails/0")]


# -- what is due ----------------------------------------------------------------------------------


def test_what_is_due_and_what_is_open_take_turns(world: World) -> None:
    driver = world.driver()
    world.open["orders"] = {0: 50}
    world.open["mails"] = {0: 0}
    world.aside = {"mails": (True, None)}
    world.reserved = {"mails": ["a", "b"]}
    for _ in range(4):
        assert driver.turn().outcome == "done"
    assert world.told() == [
        *LOOKED, ("reserve", "mails"), ("aside", "a"), _take("orders/0"),
        ("reserve", "mails"), ("aside", "b"), _take("orders/0"),
    ]  # fmt: skip
    driver.turn()
    driver.turn()
    assert world.told() == [("reserve", "mails"), _take("orders/0"), _take("orders/0")]


def test_all_that_is_due_is_handled_where_nothing_is_open(world: World) -> None:
    driver = world.driver()
    world.aside = {"mails": (True, None), "orders": (True, 5.0)}
    world.reserved = {"mails": ["b"], "orders": ["a"]}
    done = [driver.turn().handled for _ in range(3)]
    assert done == [1, 1, 0]
    assert world.told()[2:] == [
        ("reserve", "orders"), ("aside", "a"), ("reserve", "orders"), ("reserve", "mails"),
        ("aside", "b"), ("reserve", "mails"),
    ]  # fmt: skip
    assert driver.turn() == IDLE
    assert world.told() == []


def test_it_sleeps_until_something_is_due(world: World) -> None:
    driver = world.driver()
    world.aside = {"orders": (False, 2.5), "mails": (False, 1.25)}
    driver.turn()
    assert driver.wait_s(IDLE) == 1.25
    world.aside = {"orders": (False, 70.0)}
    driver.wake()
    driver.turn()
    assert driver.wait_s(IDLE) == 3.0
    world.aside = {"orders": (False, 0.0)}
    driver.wake()
    driver.turn()
    assert driver.wait_s(IDLE) == 0.0
    world.told()
    driver.turn()
    assert world.told() == [], "it is due now, and yet it does not look again and again"
    world.now_s += 0.001
    driver.turn()
    assert world.told() == LOOKED


def test_what_is_due_in_a_topic_rests_before_a_hole(world: World) -> None:
    driver = world.driver()
    world.aside = {"orders": (True, None), "mails": (True, None)}
    world.reserved = {"orders": [HoleError("lost"), "a"], "mails": ["b"]}
    with pytest.raises(HoleError):
        driver.turn()
    assert driver.turn().handled == 1
    assert world.told()[2:] == [("reserve", "orders"), ("reserve", "mails"), ("aside", "b")]
    world.aside = {"orders": (True, None)}
    world.now_s += LOOK_BUSY_S
    assert driver.turn() == IDLE
    assert world.told() == LOOKED
    assert driver.wait_s(IDLE) == 3.0
    world.now_s += 3.0
    driver.turn()
    assert driver.wait_s(IDLE) == HOLE_RETRY_S - LOOK_BUSY_S - 3.0
    world.told()
    world.now_s += HOLE_RETRY_S - LOOK_BUSY_S - 3.0
    assert driver.turn().handled == 1
    assert world.told()[2:] == [("reserve", "orders"), ("aside", "a")]


def test_what_is_found_is_forgotten_at_the_next_look(world: World) -> None:
    driver = world.driver()
    world.aside = {"mails": (True, None)}
    world.reserved = {"mails": ["b", "c"]}
    driver.turn()
    world.told()
    world.aside = {}
    driver.wake()
    assert driver.turn() == IDLE
    assert world.told() == LOOKED


# -- notifications --------------------------------------------------------------------------------


def test_what_is_heard_of_a_partition_opens_it(world: World) -> None:
    driver = world.driver()
    driver.turn()
    world.told()
    driver.hear(["gapless_p_1_1"], grew_only=True)
    world.steps = [(IDLE, "idle")]
    assert driver.turn() == IDLE
    assert world.told() == [_take("orders/1", 1)], "and nothing is looked for before it"
    first, second, _ = driver.places
    assert (first.open, second.open, second.hint) == (0, 0, 1)
    second.open, second.hint = 7, 9
    driver.hear(["gapless_p_1_1"], grew_only=True)
    assert (second.open, second.hint) == (7, 9)
    assert driver.wait_s(IDLE) == 3.0
    driver.hear(["gapless_p_1_1"], grew_only=False)
    world.steps = [(IDLE, "idle")]
    driver.turn()
    assert world.told() == [_take("orders/1")], "it may have been let go, or be due aside"
    assert driver.wait_s(IDLE) == SOON_S
    world.now_s += SOON_S
    driver.turn()
    assert LOOKED[1] in world.told()


@pytest.mark.parametrize("outside", [False, True])
def test_the_rest_of_a_block_in_hand_is_asked_for_again(world: World, *, outside: bool) -> None:
    """The rest of a block, of which another takes a part, is not left until the next look."""
    driver = world.driver(outside=outside)
    world.calls.reserves = True
    driver.turn()
    world.told()
    driver.hear(["gapless_p_1_1"], grew_only=True)
    world.steps = [(IDLE, "held"), (IDLE, "held"), (DONE, "claimed")]
    for _ in range(2):
        driver.turn()
        assert world.told() == [_take("orders/1", 1, size=1 if outside else 4)]
        assert driver.wait_s(IDLE) == pytest.approx(SOON_S)
        driver.turn()
        assert world.told() == []
        world.now_s += SOON_S
    assert driver.turn().events == 4
    assert driver.wait_s(IDLE) > SOON_S


def test_what_is_heard_otherwise_is_looked_at(world: World) -> None:
    driver = world.driver()
    driver.turn()
    world.told()
    driver.hear([], grew_only=True)
    driver.turn()
    assert world.told() == []
    driver.hear(["gapless_p_1_1", "gapless_g"], grew_only=True)
    driver.turn()
    assert world.told()[:2] == LOOKED
    assert driver.wait_s(IDLE) == 3.0


# -- at least once --------------------------------------------------------------------------------


def test_calls_have_their_turns(world: World) -> None:
    driver = world.driver(outside=True)
    assert driver.turn() is DONE
    assert driver.turn(one=True) is DONE
    assert driver.rest() is DONE
    assert world.told() == [*LOOKED, ("calls", 1, False), ("calls", 1, False), ("calls", 0, True)]
    assert not driver.has_attempt
    assert driver.oldest_s is None
    assert driver.wait_s(IDLE) == 3.0
    world.calls.going_on, world.calls.oldest_s = True, 7.0
    assert driver.going_on
    assert driver.has_attempt
    assert driver.oldest_s == 7.0
    assert driver.wait_s(IDLE) == 0.2
    world.calls.wait_s = 9.0
    assert driver.wait_s(IDLE) == 3.0
    other: Any = "another session"
    driver.forgive(other)
    assert world.told() == [("holds", 0, 0, 0), ("given back", other)]
