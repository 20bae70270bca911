"""kill -9 while a subscription is stopped, resumed, and told what it missed: nothing is lost, for it or for others.

A worker at each step of the stop, an operator at each step of the resume, a worker at each step of
what was missed. Exactly once, or at least once, as the group says (I1, I6, I7).
"""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from features.filters.subscriber import drive
from gapless import ops
from gapless.db.connect import connect
from gapless.log.event import NewEvent
from support.conditions import stops, subscribe, taken_over
from support.fleet import until
from support.long import long_but
from support.patience import bounded_patience
from support.world import Group, World

RAISES_AT_7 = "10 / ((e.payload ->> 'n')::int - 7) is not null"
ODD = "(e.payload ->> 'n')::int % 2 = 1"
PATIENCE_S = 60.0
STOP = ("condition.claimed", "condition.raised", "condition.stopped", "condition.committed")
AMID = "amid the resume"
RESUME = ("condition.resumed", AMID)
MISSED = {
    "exactly-once": ("aside.recorded", "aside.claimed", "aside.handled", "aside.committed"),
    "at-least-once": ("aside.recorded", "aside.handled"),
}
SCENARIOS = [
    (delivery, point) for delivery, missed in MISSED.items() for point in (*STOP, *RESUME, *missed)
]

ONCE = ("exactly-once", "condition.stopped")
AT_LEAST_ONCE = ("at-least-once", "condition.resumed")


@pytest.fixture
def world(shared_world: World) -> World:
    shared_world.conn.execute(
        "create table if not exists told (group_id text, c_offset bigint, name text)"
    )
    return shared_world.another_topic()


class Play:
    """A group in whose way somebody is killed, once."""

    def __init__(self, group: Group, delivery: str, point: str) -> None:
        self.group, self.delivery, self.point = group, delivery, point
        self.published = 0

    def publish(self, count: int) -> None:
        """Each event is a unit."""
        for _ in range(count):
            self.published += 1
            self.group.world.events([NewEvent(payload={"n": self.published})])

    def start(self, what: str, said: dict[str, Any], point: str = "") -> subprocess.Popen[bytes]:
        program = str(Path(__file__).with_name("subscriber.py"))
        armed = f"{point}=kill" if point else ""
        return subprocess.Popen(
            [sys.executable, program, what, self.group.world.dsn, json.dumps(said)],
            env={**os.environ, "GAPLESS_FAILPOINTS": armed},
            stdout=subprocess.PIPE,
        )

    def die(self, what: str, said: dict[str, Any]) -> None:
        """Run it in a process that is killed at the point."""
        process = self.start(what, said, self.point)
        process.communicate(timeout=bounded_patience(PATIENCE_S))
        assert process.returncode == -signal.SIGKILL

    def worker(self) -> dict[str, Any]:
        """Take the partition as a worker does that begins."""
        taken_over(self.group)
        now = self.group.assignment
        fence = {"epoch": now.epoch, "token": str(now.token)}
        return {"delivery": self.delivery, "partition": asdict(now.partition), **fence}

    def drive(self, *points: str) -> None:
        """Handle all there is; where its point is one of these, somebody is killed at it before."""
        if self.point in points:
            self.die("drive", self.worker())
        drive(self.group.conn, self.group.world.dsn, self.worker())

    def resume(self) -> int | None:
        place = f"{self.group.name}/{self.group.world.topic.name}"
        said = {"place": place, "name": "bad"}
        if self.point in RESUME:
            kill = self.kill_amid if self.point == AMID else partial(self.die, "resume")
            kill(said)
            assert stops(self.group)
            assert self.group.states() == {}
        return ops.resume_subscription(self.group.world.conn, ops.GroupPlace.parse(place), "bad")

    def kill_amid(self, said: dict[str, Any]) -> None:
        """Kill who resumes when it has asked about most, and waits for the group's offsets."""
        world = self.group.world
        waits = (
            "select pid from pg_stat_activity where datname = current_database()"
            " and wait_event_type = 'Lock' and query like '%%resume_subscription%%'"
        )
        with connect(world.dsn, role="test") as other, other.transaction():
            lock = "select from gapless.consumer_offsets where group_id = %s for update"
            other.execute(lock, [self.group.name])
            process = self.start("resume", said)
            until(lambda: world.rows(waits), "it waits", timeout_s=PATIENCE_S)
            process.kill()
            process.communicate()
        until(
            lambda: (
                not world.rows(
                    "select from pg_stat_activity where datname = current_database()"
                    " and application_name like '%%child%%'"
                )
            ),
            "its session ends",
            timeout_s=PATIENCE_S,
        )

    def told(self) -> Counter[tuple[int, str]]:
        rows = self.group.world.rows(
            "select c_offset, name from told where group_id = %s", self.group.name
        )
        return Counter((offset, name) for offset, name in rows)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("scenario", long_but(SCENARIOS, ONCE, AT_LEAST_ONCE), ids=" ".join)
def test_killed(group: Group, scenario: tuple[str, str]) -> None:
    delivery, point = scenario
    play = Play(group, delivery, point)
    subscribe(group, "all", "(e.payload ->> 'n') is not null")
    subscribe(group, "even", "(e.payload ->> 'n')::int % 2 = 0")
    subscribe(group, "bad", RAISES_AT_7)
    play.publish(6)
    play.drive()
    assert stops(group) == []
    play.publish(6)
    play.drive(*STOP)
    assert [(name, offset) for name, offset, _ in stops(group)] == [("bad", 7)]
    audited = (
        "select count(*) from gapless.audit where action = 'stop_subscriptions' and group_id = %s"
    )
    assert group.world.value(audited, group.name) == 1
    play.publish(4)
    play.drive()
    subscribe(group, "bad", ODD)
    assert play.resume() == 5
    assert stops(group) == []
    play.publish(2)
    play.drive(*MISSED[delivery])
    expected = {(n, "all") for n in range(1, 19)}
    expected |= {(n, "even") for n in range(2, 19, 2)}
    expected |= {(n, "bad") for n in (*range(1, 7), *range(7, 19, 2))}
    told = play.told()
    assert set(told) == expected
    if delivery == "exactly-once":
        assert set(told.values()) == {1}
    assert group.next_offset() == 19
