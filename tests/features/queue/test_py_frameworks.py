"""Queue handlers that are async, whose payloads are of a type, and that name resources."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg import AsyncConnection, Connection

import gapless
from gapless.log.topics import ensure_topic
from gapless.testing import drain
from support.programs.queue_app import WRITE
from support.supervisors import Runs

told: list[Any] = []


@dataclass(frozen=True)
class Job:
    """What the tests publish; without a number it is none."""

    n: int
    do: str | None = None


@gapless.resource
async def pool() -> AsyncIterator[str]:
    """Something of the loop's."""
    told.append("opened")
    yield "pool"
    told.append("closed")


@gapless.handler(
    topic=["urgent", "jobs"], group="once", mode="queue", payload=Job, resources=[pool]
)
async def once(unit: gapless.Unit[Job], conn: AsyncConnection[Any]) -> None:
    """Write, publish in a chain, then fail if the event says so."""
    (event,) = unit
    told.append(pool())
    await conn.execute(WRITE, [event.payload.n, event.topic, unit.attempt, 0])
    if event.topic == "jobs":
        await gapless.publish(conn, "urgent", Job(event.payload.n + 1000))
    if event.payload.do == "fail":
        raise ValueError("as it says")


@gapless.handler(
    topic="jobs",
    group="outside",
    mode="queue",
    delivery="at-least-once",
    concurrency=4,
    payload=Job,
    resources=[pool],
)
async def outside(unit: gapless.Unit[Job]) -> None:
    """Overlap with the other calls."""
    (event,) = unit
    told.append("begun")
    await asyncio.sleep(0.05)
    told.append(event.payload.n)
    if event.payload.do == "fail":
        raise ValueError("as it says")


def test_exactly_once(runs: Runs, conn: Connection) -> None:
    """I6, I10: what it awaits commits with its event, or not at all; what decodes not is dead."""
    told.clear()
    good = runs.publish(count=5)
    (bad,) = runs.publish({"do": "fail"})
    gapless.publish(conn, "jobs", {"m": 3}, key="x")
    total = drain(runs.dsn, [once])
    # Each good one is followed by one in the other topic of the same handler.
    assert (total.events, total.dead) == (12, 2)
    assert set(runs.done()) == {*good, *(n + 1000 for n in good)}
    assert set(runs.done().values()) == {1}
    assert bad not in runs.done()
    assert set(runs.dead("once")) == {bad, None}
    (reason,) = conn.execute(
        "select reason from gapless.dead_letter where reason not like 'ValueError%'"
    ).fetchone() or ("",)
    assert "PayloadError: jobs/" in reason
    assert told[0] == "opened"
    assert told[-1] == "closed"
    assert told.count("opened") == 1
    causes = conn.execute(
        "select cause from gapless.outbox_message_t where topic_id = gapless.topic_id('urgent')"
    ).fetchall()
    assert len({cause for (cause,) in causes}) == 5
    assert all(cause.startswith("once/jobs/") for (cause,) in causes)


def test_at_least_once(runs: Runs, conn: Connection) -> None:
    """As tasks of one loop, of units of several partitions, which may have the same offsets."""
    told.clear()
    good = runs.publish(count=12)
    runs.publish({"do": "fail"})
    gapless.publish(conn, "jobs", {"m": 3}, key="x")
    done = drain(runs.dsn, outside)
    assert (done.events, done.dead) == (14, 2)
    assert set(good) <= set(told)
    assert told[0] == "opened"
    assert told[-1] == "closed"
    assert told[1:5] == ["begun"] * 4
    assert runs.left("outside") == 0


def test_an_application_of_queues_is_drained_to_the_end_of_its_chains(runs: Runs) -> None:
    """In whatever order its handlers come."""

    @gapless.handler(topic="jobs", group="first", mode="queue")
    def first(unit: gapless.Unit, conn: Connection[Any]) -> None:
        gapless.publish(conn, "urgent", next(iter(unit)).payload)

    @gapless.handler(topic="urgent", group="second", payload=Job)
    def second(unit: gapless.Unit[Job], conn: Connection[Any]) -> None:
        for event in unit:
            conn.execute(WRITE, [event.payload.n, event.topic, unit.attempt, 0])

    numbers = runs.publish(count=3)
    assert drain(runs.dsn, [second, first]).events == 6
    assert runs.done() == dict.fromkeys(numbers, 1)


def test_a_scheduled_function_may_be_async(runs: Runs, conn: Connection) -> None:
    """What it returns is published, too."""
    ensure_topic(conn, "schedules", partitions=1)

    @gapless.schedule(every="1 day", name="nightly", publishes="jobs", resources=[pool])
    async def nightly(due: datetime, conn: AsyncConnection[Any]) -> dict[str, int]:
        assert pool() == "pool"
        await conn.execute(WRITE, [due.year, "due", 1, 0])
        return {"n": due.year}

    headers = {"gapless-schedule": "nightly", "gapless-due": "2030-01-01T00:00:00+00:00"}
    gapless.publish(conn, "schedules", {}, headers=headers)
    gapless.publish(conn, "schedules", {}, headers={**headers, "gapless-schedule": "other"})
    assert drain(runs.dsn, nightly).dead == 0
    assert runs.done() == {2030: 1}
    rows = conn.execute(
        "select payload from gapless.outbox_message_t where topic_id = gapless.topic_id('jobs')"
    ).fetchall()
    assert rows == [({"n": 2030},)]
