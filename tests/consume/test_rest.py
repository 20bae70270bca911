"""When a driver lets events gather: where several come at once, again and again, and not else."""

import pytest

from gapless.consume.agenda import REST_S_MAX
from gapless.consume.drive import Driver
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
