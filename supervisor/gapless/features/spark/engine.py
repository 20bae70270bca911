"""Handlers on Spark: the driver is a member of the group and holds the leases, tasks do the steps.

Supervisors and drivers may share a group: both are members, and the next owner of a partition
takes its lock, its lease and its fence as a worker does. The driver's session holds the locks; when
the driver dies they are free, and a successor's fence keeps out its tasks' late commits (I7).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import Connection

from gapless.consume.terms import Terms
from gapless.db.connect import connect, is_transient
from gapless.db.queries import query
from gapless.errors import ConnectError, GaplessError, UnplacedError, UsageError, one_line
from gapless.features.metrics.keep import ExporterKeeper
from gapless.features.spark.jobs import Jobs
from gapless.features.spark.reach import Reached, reached
from gapless.features.spark.session import sentence
from gapless.features.spark.task import Report, Work
from gapless.keys import Partition
from gapless.lease import hold
from gapless.lease.member import Lease
from gapless.log.catch_up import sequence_if_alone
from gapless.settings import Settings
from gapless.worker.control import Control
from gapless.worker.plan import Plan
from gapless.worker.start import join_when_there

if TYPE_CHECKING:
    from pyspark import SparkContext

log = logging.getLogger("gapless.spark")

QUOTA_S = 5.0  # a task gives its slot back after so long, so that leases can move
LATE_S = 15.0  # beyond its quota and last turn: the task is stopped, or its executor lost
FULL_LOOK_S = 10.0  # so often all partitions are tried: a retry may be due without new events
TURN_S = 0.05
PAUSE_S = 5.0  # for a partition with a hole, or a blocked one
PAUSE_S_MAX = 30.0  # for a partition whose jobs fail
TAKE_EVERY_S = 0.25  # a request for a partition notifies its owner: not in every turn


@dataclass(slots=True)
class _Owned:
    """A partition of this driver; `alone`: the number of events to handle one by one."""

    lease_no: int
    held: hold.Held
    alone: int
    troubled: bool = False  # the status says why it does not continue
    failures: int = 0  # jobs in a row that failed
    due_s: float = 0.0  # no job before, after an error


def require_ordered(plan: Plan) -> None:
    """Raise UsageError for a queue handler: tasks work under leases, and a queue has none."""
    for handler in plan.handlers.values():
        if not handler.is_ordered:
            raise UsageError(
                f"{handler.name} is a queue handler: Spark runs handlers that keep the order of "
                "their events; gapless run without --engine spark runs queues"
            )


class Engine:
    """Runs a plan's handlers as Spark tasks until told to stop; `run()` returns when drained."""

    def __init__(
        self,
        plan: Plan,
        references: tuple[str, ...],
        context: SparkContext,
        exporter: ExporterKeeper | None = None,
    ) -> None:
        self._plan = plan
        self._exporter = exporter
        self._references = references
        settings = plan.settings
        limit_s = QUOTA_S + settings.max_processing_ms / 1000 + LATE_S
        self._jobs = Jobs(context, limit_s=limit_s)
        self._control = Control(plan)
        self._conn: Connection[Any] | None = None  # holds the advisory locks of owned partitions
        self._reached: Reached | None = None  # by that session
        self._owned: dict[Partition, _Owned] = {}
        self._full_due_s = 0.0
        self._take_due_s = 0.0
        self._draining = False

    def run(self, wait: Callable[[float], bool]) -> int:
        """Work until `wait` (which sleeps at most so many seconds) returns False; 0 when drained.

        Raises GaplessError when Spark ends or falls silent: its peers then have the partitions.
        """

        def rest(seconds: float) -> bool:
            self._tell()
            return wait(seconds)

        if not join_when_there(self._control, self._plan, rest):
            return 0
        try:
            while not (self._draining and not self._jobs.at_work and not self._owned):
                self._turn()
                if not rest(TURN_S) and not self._draining:
                    log.info("driver: draining")
                    self._draining = True
                    self._control.drain()
        finally:
            self._jobs.close()
            self._forget()  # the locks are free before the partitions are given to others
            self._control.leave()
        return 0

    def _tell(self) -> None:
        if self._exporter is not None:
            self._exporter.turn(self._control.member_id, drains=self._draining)

    def _turn(self) -> None:
        if self._control.tend() == "lost":
            self._forget()  # no longer a member: the next owners fence our tasks
        try:
            self._end_jobs()
            self._tend_jobs()
            if self._control.is_member:
                conn = self._session()
                sequence_if_alone(conn)
                self._take_and_give(conn, self._control.member.leases())
                self._begin_jobs(conn)
        except (psycopg.Error, ConnectError) as error:
            if not is_transient(error):
                raise
            log.warning("driver: connection lost, will be back: %s", one_line(error))
            self._forget()

    def _session(self) -> Connection[Any]:
        if self._conn is None or self._conn.closed:
            self._owned.clear()  # the locks went with the session
            self._conn = connect(self._plan.dsn, role="spark driver")
            self._reached = reached(self._conn)
        return self._conn

    def _forget(self) -> None:
        self._owned.clear()
        if self._conn is not None:
            self._conn.close()
            self._conn = None

    # -- leases ------------------------------------------------------------------------------------

    def _take_and_give(self, conn: Connection[Any], leases: list[Lease]) -> None:
        me = self._control.member.member_id
        wanted = {lease.partition: lease for lease in leases if lease.target == me}
        for partition, owned in list(self._owned.items()):
            is_to_go = partition not in wanted or self._draining
            if is_to_go and partition not in self._jobs.at_work:
                hold.release(conn, owned.held.assignment, owned.lease_no)
                del self._owned[partition]
        if self._draining or monotonic() < self._take_due_s:
            return
        self._take_due_s = monotonic() + TAKE_EVERY_S
        for partition, lease in wanted.items():
            if partition not in self._owned and partition not in self._jobs.at_work:
                self._take(conn, lease)

    def _take(self, conn: Connection[Any], lease: Lease) -> None:
        hold.announce(conn, lease.partition)
        me = self._control.member.member_id
        assignment = hold.try_take(conn, lease.lease_no, lease.partition, me)
        if assignment is None:
            if lease.owner is None:
                hold.break_zombie(conn, lease.partition)
            return
        held = None
        try:
            held = hold.install(conn, assignment)
        except psycopg.errors.LockNotAvailable:
            pass  # a task of the former owner still works on it: the next turn tries again
        except UnplacedError as error:
            hold.report_error(conn, assignment, f"stopped: {error}")
        if held is None:
            hold.unlock(conn, lease.lease_no)
            return
        alone = self._terms(lease.partition).batch_size if held.unclean else 0
        self._owned[lease.partition] = _Owned(lease_no=lease.lease_no, held=held, alone=alone)
        log.info("%s: acquired, epoch %s", lease.partition, held.assignment.epoch)

    # -- jobs --------------------------------------------------------------------------------------

    def _begin_jobs(self, conn: Connection[Any]) -> None:
        """Start a Spark job for each owned partition that has work, and no job yet."""
        now = monotonic()
        at_work = self._jobs.at_work
        idle = [
            partition
            for partition, owned in self._owned.items()
            if partition not in at_work and now >= owned.due_s
        ]
        if self._draining or not idle:
            return
        if now < self._full_due_s:
            behind = self._behind(conn)
            idle = [each for each in idle if _key(each) in behind]
        else:
            self._full_due_s = now + FULL_LOOK_S
        for partition in idle:
            self._jobs.start(self._work(partition))

    def _tend_jobs(self) -> None:
        try:
            self._jobs.tend()
        except GaplessError as error:
            if not self._draining:
                raise
            log.warning("driver: %s; running work is not committed", error)
            self._forget()
            self._jobs.forget()

    def _end_jobs(self) -> None:
        for partition, outcome in self._jobs.ended():
            owned = self._owned.get(partition)
            if owned is None:
                continue
            if isinstance(outcome, Report):
                self._note(owned, outcome)
            else:
                self._note_failure(partition, owned, sentence(outcome))

    def _note_failure(self, partition: Partition, owned: _Owned, why: str) -> None:
        """Try again later, one unit at a time: perhaps one of them kills its process (I8)."""
        owned.failures += 1
        owned.due_s = monotonic() + min(PAUSE_S_MAX, 0.5 * 2**owned.failures)
        owned.alone = self._terms(partition).batch_size
        log.warning("%s: a job failed, trying again with care: %s", partition, why)
        self._report(owned, f"retrying: {why}")

    def _note(self, owned: _Owned, report: Report) -> None:
        self._report(owned, report.error)
        owned.failures = 0
        owned.due_s = monotonic() + PAUSE_S if report.error else 0.0
        owned.alone = max(0, owned.alone - report.events) if report.events else 0
        if report.dead:
            group = report.partition.group_id
            log.warning(
                "%s: dead letters: %s more (gapless dlq list --group %s)",
                report.partition,
                report.dead,
                group,
            )
        if report.fenced and self._conn is not None:
            # Another owner or attempt was faster: the lease decides whether we take it again.
            log.warning("%s: fenced", report.partition)
            hold.release(self._conn, owned.held.assignment, owned.lease_no)
            del self._owned[report.partition]

    def _report(self, owned: _Owned, error: str | None) -> None:
        """Write into the lease why the partition does not continue; None: it continues."""
        if self._conn is not None and (error is not None or owned.troubled):
            hold.report_error(self._conn, owned.held.assignment, error)
            owned.troubled = error is not None

    def _behind(self, conn: Connection[Any]) -> set[tuple[str, int, int]]:
        rows = conn.execute(
            query("spark", "behind"), {"member_id": self._control.member.member_id}
        ).fetchall()
        return {(group_id, topic_id, partition_id) for group_id, topic_id, partition_id in rows}

    def _work(self, partition: Partition) -> Work:
        owned = self._owned[partition]
        assert self._reached is not None  # by the session that holds the partition
        return Work(
            dsn=self._reached.dsn,
            identity=self._reached.identity,
            references=self._references,
            default_group=self._settings.group_id,
            default_topic=self._settings.topic,
            assignment=owned.held.assignment,
            terms=self._terms(partition),
            max_processing_ms=self._settings.max_processing_ms,
            quota_s=QUOTA_S,
            alone=owned.alone,
        )

    def _terms(self, partition: Partition) -> Terms:
        return self._plan.terms[partition.group_id, partition.topic]

    @property
    def _settings(self) -> Settings:
        return self._plan.settings


def _key(partition: Partition) -> tuple[str, int, int]:
    return partition.group_id, partition.topic_id, partition.partition_id
