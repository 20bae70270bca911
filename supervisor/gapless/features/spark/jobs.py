"""The Spark jobs of a driver: one for each partition at work, so that none waits for another's.

Spark tries a task again, wherever it died; a failed job is a problem of its partition alone. A
thread asks all the time, beside the work, whether Spark is still there: a JVM that ended or is
stopped would otherwise keep the leases of a driver that can do nothing with them (I8).
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any

from gapless.errors import GaplessError
from gapless.features.spark.session import sentence
from gapless.features.spark.task import Report, Work, run_tasks
from gapless.keys import Partition

if TYPE_CHECKING:
    from pyspark import SparkContext

AT_ONCE_MAX = 64  # more wait for their turn
LOOK_EVERY_S = 1.0
SILENCE_S = 20.0  # a busy machine or a full garbage collection needs that long
OWN_PAUSE_S = 1.0  # no look for so long: this process was stopped, which is not Spark's fault


@dataclass(slots=True)
class _Job:
    group: str
    ending: Future[Report]
    due_s: float  # from then on it takes too long, if its task runs
    is_late: bool = False


class Jobs:
    """Starts a job for a partition, and gives its report or its error when it has ended."""

    def __init__(self, context: SparkContext, *, limit_s: float) -> None:
        """limit_s: the seconds that a task takes at most."""
        self._context: Any = context
        self._limit_s = limit_s
        self._jobs: dict[Partition, _Job] = {}
        self._number = 0
        self._pool = ThreadPoolExecutor(AT_ONCE_MAX, "gapless-job")
        self._watcher = ThreadPoolExecutor(1, "gapless-watch")
        self._look: Future[bool] | None = None
        self._look_began_s = self._tended_s = 0.0

    @property
    def at_work(self) -> set[Partition]:
        """The partitions whose jobs have not been returned by `ended()`."""
        return set(self._jobs)

    def start(self, work: Work) -> None:
        """Start a job. Before: the partition has none."""
        self._number += 1
        group = f"gapless-{self._number}"
        self._jobs[work.assignment.partition] = _Job(
            group=group,
            ending=self._pool.submit(self._run, group, work),
            due_s=monotonic() + self._limit_s,
        )

    def ended(self) -> list[tuple[Partition, Report | BaseException]]:
        """Return the results of jobs that have ended since the last call."""
        done = [each for each, job in self._jobs.items() if job.ending.done()]
        return [(each, _outcome(self._jobs.pop(each).ending)) for each in done]

    def tend(self) -> None:
        """Cancel jobs whose task hangs. Raises GaplessError when there is no Spark any more."""
        now = monotonic()
        paused_s = now - self._tended_s
        self._tended_s = now
        if paused_s > OWN_PAUSE_S:
            self._look_began_s += paused_s
        if self._look is None:
            if now - self._look_began_s > LOOK_EVERY_S:
                self._look_began_s = now
                self._look = self._watcher.submit(self._watch, list(self._jobs.values()))
            return
        if not self._look.done():
            if now - self._look_began_s > SILENCE_S:
                raise GaplessError(f"Spark's JVM has not answered for {SILENCE_S:.0f} s")
            return
        look, self._look = self._look, None
        error = look.exception()
        if error is not None or look.result():
            why = f": {sentence(error)}" if error is not None else ""
            raise GaplessError(f"Spark has ended under the driver{why}")

    def forget(self) -> None:
        """Stop waiting for any job."""
        self._jobs.clear()

    def close(self) -> None:
        """Let go of Spark; the next owners of the partitions fence the tasks that still run."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._watcher.shutdown(wait=False, cancel_futures=True)

    def _run(self, group: str, work: Work) -> Report:
        self._context.setJobGroup(group, f"{work.assignment.partition}", interruptOnCancel=True)
        (report,) = self._context.parallelize([work], 1).mapPartitions(run_tasks).collect()
        return report  # type: ignore[no-any-return] # Spark does not know

    def _watch(self, jobs: list[_Job]) -> bool:
        """Tell whether Spark has stopped. Runs in a thread: a JVM may not answer."""
        for job in jobs:
            if monotonic() > job.due_s and self._has_task(job):
                if job.is_late:
                    self._context.cancelJobGroup(job.group)
                # A task that waited for a core gets its full time as well.
                job.is_late, job.due_s = True, monotonic() + self._limit_s
        return bool(self._context._jsc.sc().isStopped())  # noqa: SLF001 - PySpark does the same

    def _has_task(self, job: _Job) -> bool:
        tracker = self._context.statusTracker()
        stages = [
            tracker.getStageInfo(stage_id)
            for job_id in tracker.getJobIdsForGroup(job.group)
            for info in [tracker.getJobInfo(job_id)]
            for stage_id in (info.stageIds if info is not None else ())
        ]
        return any(stage is not None and stage.numActiveTasks for stage in stages)


def _outcome(ending: Future[Report]) -> Report | BaseException:
    with suppress(BaseException):
        return ending.result()
    error = ending.exception()
    assert error is not None
    return error
