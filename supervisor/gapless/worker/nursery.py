"""The children of a supervisor: fork, watch, restart with backoff, drain, kill."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import monotonic
from uuid import UUID

from gapless.consume.handler import Handler
from gapless.consume.step import Limits
from gapless.keys import Partition
from gapless.lease.member import Lease
from gapless.settings import Settings
from gapless.worker.board import Board
from gapless.worker.child import Child, explain_exit
from gapless.worker.loop import run_worker
from gapless.worker.reconcile import Running
from gapless.worker.sequencer import run_sequencer
from gapless.worker.spec import ExitCode, Pipe, SequencerSpec, WorkerSpec

log = logging.getLogger("gapless.supervisor")

SLOTS = 4096
BACKOFF_S_MAX = 5.0
STEADY_AFTER_S = 10.0  # a child that lived this long begins anew with the shortest backoff
# A child at rest says every second that it lives; one that was stopped or hangs does not.
SILENCE_S_MAX = 5.0  # and the time to connect
SEQUENCING_S_MAX = 600.0  # one run of the sequencer, over a backlog of 100 million events


@dataclass(slots=True)
class _Backoff:
    failures: int = 0
    due_s: float = 0.0

    def note(self, *, steady: bool) -> None:
        """Count a failure: the first restart is immediate, the next ones wait longer and longer.

        steady: the child had lived long, or got on, before it failed: that counts as the first.
        """
        self.failures = 1 if steady else self.failures + 1
        wait = 0.0 if self.failures == 1 else min(0.05 * 2**self.failures, BACKOFF_S_MAX)
        self.due_s = monotonic() + wait


class Nursery:
    """All children. `private_fds` lists the supervisor's descriptors that no child may keep."""

    def __init__(
        self,
        dsn: str,
        settings: Settings,
        supervisor_pid: int,
        private_fds: Callable[[], list[int]],
    ) -> None:
        self._dsn = dsn
        self._settings = settings
        self._supervisor_pid = supervisor_pid
        self._private_fds = private_fds
        self._board = Board(SLOTS)
        self._free_slots = list(range(SLOTS - 1, -1, -1))
        self._workers: dict[Partition, Child] = {}
        self._sequencer: Child | None = None
        self._backoffs: dict[Partition | None, _Backoff] = {}
        self._ended = False

    # -- workers ----------------------------------------------------------------------------------

    def running(self) -> dict[Partition, Running]:
        """Return the workers there are, those that wait for their partition included."""
        return {
            partition: Running(partition=partition, draining=child.draining)
            for partition, child in self._workers.items()
        }

    def start(self, lease: Lease, member_id: UUID, handler: Handler, limits: Limits) -> None:
        """Fork a worker for a partition, unless its backoff says not yet."""
        partition = lease.partition
        settings = self._settings
        spec = partial(
            WorkerSpec,
            dsn=self._dsn,
            supervisor_pid=self._supervisor_pid,
            wait_period_s=settings.wait_period_ms / 1000,
            connect_timeout_s=settings.connect_timeout_s,
            partition=partition,
            lease_no=lease.lease_no,
            member_id=member_id,
            handler=handler,
            limits=limits,
            max_processing_ms=settings.max_processing_ms,
            statement_timeout_ms=settings.statement_timeout_ms,
            zombie_after_s=settings.zombie_after_ms / 1000,
        )
        board = self._board

        def run(pipe: Pipe, slot: int, close_fds: tuple[int, ...]) -> None:
            run_worker(spec(slot=slot, close_fds=close_fds), pipe, board)

        child = self._fork(partition, f"worker {partition}", run)
        if child is not None:
            self._workers[partition] = child

    def drain(self, partition: Partition) -> None:
        """Tell a partition's worker to finish its batch, release and exit."""
        self._workers[partition].drain()

    def has_ended(self) -> bool:
        """Tell, once, whether a worker ended since the last call."""
        ended, self._ended = self._ended, False
        return ended

    def next_restart_s(self) -> float | None:
        """Return when the next backoff ends (monotonic), None when none is running."""
        now = monotonic()
        due = [b.due_s for b in self._backoffs.values() if b.due_s > now]
        return min(due, default=None)

    # -- the sequencer ----------------------------------------------------------------------------

    def keep_sequencer(self) -> None:
        """Fork the sequencer candidate if there is none and its backoff has passed."""
        if self._sequencer is not None:
            return
        settings = self._settings
        spec = partial(
            SequencerSpec,
            dsn=self._dsn,
            supervisor_pid=self._supervisor_pid,
            wait_period_s=settings.wait_period_ms / 1000,
            connect_timeout_s=settings.connect_timeout_s,
            pause_s=settings.sequencer_pause_ms / 1000,
        )
        board = self._board

        def run(pipe: Pipe, slot: int, close_fds: tuple[int, ...]) -> None:
            run_sequencer(spec(slot=slot, close_fds=close_fds), pipe, board)

        self._sequencer = self._fork(None, "sequencer", run)

    # -- all --------------------------------------------------------------------------------------

    def watch(self) -> None:
        """Reap the children that ended, kill those that are stuck in a handler, stopped or hang."""
        for partition, child in list(self._workers.items()):
            if self._has_ended(partition, child, self._settings.max_processing_ms):
                del self._workers[partition]
                self._ended = True
        sequencer = self._sequencer
        if sequencer is not None and self._has_ended(None, sequencer, SEQUENCING_S_MAX * 1000):
            self._sequencer = None

    def is_empty(self) -> bool:
        return not self._workers and self._sequencer is None

    def is_killed(self) -> bool:
        return all(child.killed for child in self._children())

    def drain_all(self) -> None:
        for child in self._children():
            child.drain()

    def drain_sequencer(self) -> None:
        if self._sequencer is not None:
            self._sequencer.drain()

    def kill_all(self) -> None:
        for child in self._children():
            child.kill()

    def _children(self) -> list[Child]:
        return [*self._workers.values(), *([self._sequencer] if self._sequencer else [])]

    def _fork(
        self,
        who: Partition | None,
        name: str,
        run: Callable[[Pipe, int, tuple[int, ...]], None],
    ) -> Child | None:
        """Fork a child, unless its backoff says not yet, or the machine refuses."""
        if self._backoff(who).due_s > monotonic() or not self._free_slots:
            return None
        slot = self._free_slots.pop()
        self._board.clear(slot)
        close_fds = self._fds_to_close()
        try:
            return Child.fork(name, slot, lambda pipe: run(pipe, slot, close_fds))
        except OSError as error:  # too many processes or open files
            self._free_slots.append(slot)
            self._backoff(who).note(steady=False)
            log.error("%s: cannot be forked, will try again: %s", name, error)  # noqa: TRY400
            return None

    def _has_ended(self, who: Partition | None, child: Child, work_ms_max: float) -> bool:
        """Reap a child; if it has ended unasked, its next one waits for the backoff."""
        code = child.reap()
        if code is None:
            self._kill_if_stuck(child, work_ms_max)
            return False
        self._free_slots.append(child.slot)
        if code != ExitCode.DRAINED or not child.draining:
            steady = child.age_s > STEADY_AFTER_S or self._board.completed(child.slot) > 0
            self._backoff(who).note(steady=steady)
            log.warning("%s ended: %s", child.name, explain_exit(code, killed=child.killed))
        return True

    def _kill_if_stuck(self, child: Child, work_ms_max: float) -> None:
        silence_ms_max = (self._settings.connect_timeout_s + SILENCE_S_MAX) * 1000
        if child.killed:
            return
        if self._board.work_ms(child.slot) > work_ms_max:
            log.error("%s: killed: one turn took longer than %.0f ms", child.name, work_ms_max)
            child.kill()
        elif self._board.silence_ms(child.slot) > silence_ms_max:
            log.error("%s: killed: stopped or hung, silent for %.0f ms", child.name, silence_ms_max)
            child.kill()

    def _backoff(self, partition: Partition | None) -> _Backoff:
        return self._backoffs.setdefault(partition, _Backoff())

    def _fds_to_close(self) -> tuple[int, ...]:
        return (
            *self._private_fds(),
            *(fd for child in self._children() for fd in child.descriptors()),
        )
