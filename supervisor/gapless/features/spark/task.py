"""A Spark task that works on a partition: a worker's turns, under the same fence.

Effects and offset are one commit, so a task that is tried again, or runs twice, continues after the
last commit. It ends when the partition is idle, its time is up, or the lease is not ours.
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

import psycopg

from gapless.consume.drive import Driver
from gapless.consume.job import Job, Step
from gapless.consume.terms import Terms, serves
from gapless.consume.user.handler import Handler
from gapless.consume.user.load import load_handlers
from gapless.db.connect import is_transient
from gapless.errors import BlockedError, HoleError, UsageError
from gapless.features.spark.reach import connect_task
from gapless.keys import Assignment, Partition
from gapless.logs import owns
from gapless.worker.retries import Retries
from gapless.worker.session_loop import Host, Opening, is_sound, session_loop

RECONNECT_S = 10.0  # after a lost session; then its attempt counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The orders for a task; everything in it can be pickled.

    references: of the handlers, imported in the process that runs them. default_group,
    default_topic: for handlers that name none. alone: the number of events to handle one unit at a
    time, with its attempt recorded (I8). identity: the expected database (reach.py); None: any
    database.
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
    """A task's result; `fenced`: the partition has another owner; `error`: why it stands still."""

    partition: Partition
    events: int = 0
    dead: int = 0
    fenced: bool = False
    error: str | None = None


def run_tasks(works: Iterable[Work]) -> Iterator[Report]:
    """Work on each partition of a Spark partition; Spark's mapPartitions calls it."""
    for work in works:
        yield work_on(work)


def work_on(work: Work) -> Report:
    """Continue until idle, fenced, or out of time; after a lost session Spark tries again."""
    partition = work.assignment.partition
    handler = find_handler(
        work.references,
        (work.default_group, work.default_topic),
        (partition.group_id, partition.topic),
    )
    role = _role(work.assignment)
    opening = Opening(
        connect=lambda: connect_task(work.dsn, role=role, identity=work.identity),
        max_processing_ms=work.max_processing_ms,
        patience_s=RECONNECT_S,
    )
    with closing(opening.open()) as conn:
        owns(work.assignment)
        job = Job(conn=conn, assignment=work.assignment, handler=handler, terms=work.terms)
        with _watched(work):
            return session_loop(_Task(work, Driver(job)), opening)


class _Task(Host["_Task", Report]):
    """One partition and its own host; transient errors are tried again, as in a worker."""

    def __init__(self, work: Work, driver: Driver) -> None:
        self.due_s = 0.0
        self._work = work
        self._driver = driver
        self._give_up_s = monotonic() + work.quota_s
        self._retries = Retries(work.quota_s)
        self._report = Report(partition=work.assignment.partition)
        self._end: Report | None = None
        self._is_over = False  # running work comes to its end, and nothing begins

    def turn(self) -> Report | None:
        """Take a turn; return the task's report when it was the last one."""
        driver = self._driver
        _arm_watch(self._work, driver.oldest_s)
        try:
            if self._is_over and driver.going_on:
                done = driver.rest()
            else:
                done = driver.turn(alone=self._report.events < self._work.alone)
        except (HoleError, BlockedError) as error:
            return replace(self._report, error=str(error))
        except psycopg.Error as error:
            return self._try_later(error)
        self._retries.succeeded()
        return self._succeed(done)

    def _try_later(self, error: psycopg.Error) -> Report | None:
        """Wait for transient errors to pass; raise others."""
        self._is_over = monotonic() > self._give_up_s
        # Running calls end with this process: no other process may call a unit beside them.
        leaves_calls = self._is_over and self._driver.going_on
        if leaves_calls or not is_transient(error) or not is_sound(self._driver.conn):
            raise error
        if self._is_over:
            return replace(self._report, error=f"retrying: {' '.join(str(error).split())[:500]}")
        self.due_s = monotonic() + self._retries.failed()
        return None

    def _succeed(self, done: Step) -> Report | None:
        self._report = report = replace(
            self._report,
            events=self._report.events + done.events,
            dead=self._report.dead + done.dead,
            fenced=done.outcome == "fenced",
        )
        is_idle = done.outcome == "idle" and not self._driver.has_due()
        self._is_over = self._is_over or is_idle or monotonic() > self._give_up_s
        is_last = report.fenced or (self._is_over and not self._driver.going_on)
        return report if is_last else None

    # -- its own host ------------------------------------------------------------------------------

    def over(self) -> Report | None:
        """Return the task's report once it is over."""
        return self._end

    def next(self) -> _Task:
        """Return the only partition."""
        return self

    def wait(self, until_s: float) -> None:
        """Sleep until that time."""
        sleep(max(0.0, until_s - monotonic()))

    def took(self, _served: _Task, end: Report | None, /) -> None:
        """Keep its report."""
        self._end = end

    def in_hand(self) -> Iterator[tuple[Driver, int]]:
        """Return the driver; Spark tries again under the same epoch, in another process."""
        yield self._driver, os.getpid()


@contextmanager
def _watched(work: Work) -> Iterator[None]:
    """End this process when a turn takes longer than maxProcessingMs: Spark would wait forever."""
    _arm_watch(work)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


def _arm_watch(work: Work, oldest_s: float | None = None) -> None:
    """Watch from now on, or from the start of the oldest running call."""
    spent_s = 0.0 if oldest_s is None else monotonic() - oldest_s
    # A thread of C: it also ends a handler that keeps the interpreter for itself, and shows where.
    faulthandler.dump_traceback_later(
        max(0.001, work.max_processing_ms / 1000 - spent_s),
        exit=True,
        file=sys.__stderr__ or sys.stderr,
    )


def _role(assignment: Assignment) -> str:
    """Return the session's role with its epoch, which pg_stat_activity shows, too."""
    return f"spark task {assignment.epoch} of {assignment.partition}"


@cache
def find_handler(
    references: tuple[str, ...], default: tuple[str | None, str], wanted: tuple[str, str]
) -> Handler:
    """Return the handler that serves a topic for a group, as in the driver.

    wanted: the group and the topic; default: those of handlers that name none. Raises UsageError
    when there is none.
    """
    group_id, topic = wanted
    try:
        for reference in references:
            for handler in load_handlers(reference):
                if serves(handler, default) == wanted:
                    return handler
    except UsageError as error:
        raise UsageError(
            f"where Spark's tasks run, {error}. Executors need the application, and its "
            "environment variables as spark.executorEnv.NAME"
        ) from error
    raise UsageError(
        f"where Spark's tasks run, no handler serves {topic} for {group_id}: is the application "
        "there another one?"
    )
