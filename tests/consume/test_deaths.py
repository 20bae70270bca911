"""How many deaths a unit is allowed: as many as maxCrashes says, whichever way it is handled (I8)."""

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg import Connection

import gapless
from gapless import failpoints
from gapless.consume.drive import Driver
from gapless.consume.unit import Unit
from gapless.consume.verdict.policy import Policy
from gapless.db.connect import connect
from support.turn import turn
from support.world import TOPIC, Group, World

ALLOWED = 3
ASIDE = "update gapless.dead_letter set crashes = %s where group_id = %s"
ATTEMPTS = (
    "update gapless.consumer_offsets set attempts = %s, attempt_offset = 1 where group_id = %s"
)
DELIVERIES = (
    "insert into gapless.delivery select group_id, topic_id, 0, 1, 1, %s, %s, false"
    " from gapless.consumer_offsets where group_id = %s"
)


class Way:
    """One way in which a unit is handled, with deaths written down for it before."""

    def __init__(self, world: World, group: Group, allowed: int = ALLOWED) -> None:
        self.world, self.group, self.allowed = world, group, allowed
        self.called: list[int] = []
        world.units(1)

    def take(self, unit: Unit, conn: Connection[Any] | None = None) -> None:
        self.called.append(unit.first_offset)

    def take_outside(self, unit: Unit) -> None:
        self.called.append(unit.first_offset)

    def driver(self, delivery: Any, on_failure: Any = "dead-letter") -> Driver:
        function = self.take_outside if delivery == "at-least-once" else self.take
        handler = gapless.handler(topic=TOPIC, delivery=delivery)(function)
        policy = Policy(on_failure=on_failure, crashes_max=self.allowed)
        conn, assignment = self.group.conn, self.group.assignment
        return Driver(turn(conn, assignment, handler, policy=policy, former_end="killed by a test"))

    def of_the_log(self, deaths: int) -> None:
        self.world.conn.execute(ATTEMPTS, [deaths, self.group.name])
        self.driver("exactly-once").turn(alone=True)

    def outside(self, deaths: int) -> None:
        self.world.conn.execute(DELIVERIES, [deaths, deaths, self.group.name])
        self._drive(self.driver("at-least-once"))

    def aside(self, deaths: int, delivery: str = "exactly-once") -> None:
        self.group.failing = {1}
        self.group.drain()
        self.world.value(
            "select gapless.redrive_letter(%s, %s, 0, 1)", self.group.name, self.world.topic.name
        )
        self.world.conn.execute(ASIDE, [deaths, self.group.name])
        self._drive(self.driver(delivery))

    def aside_outside(self, deaths: int) -> None:
        self.aside(deaths, "at-least-once")

    def _drive(self, driver: Driver) -> None:
        while driver.turn().outcome != "idle" or driver.has_due():
            pass


WAYS: list[Callable[[Way, int], None]] = [
    Way.of_the_log, Way.outside, Way.aside, Way.aside_outside,
]  # fmt: skip


@pytest.mark.few(4)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("allowed", [1, ALLOWED])
def test_one_death_less_than_allowed_and_it_is_tried_again(
    world: World, group: Group, way: Callable[[Way, int], None], allowed: int
) -> None:
    one = Way(world, group, allowed)
    way(one, allowed - 1)
    assert one.called == [1]
    assert group.states() in ({}, {1: "redriven"})


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_as_many_deaths_as_allowed_and_it_is_dead_unseen(
    world: World, group: Group, way: Callable[[Way, int], None]
) -> None:
    one = Way(world, group)
    way(one, ALLOWED)
    assert one.called == []
    assert group.states() == {1: "dead"}
    for said in (f"died, or lost its session, {ALLOWED} times", "killed by a test"):
        assert said in group.letters()[1]
    tries = 1 if way in {Way.aside, Way.aside_outside} else ALLOWED
    assert world.value("select attempts from gapless.dead_letter") == tries


@pytest.mark.parametrize("way", [Way.of_the_log, Way.outside], ids=lambda way: way.__name__)
def test_block_passes_nobody_whoever_died_of_it(
    world: World, group: Group, way: Callable[[Way, int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Way(world, group)
    made = Way.driver
    monkeypatch.setattr(Way, "driver", lambda self, delivery: made(self, delivery, "block"))
    way(one, 10 * ALLOWED)
    assert one.called == [1]
    assert group.states() == {}


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
def test_an_error_of_the_environment_is_no_death_of_one_set_aside(
    world: World, group: Group, delivery: str
) -> None:
    one = Way(world, group)
    failpoints.arm({"aside.handled": "raise"})
    with pytest.raises(RuntimeError, match="failpoint"):
        one.aside(0, delivery)
    driver = one.driver(delivery)
    for _ in range(2 * ALLOWED):
        with pytest.raises(RuntimeError, match="failpoint"):
            driver.turn()
    failpoints.arm({})
    assert world.rows("select state, crashes, attempts from gapless.dead_letter") == [
        ("waiting", 0, 1)
    ]
    while driver.turn().outcome == "done":
        pass
    assert group.states() == {1: "redriven"}


@pytest.mark.few(2)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_loss_that_was_not_its_fault_is_forgiven_from_a_new_session(
    world: World, group: Group, way: Callable[[Way, int], None]
) -> None:
    """What had died before counts still; the attempt in hand does not."""
    one = Way(world, group)
    drivers: list[Driver] = []
    make = one.driver

    def driver(*words: Any) -> Driver:
        drivers.append(make(*words))
        return drivers[-1]

    def lose(_: str) -> None:
        world.conn.execute("select pg_terminate_backend(%s, 5000)", [group.conn.info.backend_pid])

    one.driver = driver  # type: ignore[method-assign]
    failpoints.arm(dict.fromkeys(("alone.recorded", "deliver.noted", "aside.recorded"), lose))
    with pytest.raises(psycopg.OperationalError):
        way(one, 1)
    failpoints.arm({})
    assert drivers[-1].has_attempt
    assert deaths(world) == 2
    with connect(world.dsn, role="worker") as conn:
        drivers[-1].forgive(conn)
        assert deaths(world) == 1
    assert group.states() in ({}, {1: "waiting"})


def deaths(world: World) -> int:
    """How many are written down, wherever they are."""
    return int(
        world.value(
            "select coalesce((select max(attempts) from gapless.consumer_offsets), 0)"
            " + coalesce((select max(crashes) from gapless.delivery), 0)"
            " + coalesce((select max(crashes) from gapless.dead_letter), 0)"
        )
    )
