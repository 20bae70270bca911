"""For the tests of those who write handlers: run them through the real step, on a real database.

def test_billing(dsn):
    gapless.testing.install(dsn, topics={"orders": 4})
    with psycopg.connect(dsn) as conn:
        gapless.publish(conn, "orders", {"total": 5}, key="AA")
    assert drain(dsn, billing.bill).dead == 0
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import uuid4

from psycopg import Connection

from gapless.consume.drive import Driver
from gapless.consume.job import Job, Step
from gapless.consume.queue.drive import QueueDriver
from gapless.consume.queue.place import open_queue
from gapless.consume.terms import Terms, agree, require_fit
from gapless.consume.user.handler import Handler
from gapless.db.connect import connect
from gapless.db.migrate import migrate
from gapless.errors import UsageError
from gapless.keys import Assignment
from gapless.lease import hold
from gapless.lease.member import Member, Subscription, Timing, create_group
from gapless.log.catch_up import sequence_all
from gapless.log.sequence import create_chunks
from gapless.log.topics import ensure_topic, require_topic
from gapless.settings import Settings
from gapless.worker.subscribe import subscription_of

_TIMING = Timing(
    ttl_ms=int(timedelta(hours=1).total_seconds() * 1000), suspect_grace_ms=0, reconnect_grace_ms=0
)
_RESERVE_S = timedelta(hours=1).total_seconds()


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """What drain() did: events and units passed, and how many of the units are dead letters."""

    events: int
    units: int
    dead: int


def install(dsn: str, *, topics: Mapping[str, int] | None = None) -> None:
    """Install the schema and create topics. Repeat freely.

    dsn: of the database, as libpq takes it; its role must be allowed to make a schema there.
    topics: the number of partitions, 1 to 4096, by name; one that is there must have that many.
    Raises ConnectError when the database refuses, SchemaError when a newer gapless made its schema,
    UsageError for a topic that exists with another number or whose name cannot be one.
    """
    with connect(dsn, role="testing") as conn:
        migrate(conn)
        create_chunks(conn)
        for name, partitions in (topics or {}).items():
            ensure_topic(conn, name, partitions=partitions)


def drain(
    dsn: str, handler: Handler, *, group: str | None = None, settings: Settings | None = None
) -> Drained:
    """Sequence what was published and run `handler` over all of it, in this process.

    It takes part as a member of the group like a supervisor, so the fence and the offsets are real.
    group: the consumer group; default the handler's, else that of the settings, else "testing".
    settings: what `gapless run` would be configured with (default: the defaults); the handler's own
    options come first, as there.
    What fails is set aside as the handler's policy says; retries that are due are done as well.
    Returns when nothing is left that is due; it waits for no retry.
    Raises UsageError for an unknown topic, when another member of the group owns a partition, or
    when the handler's options do not fit together; ConnectError when the database refuses.
    KeyboardInterrupt (Ctrl-C) goes through; any other error of the handler is one of its unit.
    """
    terms = agree(handler, settings or Settings())
    require_fit(handler, terms)
    name = group or terms.group_id or "testing"
    with connect(dsn, role="testing") as conn:
        sequence_all(conn)
        if terms.mode == "queue":
            return _drain_queue(conn, handler, terms, name)
        topic = require_topic(conn, terms.topic)
        subscription = Subscription(
            group_id=name, topic=topic.name, topic_id=topic.topic_id, start=terms.start
        )
        member = Member(conn, [subscription], _TIMING, name="testing", capacity=None)
        try:
            member.sync()
            return _drain_all(conn, member, handler, terms)
        finally:
            member.leave()


def _drain_queue(conn: Connection[Any], handler: Handler, terms: Terms, group_id: str) -> Drained:
    """Share the group's queue with whoever is at work on it, until nothing is left to take."""
    for topic in terms.topics:
        create_group(conn, subscription_of(group_id, require_topic(conn, topic), terms))
    name = f"testing {uuid4().hex[:12]}"
    queue = open_queue(conn, handler, terms, group_id, worker=name, reserve_s=_RESERVE_S)
    driver = QueueDriver(queue)
    done: list[Step] = []
    while more := [*_turns(driver)]:
        done += more
        driver.wake()  # what was set aside may be due at once
    return Drained(
        events=sum(each.events for each in done),
        units=sum(each.units for each in done),
        dead=sum(each.dead for each in done),
    )


def _turns(driver: QueueDriver) -> Iterator[Step]:
    while (done := driver.turn()).outcome == "done" or driver.going_on:
        yield done
    driver.sweep()


def _drain_all(conn: Connection[Any], member: Member, handler: Handler, terms: Terms) -> Drained:
    held = []
    leases = member.leases()
    for lease in leases:
        if not hold.lock(conn, lease.lease_no):
            raise UsageError(f"{lease.partition}: a supervisor works on it")
        assignment = hold.take(conn, lease.partition, member.member_id)
        installed = hold.install(conn, assignment) if assignment else None
        if installed is None:
            raise UsageError(f"{lease.partition}: another member of the group owns it")
        held.append(installed.assignment)
    done: list[tuple[int, int, int]] = []
    # Again: after a change of their number, partitions wait for others.
    while more := [step_ for each in held for step_ in _steps(conn, each, handler, terms)]:
        done += more
    for lease, assignment in zip(leases, held, strict=True):
        hold.release(conn, assignment, lease.lease_no)
    events, units, dead = (sum(each) for each in zip(*done, strict=True)) if done else (0, 0, 0)
    return Drained(events=events, units=units, dead=dead)


def _steps(
    conn: Connection[Any], assignment: Assignment, handler: Handler, terms: Terms
) -> list[tuple[int, int, int]]:
    driver = Driver(Job(conn=conn, assignment=assignment, handler=handler, terms=terms))
    done = []
    while (result := driver.turn()).outcome == "done" or driver.has_due():
        done.append((result.events, result.units, result.dead))
    return done
