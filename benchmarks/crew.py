"""Processes that work side by side until they are told to stop: writers, pollers, queue workers."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import BrokenBarrierError
from time import monotonic
from typing import Any

import multiprocess

from benchmarks.cost import Meter

PATIENCE_S = 600.0  # enough on any busy machine; it bounds the wait for a failed process

_fork = multiprocess.get_context("fork")


class Cue:
    """The start and stop of a job: it gets ready, calls begin(), and runs while going() is true."""

    def __init__(self, barrier: Any, stop: Any) -> None:
        self._barrier = barrier
        self._stop = stop
        self._ended_s: float | None = None

    def begin(self) -> None:
        """Wait until all are ready, and then for the start."""
        self._barrier.wait(PATIENCE_S)
        self._barrier.wait(PATIENCE_S)

    def going(self) -> bool:
        return not self._stop.is_set()

    def rest(self, for_s: float) -> None:
        """Sleep, but not beyond the end."""
        self._stop.wait(for_s)

    def stop(self) -> None:
        self._stop.set()

    def did(self) -> None:
        """Note that the job did something now, if it takes time to return."""
        self._ended_s = monotonic()

    @property
    def ended_s(self) -> float:
        """The time at which the job last did something."""
        return monotonic() if self._ended_s is None else self._ended_s


Job = Callable[[Cue], int]


class Crew:
    """A crew at work. After stop() or join(): `done`, the sum of all jobs, and the time they took.

    ready_s: the time from the first process's start until all could begin.
    """

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._cue = Cue(_fork.Barrier(len(jobs) + 1), _fork.Event())
        self._results = _fork.SimpleQueue()
        self._processes = [_fork.Process(target=self._run, args=(job,)) for job in jobs]
        self._began_s = 0.0
        self.meter: Meter | None = None
        self.done = 0
        self.took_s = 0.0
        self.ready_s = 0.0

    def start(self, metered_dsn: str | None) -> None:
        """Start all jobs; return when they have begun, all at once."""
        started_s = monotonic()
        for process in self._processes:
            process.start()
        self._give_cue()
        self.ready_s = monotonic() - started_s
        self.meter = Meter(metered_dsn) if metered_dsn else None
        self._began_s = monotonic()
        self._give_cue()

    def _give_cue(self) -> None:
        try:
            self._cue._barrier.wait(PATIENCE_S)  # noqa: SLF001 - the crew gives the cue
        except BrokenBarrierError:  # a process has failed: the error names it, and the reason
            self.stop()  # others may have begun, and would go on

    def stop(self) -> None:
        """Let all jobs finish their present step. Raises RuntimeError for one that failed."""
        self._cue.stop()
        self.join()

    def join(self) -> None:
        """Wait for jobs that end by themselves."""
        for process in self._processes:
            process.join(PATIENCE_S)
        codes = [process.exitcode for process in self._processes]
        if any(codes) or None in codes:
            raise RuntimeError(f"a process of the benchmark ended with {codes}")
        results = [self._results.get() for _ in self._processes]
        self.done = sum(done for done, _ in results)
        self.took_s = max(ended_s for _, ended_s in results) - self._began_s

    def kill(self) -> None:
        """End the remaining processes."""
        for process in self._processes:
            if process.is_alive():
                process.kill()
                process.join()

    def _run(self, job: Job) -> None:
        gc.freeze()  # as workers do: objects of the parent are no garbage of the job
        try:
            done = job(self._cue)
        except BaseException:
            self._cue._barrier.abort()  # noqa: SLF001 - no process has to wait for this one
            raise
        self._results.put((done, self._cue.ended_s))


@contextmanager
def crew(jobs: Sequence[Job], metered_dsn: str | None = None) -> Iterator[Crew]:
    """Run jobs in a process each; they have begun when the block is entered.

    metered_dsn: make a meter of that server when they begin.
    """
    made = Crew(jobs)
    try:
        made.start(metered_dsn)
        yield made
    finally:
        made.kill()
