"""Units that were set aside, called beside those of the log: for each a try, an end, and nobody waits for another."""

import threading
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from gapless.consume.drive import Driver
from gapless.consume.outside.concurrent_retries import AT_A_TIME
from gapless.consume.step import Step
from gapless.consume.unit import Unit
from gapless.consume.user.handler import Handler
from gapless.consume.verdict.policy import Policy
from gapless.lease import hold
from gapless.log.event import NewEvent
from support.patience import bounded_patience
from support.turn import turn
from support.world import Group, World, make_handler

RETRY = Policy(on_failure="retry", retry_delays_s=(0.0,) * 3)


def _beside(take: Callable[[Unit], None]) -> Handler:
    return replace(make_handler(take, delivery="at-least-once"), asides_beside=True)


def _until(driver: Driver, holds: Callable[[], bool]) -> list[Step]:
    """Take turns until it holds; return what they did."""
    give_up_s = time.monotonic() + bounded_patience(60.0)
    turns = []
    while not holds():
        assert time.monotonic() < give_up_s
        turns.append(driver.turn())
        time.sleep(0.005)
    return turns


def _waiting(world: World, group: Group, units: int) -> None:
    """Have so many units set aside that are due."""
    for _ in range(units):
        world.events([NewEvent(payload={})])
    group.failing = set(range(1, units + 1))
    one_by_one = make_handler(group.refuse, delivery="at-least-once")
    later = Policy(on_failure="retry", retry_delays_s=(3600.0,))
    group.drive(one_by_one, concurrency=4, policy=later)
    world.conn.execute("update gapless.dead_letter set next_attempt_ts = now()")


def test_one_that_waits_holds_up_neither_the_log_nor_another(world: World, group: Group) -> None:
    _waiting(world, group, 3)
    goes_on, called = threading.Event(), set()

    def take(unit: Unit) -> None:
        called.add(unit.first_offset)
        if unit.first_offset == 1:
            goes_on.wait(60)

    driver = Driver(turn(group.conn, group.assignment, _beside(take), policy=RETRY), wake=str)
    _until(driver, lambda: called == {1, 2, 3})
    world.events([NewEvent(payload={})])
    _until(driver, lambda: group.states() == {1: "waiting"} and group.next_offset() == 5)
    assert driver.going_on
    assert driver.has_attempt
    goes_on.set()
    handled = 0
    while driver.going_on:
        handled += driver.rest().handled
    assert (handled, group.states()) == (1, {})


@pytest.mark.long
def test_so_many_at_a_time_and_each_attempt_counts(world: World, group: Group) -> None:
    _waiting(world, group, AT_A_TIME + 8)
    lock, now, most = threading.Lock(), 0, 0

    def take(unit: Unit) -> None:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        time.sleep(0.01)
        with lock:
            now -= 1
        raise ValueError(f"attempt {unit.attempt}")

    driver = Driver(turn(group.conn, group.assignment, _beside(take), policy=RETRY), wake=str)
    _until(driver, lambda: set(group.states().values()) == {"dead"} and not driver.going_on)
    assert most <= AT_A_TIME
    assert group.letters_have("exception").pop().endswith("attempt 4")


@pytest.mark.long
def test_what_may_have_killed_a_worker_is_called_alone(world: World, group: Group) -> None:
    _waiting(world, group, 6)
    world.conn.execute("update gapless.dead_letter set crashes = 1 where first_offset in (2, 5)")
    lock, now, beside = threading.Lock(), set(), {}

    def take(unit: Unit) -> None:
        with lock:
            now.add(unit.first_offset)
            beside[unit.first_offset] = len(now)
        time.sleep(0.05)
        with lock:
            beside[unit.first_offset] = max(beside[unit.first_offset], len(now))
            now.discard(unit.first_offset)

    driver = Driver(turn(group.conn, group.assignment, _beside(take), policy=RETRY), wake=str)
    _until(driver, lambda: group.states() == {} and not driver.going_on)
    assert (beside[2], beside[5]) == (1, 1)


def test_one_that_killed_too_many_is_called_no_more(world: World, group: Group) -> None:
    _waiting(world, group, 1)
    world.conn.execute("update gapless.dead_letter set crashes = 3")
    called = []
    outside = _beside(lambda unit: called.append(unit.first_offset))
    driver = Driver(turn(group.conn, group.assignment, outside, policy=RETRY), wake=str)
    turns = _until(driver, lambda: group.states() == {1: "dead"})
    assert (called, sum(done.dead for done in turns)) == ([], 1)


def test_who_is_fenced_ends_nothing(world: World, group: Group) -> None:
    _waiting(world, group, 1)
    goes_on, called = threading.Event(), threading.Event()

    def take(_: Unit) -> None:
        called.set()
        goes_on.wait(60)

    driver = Driver(turn(group.conn, group.assignment, _beside(take), policy=RETRY), wake=str)
    _until(driver, called.is_set)
    later = group.successor(group.conn)
    assert hold.install(group.conn, later) is not None
    goes_on.set()
    give_up_s = time.monotonic() + bounded_patience(60.0)
    while driver.turn().outcome != "fenced":
        assert time.monotonic() < give_up_s
        time.sleep(0.005)
    assert group.states() == {1: "waiting"}
    assert not driver.going_on
