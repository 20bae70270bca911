"""A Spark task that works on a partition: the turns a worker takes, under the same fence.

Effects and offset are one commit, so a task that is tried again, or runs twice, goes on where the
last commit was. It ends when the partition is idle, its time is up, or the lease is not ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from time import monotonic

from gapless.consume.drive import Driver
from gapless.consume.handler import Handler
from gapless.consume.load import load_handlers
from gapless.consume.turn import Limits
from gapless.db.connect import connect
from gapless.db.queries import query
from gapless.errors import BlockedError, HoleError, UsageError
from gapless.keys import Assignment, Partition


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a task is told; everything in it can be pickled.

    references: where the handlers are, imported in the process that runs them; `name` is the one.
    alone: so many events are handled one unit at a time, its attempt written down (I8).
    """

    dsn: str
    references: tuple[str, ...]
    name: str
    assignment: Assignment
    limits: Limits
    max_processing_ms: int
    quota_s: float
    alone: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a task did; `fenced`: the partition is another owner's; `error`: why it stands still."""

    partition: Partition
    events: int
    dead: int
    fenced: bool
    error: str | None = None


def run_tasks(works: Iterable[Work]) -> Iterator[Report]:
    """Work on each partition of a Spark partition; what Spark's mapPartitions calls."""
    for work in works:
        yield work_on(work)


def work_on(work: Work) -> Report:
    """Go on until idle, fenced, or out of time. Raises psycopg's errors: Spark tries again."""
    handler = find_handler(work.references, work.name)
    partition = work.assignment.partition
    events = dead = 0
    give_up_s = monotonic() + work.quota_s
    with closing(connect(work.dsn, role=f"spark task {partition}")) as conn:
        conn.execute(
            query("connect", "guard_worker"), {"max_processing_ms": work.max_processing_ms + 5000}
        )
        driver = Driver(conn, work.assignment, handler, work.limits)
        while True:
            try:
                done = driver.turn(alone=events < work.alone)
            except (HoleError, BlockedError) as error:
                return Report(
                    partition=partition, events=events, dead=dead, fenced=False, error=str(error)
                )
            events += done.events
            dead += done.dead
            is_over = done.outcome == "fenced" or monotonic() > give_up_s
            if is_over or (done.outcome == "idle" and not driver.has_due()):
                fenced = done.outcome == "fenced"
                return Report(partition=partition, events=events, dead=dead, fenced=fenced)


@cache
def find_handler(references: tuple[str, ...], name: str) -> Handler:
    """Return the handler of that name. Raises UsageError when it is not there."""
    for reference in references:
        for handler in load_handlers(reference):
            if handler.name == name:
                return handler
    raise UsageError(f"there is no handler {name} where Spark's tasks run: ship the application")
