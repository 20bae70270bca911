"""Weighted topics: with both full, each has its share; with one empty, the other has all."""

from typing import Literal

import pytest
from psycopg import Connection

import gapless
from gapless.consume.terms import agree
from gapless.features.queue import drive
from gapless.features.queue.drive import QueueDriver
from gapless.features.queue.place import open_queue
from gapless.settings import Settings
from support.queue import join, publish


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
def test_shares(
    conn: Connection,
    delivery: Literal["exactly-once", "at-least-once"],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A turn takes one batch here: as many as fit into its time would depend on the machine."""
    monkeypatch.setattr(drive, "GOES_ON_S", 0.0)
    for topic in ("urgent", "mails"):
        conn.execute("select gapless.create_topic(%s, 1)", [topic])
        publish(conn, topic, 1, 80)
        join(conn, block=1, group="sender", topic=topic)
    handled: list[str] = []

    def send(unit: gapless.Unit, _conn: Connection | None = None) -> None:
        handled.extend(event.topic for event in unit)

    handler = gapless.handler(
        topic={"urgent": 3, "mails": 1},
        group="sender",
        mode="queue",
        batch_size=1,
        delivery=delivery,  # type: ignore[call-overload]
    )(send)
    terms = agree(handler, Settings(concurrency=1))
    driver = QueueDriver(open_queue(conn, handler, terms, "sender", worker="w", reserve_s=60.0))
    idle = 0
    while idle < 3:
        idle = 0 if driver.turn(one=True).outcome == "done" or driver.going_on else idle + 1
        if idle:
            driver.wake()
    assert len(handled) == 160
    last = len(handled) - handled[::-1].index("urgent")
    shared = handled[:last]
    assert shared.count("urgent") == 80
    assert 24 <= shared.count("mails") <= 30, "a third of them"
    assert "mails" in handled[:40], "it does not wait until the other is empty"
