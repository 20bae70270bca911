"""Run handlers through the real step, on a real database, in the process of a test."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from types import ModuleType
from typing import Any
from uuid import uuid4

from psycopg import Connection

from gapless.consume.drive import Driver
from gapless.consume.job import Job, Step
from gapless.consume.terms import Terms, agree, require_fit
from gapless.consume.user.handler import Handler
from gapless.consume.user.load import load_handlers
from gapless.db.connect import connect
from gapless.errors import UsageError
from gapless.features.queue.drive import QueueDriver
from gapless.features.queue.place import open_queue
from gapless.keys import Assignment
from gapless.lease import hold
from gapless.lease.member import Member, ServedTopic, Timing, create_group
from gapless.log.catch_up import sequence_all
from gapless.log.topics import require_topic
from gapless.resources import close_all, open_all
from gapless.settings import Settings
from gapless.worker.served import subscription_of

ROUNDS_MAX = 1000
_TIMING = Timing(
    ttl_ms=int(timedelta(hours=1).total_seconds() * 1000), suspect_grace_ms=0, reconnect_grace_ms=0
)
_RESERVE_S = timedelta(hours=1).total_seconds()


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """The result of drain(): events and units passed, and how many units are dead letters."""

    events: int
    units: int
    dead: int


App = Handler | Iterable[Handler] | ModuleType | str


def drain(
    dsn: str, app: App, *, group: str | None = None, settings: Settings | None = None
) -> Drained:
    """Sequence the published events and run handlers over all of them, in this process.

    app: a handler; or several, a module of handlers, or a reference as `gapless run` takes it: then
    all of them run again and again, until they have handled all events that they publish for each
    other.
    Each takes part as a member of its group like a supervisor, so the fence and the offsets are
    real. group: the consumer group, of one handler; default the handler's, else that of the
    settings, else "testing".
    settings: as `gapless run` would load them (default: the defaults); the handler's own
    options come first, as there.
    Failed units are set aside by the handler's policy; retries that are due are made as well.
    Resources are open until it returns. It returns when nothing that is due is left; it waits for
    no retry.
    Raises UsageError for an unknown topic, when another member of the group owns a partition, when
    the handler's options do not fit together, or when a chain has no end (1000 rounds);
    ConnectError when the database refuses, ResourceError for a resource that cannot be opened.
    KeyboardInterrupt (Ctrl-C) passes through; any other error of a handler is one of its unit.
    """
    wanted = settings or Settings()
    try:
        if isinstance(app, Handler):
            return _drain_one(dsn, app, group, wanted)
        handlers = _handlers_of(app)
        if group is not None:
            raise UsageError(f"drain(group={group!r}): only with one handler")
        total = Drained(events=0, units=0, dead=0)
        for _ in range(ROUNDS_MAX):
            done = [_drain_one(dsn, handler, None, wanted) for handler in handlers]
            total = _sum_of([total, *done])
            if not any(each.units for each in done):
                return total
        raise UsageError(f"drain(): still busy after {ROUNDS_MAX} rounds: a chain without an end?")
    finally:
        close_all()


async def drain_async(
    dsn: str, app: App, *, group: str | None = None, settings: Settings | None = None
) -> Drained:
    """Do the same as drain(), on a thread: the caller's event loop continues. Raises the same."""
    return await asyncio.to_thread(drain, dsn, app, group=group, settings=settings)


def _handlers_of(app: Iterable[Handler] | ModuleType | str) -> list[Handler]:
    if isinstance(app, str):
        return load_handlers(app)
    found: Iterable[object] = list(vars(app).values()) if isinstance(app, ModuleType) else app
    handlers = list(dict.fromkeys(each for each in found if isinstance(each, Handler)))
    if not handlers:
        raise UsageError("drain(): no handler there; put @gapless.handler(topic=…) above it")
    return handlers


def _sum_of(parts: Iterable[Drained]) -> Drained:
    each = list(parts)
    return Drained(
        events=sum(part.events for part in each),
        units=sum(part.units for part in each),
        dead=sum(part.dead for part in each),
    )


def _drain_one(dsn: str, handler: Handler, group: str | None, settings: Settings) -> Drained:
    terms = agree(handler, settings)
    require_fit(handler, terms)
    name = group or terms.group_id or "testing"
    open_all(handler.resources)
    with connect(dsn, role="testing") as conn:
        sequence_all(conn)
        if not terms.is_ordered:
            return _drain_queue(conn, handler, terms, name)
        topic = require_topic(conn, terms.topic)
        subscription = ServedTopic(
            group_id=name,
            topic=topic.name,
            topic_id=topic.topic_id,
            start=terms.start,
            filter=terms.filter,
        )
        member = Member(conn, [subscription], _TIMING, name="testing", capacity=None)
        try:
            member.sync()
            return _drain_all(conn, member, handler, terms)
        finally:
            member.leave()


def _drain_queue(conn: Connection[Any], handler: Handler, terms: Terms, group_id: str) -> Drained:
    """Share the group's queue with other workers, until nothing is left to take."""
    for topic in terms.topics:
        create_group(conn, subscription_of(group_id, require_topic(conn, topic), terms))
    name = f"testing {uuid4().hex[:12]}"
    queue = open_queue(conn, handler, terms, group_id, worker=name, reserve_s=_RESERVE_S)
    driver = QueueDriver(queue)
    done: list[Step] = []
    while more := [*_turns(driver)]:
        done += more
        driver.wake()  # units set aside may be due at once
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
    # Again: after a change of the number of partitions, some wait for others.
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
