"""When a driver lets events gather, and how long it sleeps: by what its turns find."""

import pytest

from gapless.consume.agenda import DOZE_S, REST_S_MAX
from gapless.consume.drive import Driver
from gapless.consume.verdict.policy import Policy
from support.turn import turn
from support.world import Group, World, make_handler


@pytest.fixture
def world(shared_world: World) -> World:
    return shared_world.another_topic()


@pytest.fixture
def driver(group: Group) -> Driver:
    return Driver(turn(group.conn, group.assignment, make_handler(group.record), batch_size=10))


def rests(world: World, driver: Driver, events: int, *, took_s: float = 1.0) -> float:
    """Let so many events come at once; return how long the driver rests after its turn."""
    world.units(*[1] * events)
    done = driver.turn()
    driver.wait_s(done, 1.0)
    return driver.rest_s(done, took_s)


def test_a_stream_is_gathered_from_its_second_turn_on(world: World, driver: Driver) -> None:
    assert [rests(world, driver, 5) for _ in range(3)] == [0.0, REST_S_MAX, REST_S_MAX]
    assert rests(world, driver, 5, took_s=0.001) == pytest.approx(0.003)


def test_single_events_are_not_kept_waiting(world: World, driver: Driver) -> None:
    assert [rests(world, driver, 1) for _ in range(3)] == [0.0] * 3
    assert [rests(world, driver, n) for n in (5, 1, 5)] == [0.0] * 3


def test_a_worker_that_is_behind_does_not_rest(world: World, driver: Driver) -> None:
    assert rests(world, driver, 5) == 0.0
    assert [rests(world, driver, 25) for _ in range(2)] == [0.0] * 2


@pytest.mark.parametrize(
    ("events", "failing", "alone", "sleeps_s"),
    [
        (1, 0, False, DOZE_S), (9, 0, False, DOZE_S), (10, 0, False, 0.0), (9, 1, False, 0.0),
        (1, 0, True, 0.0), (0, 0, False, 1.0),
    ],
)  # fmt: skip
def test_after_all_there_was_it_dozes(  # noqa: PLR0917 - the columns of a row
    world: World,
    group: Group,
    driver: Driver,
    events: int,
    failing: int,
    alone: bool,
    sleeps_s: float,
) -> None:
    """Not where there may be more, nor where it is not known: behind a batch, a failure, one alone."""
    group.failing = {failing}
    if events:
        world.units(*[1] * events)
    assert driver.wait_s(driver.turn(alone=alone), 1.0) == sleeps_s


def test_it_sleeps_no_longer_than_until_a_unit_is_due(world: World, group: Group) -> None:
    group.failing = {1}
    world.units(1)
    handler, later = make_handler(group.record), Policy(on_failure="retry", retry_delays_s=(30.0,))
    driver = Driver(turn(group.conn, group.assignment, handler, policy=later))
    while (done := driver.turn()).outcome != "idle":
        pass
    assert group.states() == {1: "waiting"}
    assert 0.0 < driver.wait_s(done, 60.0) <= 30.0
