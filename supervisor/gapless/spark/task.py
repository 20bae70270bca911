"""A Spark task that works on a partition: the turns a worker takes, under the same fence.

Effects and offset are one commit, so a task that is tried again, or runs twice, goes on where the
last commit was. It ends when the partition is idle, its time is up, or the lease is not ours.
"""

from __future__ import annotations

import faulthandler
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from time import monotonic, sleep
from typing import Any

import psycopg
from psycopg import Connection
from psycopg.pq import TransactionStatus

from gapless.consume.drive import Driver
from gapless.consume.job import Job
from gapless.consume.terms import Terms, serves
from gapless.consume.user.handler import Handler
from gapless.consume.user.load import load_handlers
from gapless.db.connect import connect, is_transient
from gapless.db.queries import query
from gapless.errors import BlockedError, HoleError, UsageError
from gapless.keys import Assignment, Partition
from gapless.logs import owns
from gapless.spark.reach import connect_task
from gapless.worker.forgive import Loss, forgive

RECONNECT_S = 10.0  # after a lost session; then its attempt counts
PAUSE_S = 0.05  # after what passes by itself; twice as long each time


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a task is told; everything in it can be pickled.

    references: where the handlers are, imported in the process that runs them.
    default_group, default_topic: the group and the topic of those that name none.
    alone: so many events are handled one unit at a time, its attempt written down (I8).
    identity: which database it has to be (reach.py); None: whichever is there.
    """

    dsn: str = field(repr=False)
    references: tuple[str, ...]
    default_group: str | None
    default_topic: str
    assignment: Assignment
    terms: Terms
    max_processing_ms: int
    quota_s: float
    alone: int = 0
    identity: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a task did; `fenced`: the partition is another owner's; `error`: why it stands still."""

    partition: Partition
    events: int = 0
    dead: int = 0
    fenced: bool = False
    error: str | None = None


def run_tasks(works: Iterable[Work]) -> Iterator[Report]:
    """Work on each partition of a Spark partition; what Spark's mapPartitions calls."""
    for work in works:
        yield work_on(work)


def work_on(work: Work) -> Report:
    """Go on until idle, fenced, or out of time; a lost session is Spark's to try again."""
    partition = work.assignment.partition
    handler = find_handler(
        work.references,
        (work.default_group, work.default_topic),
        (partition.group_id, partition.topic),
    )
    role = _role(work.assignment)
    with closing(connect_task(work.dsn, role=role, identity=work.identity)) as conn:
        conn.execute(
            query("connect", "guard_worker"), {"max_processing_ms": work.max_processing_ms + 5000}
        )
        owns(work.assignment)
        driver = Driver(
            Job(conn=conn, assignment=work.assignment, handler=handler, terms=work.terms)
        )
        began_s = monotonic()
        with _watched(work):
            try:
                return _turns(work, driver)
            except psycopg.Error as error:
                # Spark tries again under the same epoch, in another process.
                loss = Loss(error=error, began_s=began_s, draw=os.getpid())
                forgive(
                    driver,
                    loss,
                    lambda: connect(work.dsn, role=role),
                    patience_s=RECONNECT_S,
                )
                raise


def _turns(work: Work, driver: Driver) -> Report:
    """Take turns; what passes by itself is tried again here, as a worker does."""
    report = Report(partition=work.assignment.partition)
    give_up_s = monotonic() + work.quota_s
    pause_s = PAUSE_S
    is_over = False
    while True:
        _arm_watch(work, driver.oldest_s)
        try:
            rests = is_over and driver.going_on
            done = driver.rest() if rests else driver.turn(alone=report.events < work.alone)
        except (HoleError, BlockedError) as error:
            return replace(report, error=str(error))
        except psycopg.Error as error:
            is_over = monotonic() > give_up_s
            # Calls that go on end with this process: nobody may call a unit beside them.
            if (
                not is_transient(error)
                or not _is_sound(driver.conn)
                or (is_over and driver.going_on)
            ):
                raise
            if is_over:
                return replace(report, error=f"retrying: {' '.join(str(error).split())[:500]}")
            sleep(pause_s)
            pause_s *= 2
            continue
        pause_s = PAUSE_S
        report = replace(
            report,
            events=report.events + done.events,
            dead=report.dead + done.dead,
            fenced=done.outcome == "fenced",
        )
        is_idle = done.outcome == "idle" and not driver.has_due()
        is_over = is_over or is_idle or monotonic() > give_up_s
        if report.fenced or (is_over and not driver.going_on):
            return report


@contextmanager
def _watched(work: Work) -> Iterator[None]:
    """End this process when a turn takes longer than maxProcessingMs: Spark would wait for ever."""
    _arm_watch(work)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


def _arm_watch(work: Work, oldest_s: float | None = None) -> None:
    """Watch from now on, or from when the oldest call that is going on began."""
    spent_s = 0.0 if oldest_s is None else monotonic() - oldest_s
    # A thread of C's: it ends a handler that keeps the interpreter for itself, too, and says where.
    faulthandler.dump_traceback_later(
        max(0.001, work.max_processing_ms / 1000 - spent_s),
        exit=True,
        file=sys.__stderr__ or sys.stderr,
    )


def _is_sound(conn: Connection[Any]) -> bool:
    return not conn.closed and conn.info.transaction_status == TransactionStatus.IDLE


def _role(assignment: Assignment) -> str:
    """Say under which epoch the session works: it is in pg_stat_activity, too."""
    return f"spark task {assignment.epoch} of {assignment.partition}"


@cache
def find_handler(
    references: tuple[str, ...], default: tuple[str | None, str], wanted: tuple[str, str]
) -> Handler:
    """Return the handler that serves a topic for a group, as the driver has it.

    wanted: the group and the topic; default: those of handlers that name none.
    Raises UsageError when it is not there.
    """
    group_id, topic = wanted
    try:
        for reference in references:
            for handler in load_handlers(reference):
                if serves(handler, default) == wanted:
                    return handler
    except UsageError as error:
        raise UsageError(
            f"where Spark's tasks run, {error}. Executors need the application, and what it reads "
            "from the environment as spark.executorEnv.NAME"
        ) from error
    raise UsageError(
        f"where Spark's tasks run, no handler serves {topic} for {group_id}: is the application "
        "there another one?"
    )
