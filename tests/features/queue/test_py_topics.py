"""A worker of two topics, turn by turn: the preferred one first, and at a hole in one the other (I8)."""

from typing import Any, Literal

import pytest
from psycopg import Connection

import gapless
from features.queue.holes import lose_event
from gapless import ops
from gapless.errors import HoleError
from gapless.features.queue import drive, outside
from gapless.features.queue.drive import GOES_ON_S, HOLE_RETRY_S, QueueDriver
from gapless.features.queue.place import open_queue
from support.queue import Queue, join, publish
from support.turn import terms

Delivery = Literal["exactly-once", "at-least-once"]


class Two:
    """The topics urgent and mails, of one partition each, and the calls: u1 is offset 1 of urgent."""

    def __init__(
        self, conn: Connection[Any], monkeypatch: pytest.MonkeyPatch, delivery: Delivery
    ) -> None:
        self.conn = conn
        self.now_s = 1000.0
        self.calls: list[str] = []
        self.queues: dict[str, Queue] = {}
        for topic, first in (("urgent", 1), ("mails", 11)):
            conn.execute("select gapless.create_topic(%s, 1)", [topic])
            publish(conn, topic, first, first + 2)
            self.queues[topic] = join(conn, block=4, group="sender", topic=topic)
        for module in (drive, outside):
            monkeypatch.setattr(module, "monotonic", lambda: self.now_s)
        made: Any = gapless.handler(
            topic=["urgent", "mails"], group="sender", mode="queue", batch_size=1,
            delivery=delivery,
        )(self.call_outside if delivery == "at-least-once" else self.call)  # fmt: skip
        agreed = terms(made, concurrency=1)
        queue = open_queue(conn, made, agreed, "sender", worker="me", reserve_s=60.0)
        self.driver = QueueDriver(queue)

    def call(self, unit: gapless.Unit, _conn: object) -> None:
        self.call_outside(unit)

    def call_outside(self, unit: gapless.Unit) -> None:
        self.now_s += GOES_ON_S  # no second claim in a turn
        self.calls.append(f"{unit.topic[0]}{unit.first_offset}")

    def died(self, topic: str, offset: int) -> None:
        """Note that a worker died with it in hand."""
        self.conn.execute(
            "insert into gapless.queue_range (lease_no, first_offset, last_offset, tries, deadline, holder)"
            " values (%s, %s, %s, 1, '-infinity', 'dead')",
            [self.queues[topic].lease, offset, offset],
        )

    def turns(self) -> list[str]:
        """Take turns until there is nothing to do; return the calls, and "hole" for each hole."""
        self.calls.clear()
        for _ in range(50):
            try:
                if self.driver.turn().outcome == "idle" and not self.driver.going_on:
                    return self.calls[:]
            except HoleError:
                self.calls.append("hole")
        pytest.fail("it never rests")


@pytest.fixture(params=["exactly-once", "at-least-once"])
def two(
    conn: Connection[Any], monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Two:
    return Two(conn, monkeypatch, request.param)


def test_the_preferred_topic_comes_first(two: Two) -> None:
    """Of open events, and of those that are due again; neither kind keeps the other waiting."""
    two.died("mails", 1)
    two.died("urgent", 1)
    two.died("urgent", 2)
    assert two.turns() == ["u1", "u3", "u2", "m2", "m1", "m3"]


def test_at_a_hole_a_partition_rests_and_others_are_served(two: Two) -> None:
    lose_event(two.conn, "e1")
    assert two.turns() == ["hole", "m1", "m2", "m3"]
    two.now_s += HOLE_RETRY_S / 2
    publish(two.conn, "mails", 14, 14)
    two.driver.wake()
    assert two.turns() == ["m4"]
    two.now_s += HOLE_RETRY_S / 2
    two.driver.wake()
    assert two.turns() == ["hole"]
    ops.skip_hole(two.conn, ops.GroupPlace.parse("sender/urgent/0@1"))
    two.now_s += HOLE_RETRY_S
    two.driver.wake()
    assert two.turns() == ["u2", "u3"]


def test_at_a_hole_in_what_is_due_others_are_served(two: Two) -> None:
    lose_event(two.conn, "e2")
    two.died("urgent", 2)
    two.died("mails", 2)
    first, *others = two.turns()
    assert (first, sorted(others)) == ("hole", ["m1", "m2", "m3", "u1", "u3"])
    ops.skip_hole(two.conn, ops.GroupPlace.parse("sender/urgent/0@2"))
    two.now_s += HOLE_RETRY_S
    two.driver.wake()
    assert two.turns() == []
    two.driver.sweep()
    assert [queue.floor(two.conn) for queue in two.queues.values()] == [4, 4]
