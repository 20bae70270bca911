"""Turns of a driver: the order of the log and of units that were set aside, and the errors that stop a group."""

import logging
from collections.abc import Callable
from typing import Any

import pytest

from gapless import failpoints
from gapless.consume.agenda import LOOK_BUSY_S
from gapless.consume.drive import Driver
from gapless.consume.verdict.policy import Policy
from gapless.errors import BeyondError, HoleError, OverrunError
from support.turn import turn
from support.world import Group, World, make_handler

RETRY = Policy(on_failure="retry", retry_delays_s=(3600.0,))
DUE = "update gapless.dead_letter set next_attempt_ts = now() where group_id = %s"
MOVE = (
    "select set_config('gapless.seeking', pg_current_xact_id()::text, true);"
    "update gapless.consumer_offsets set next_offset = 9 where group_id = '{}'"
)


class Clock:
    """A clock that moves by so much each time it is asked."""

    def __init__(self) -> None:
        self.now_s, self.step_s = 1000.0, 0.0

    def __call__(self) -> float:
        self.now_s += self.step_s
        return self.now_s


@pytest.fixture
def world(shared_world: World) -> World:
    return shared_world.another_topic()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("gapless.consume.drive.monotonic", made)
    return made


def set_aside(world: World, group: Group, units: int) -> None:
    """Have so many units wait, and more of the log behind them; none fails again."""
    world.units(*[1] * units)
    group.failing = set(range(1, units + 1))
    group.drive(policy=RETRY)
    group.failing = set()
    group.calls.clear()
    world.units(1, 1, 1)


def drives(group: Group, **said: Any) -> Driver:
    said = {"policy": RETRY, "batch_size": 1} | said
    return Driver(turn(group.conn, group.assignment, group.handler, **said))


def test_what_is_due_and_the_log_take_turns(world: World, group: Group, clock: Clock) -> None:
    set_aside(world, group, 3)
    world.conn.execute(DUE, [group.name])
    clock.step_s = 0.1  # a turn takes one batch
    driver = drives(group)
    assert [driver.turn().handled for _ in range(6)] == [1] * 6
    assert group.calls == [1, 4, 2, 5, 3, 6]
    assert group.states() == {}


def test_one_that_the_log_sets_aside_is_looked_for_at_once(
    world: World, group: Group, clock: Clock
) -> None:
    """It may be due now; one that becomes due while the log has more is found a little later."""
    world.units(*[1] * 6)
    group.failing = {1}
    clock.step_s = 0.03  # a turn takes one batch
    driver = drives(group, policy=Policy(on_failure="retry", retry_delays_s=(0.0, 3600.0)))
    assert driver.turn().waiting == 1
    group.calls.clear()
    assert [driver.turn().waiting, driver.turn().handled] == [1, 1]
    group.failing = set()
    world.conn.execute(DUE, [group.name])
    driver.turn()
    clock.now_s += LOOK_BUSY_S
    driver.turn()
    assert group.calls == [1, 2, 3, 1]


@pytest.mark.parametrize(
    ("delays_s", "expected"), [((3600.0,), (0, 1, 0)), ((3600.0, 3600.0), (0, 0, 1))]
)
def test_how_one_that_fails_again_ends_is_told(
    world: World, group: Group, delays_s: tuple[float, ...], expected: tuple[int, int, int]
) -> None:
    set_aside(world, group, 1)
    world.conn.execute(DUE, [group.name])
    group.failing = {1}
    done = drives(group, policy=Policy(on_failure="retry", retry_delays_s=delays_s)).turn()
    assert (done.handled, done.dead, done.waiting) == expected


def test_what_is_due_leaves_the_calls_time(world: World, group: Group, clock: Clock) -> None:
    """At least once: one, and then the log alone for a while, unless it is idle."""
    set_aside(world, group, 2)
    world.conn.execute(DUE, [group.name])
    outside = make_handler(
        lambda unit: group.calls.append(unit.first_offset), delivery="at-least-once"
    )
    driver = Driver(turn(group.conn, group.assignment, outside, policy=RETRY, concurrency=1))
    while driver.turn().outcome != "idle":
        pass
    assert group.calls == [1, 3, 4, 5, 2]


def test_one_that_becomes_due_is_found(world: World, group: Group, clock: Clock) -> None:
    """By who asks, at once; by one that is woken and finds nothing new in the log, in this very turn."""
    set_aside(world, group, 2)
    driver = drives(group, batch_size=100)
    while (done := driver.turn()).outcome != "idle":
        pass
    assert not driver.has_due()
    assert driver.wait_s(done, 1.0) == 1.0
    world.conn.execute(DUE + " and first_offset = 1", [group.name])
    clock.now_s += 0.95
    assert driver.turn().outcome == "idle", "it slept as long as it meant to"
    driver.wait_s(done, 1.0)
    clock.now_s += 0.5
    assert driver.turn().handled == 1
    while driver.turn().outcome != "idle":
        pass
    world.conn.execute(DUE, [group.name])
    assert driver.has_due()
    assert driver.turn().handled == 1
    assert group.states() == {}


def test_an_attempt_behind_one_that_was_set_aside_is_forgiven(world: World, group: Group) -> None:
    set_aside(world, group, 1)
    world.conn.execute(DUE, [group.name])
    driver = drives(group)
    assert driver.turn().handled == 1
    failpoints.arm({"alone.recorded": "raise"})
    with pytest.raises(RuntimeError, match="failpoint"):
        driver.turn(alone=True)
    assert driver.has_attempt
    driver.forgive(group.conn)
    look = "select attempts from gapless.consumer_offsets where group_id = %s"
    assert (world.value(look, group.name), group.calls) == (0, [1])


def lose(world: World, group: Group) -> None:
    gone = "delete from gapless.outbox_message_t where topic_id = %s"
    world.conn.execute(gone, [world.topic.topic_id])


def move_beyond(world: World, group: Group) -> None:
    world.conn.execute(MOVE.format(group.name).encode())


def drop(world: World, group: Group) -> None:
    start = "insert into gapless.log_start values (%s, 0, 3, now())"
    world.conn.execute(start, [world.topic.topic_id])


STOPS: list[tuple[Callable[[World, Group], None], type[Exception], str]] = [
    (lose, HoleError, "; gapless skip {}@1 continues without them"),
    (move_beyond, BeyondError, ": gapless seek {}@4 --pause --yes"),
    (drop, OverrunError, ""),
]


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize(("deed", "kind", "remedy"), STOPS)
def test_what_stops_a_group_is_said_with_its_remedy(
    world: World,
    group: Group,
    deed: Callable[[World, Group], None],
    kind: type[Exception],
    remedy: str,
    alone: bool,
) -> None:
    """And stays so, although the log goes on."""
    world.units(1, 1, 1)
    deed(world, group)
    driver = drives(group, auto_offset_reset="error")
    for _ in range(2):
        with pytest.raises(kind) as caught:
            driver.turn(alone=alone)
        assert str(caught.value).endswith(remedy.format(group.assignment.partition))
        world.units(*[1] * 9)
    assert group.calls == []


@pytest.mark.parametrize(("reset", "lost", "after"), [("earliest", 2, 3), ("latest", 3, 4)])
def test_what_was_dropped_is_skipped_if_the_group_says_so(
    world: World, group: Group, caplog: pytest.LogCaptureFixture, reset: str, lost: int, after: int
) -> None:
    world.units(1, 1, 1)
    drop(world, group)
    driver = drives(group, auto_offset_reset=reset)
    with caplog.at_level(logging.ERROR, "gapless.worker"):
        assert driver.turn(alone=True).outcome == "done"
    assert not driver.has_attempt
    assert group.next_offset() == after
    (said,) = caplog.messages
    assert said.startswith(
        f"{group.assignment.partition}: {lost} offsets lost, continues at {reset}: "
    )
