"""step() in this process, as the owner of partition 0: the turns of a worker without the worker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from psycopg import Connection

from benchmarks.turns import Side
from gapless.consume.job import Job
from gapless.consume.step import step
from gapless.consume.terms import Terms, agree
from gapless.consume.user.handler import Handler
from gapless.db.connect import connect
from gapless.lease import hold
from gapless.lease.member import Member, Timing
from gapless.log.topics import require_topic
from gapless.settings import Settings
from gapless.worker.served import subscription_of


@contextmanager
def stepping(dsn: str, handler: Handler) -> Iterator[Side]:
    """Yield the turns of a handler's group, which is created if it is missing.

    A turn handles the events that one look has read ahead; it returns how many the group passed.
    """
    terms = agree(handler, Settings(batch_size=handler.batch_size))
    with connect(dsn, role="bench") as conn:
        member, held = _take(conn, handler.group or "", terms)
        job = Job(conn=conn, assignment=held.assignment, handler=handler, terms=terms)
        next_offset = 1

        def turn() -> int:
            nonlocal next_offset
            before = next_offset
            while next_offset == before:
                done = step(job, continue_while=lambda: True)
                if done.outcome != "done":
                    return 0
                next_offset = max(next_offset, done.next_offset)
            return next_offset - before

        yield Side(conn, turn)
        member.leave()


def _take(conn: Connection[Any], group: str, terms: Terms) -> tuple[Member, hold.Held]:
    """Own the topic's one partition, as a supervisor that is alone does."""
    subscription = subscription_of(group, require_topic(conn, terms.topic), terms)
    timing = Timing(ttl_ms=3_600_000, suspect_grace_ms=0, reconnect_grace_ms=0)
    member = Member(conn, [subscription], timing, name="bench", capacity=None)
    member.sync()
    (lease,) = member.leases()
    assert hold.lock(conn, lease.lease_no)
    assignment = hold.take(conn, lease.partition, member.member_id)
    assert assignment is not None
    held = hold.install(conn, assignment)
    assert held is not None
    return member, held
