"""The children of a supervisor: fork, watch, restart with backoff, drain, kill."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import Any
from uuid import UUID

from gapless import feature
from gapless.consume.terms import Terms
from gapless.consume.user.handler import Handler
from gapless.keys import Partition
from gapless.lease.member import Lease
from gapless.telemetry import meter
from gapless.telemetry.meter import Meters
from gapless.worker.board import Board
from gapless.worker.child import Child, explain_exit
from gapless.worker.loop import run_worker
from gapless.worker.plan import Plan
from gapless.worker.post_mortem import Ended, post_mortem, words
from gapless.worker.reconcile import Running
from gapless.worker.retries import Backoff
from gapless.worker.roster import Roster, Worker
from gapless.worker.sequencer import run_sequencer
from gapless.worker.sharing import Sharing
from gapless.worker.spec import ExitCode, Pipe, SequencerSpec, WorkerSpec
from gapless.worker.unleased import Purpose, S, Unleased

log = logging.getLogger("gapless.supervisor")

SLOTS = 4096
STEADY_AFTER_S = 10.0  # a child that lived this long starts again with the shortest backoff
# A child at rest says every second that it lives; a child that is stopped or hangs does not. Of a
# child at work the system says that it is stopped: a sequencer's run may take minutes.
SILENCE_S_MAX = 5.0  # plus the time to connect
SEQUENCING_S_MAX = 600.0  # one run of the sequencer, over a backlog of 100 million events


class Children:
    """All children. `private_fds` lists the supervisor's descriptors that no child may keep.

    board: where children show that they live. unleased: the workers that need no lease, by feature.
    """

    def __init__(
        self,
        plan: Plan,
        supervisor_pid: int,
        private_fds: Callable[[], list[int]],
        meters: Meters,
    ) -> None:
        self._meters = meters
        self._settings = settings = plan.settings
        self._common: dict[str, Any] = {
            "dsn": plan.dsn,
            "supervisor_pid": supervisor_pid,
            "settings": settings,
        }
        self._private_fds = private_fds
        self.board = Board(SLOTS)
        self._free_slots = list(range(SLOTS - 1, -1, -1))
        self._roster = Roster()
        shared = self.board, meters
        self.sharing = Sharing(settings.partitions_per_worker, self._roster, shared)
        # A process died at work on these: each is served alone, so a poison stops no others (I8).
        self._suspects: set[Partition] = set()
        self._sequencer: Child | None = None
        self.unleased: list[Unleased] = [
            make(self, plan) for make in feature.parts(lambda each: each.workers())
        ]
        self._backoffs: dict[Purpose | None, Backoff] = {}
        self._ended = False
        self._teams: dict[tuple[str, str], int] = {}  # on the board, by group and topic
        self._ends: dict[Partition, str] = {}  # the end of the last worker at a partition, in words

    # -- workers ----------------------------------------------------------------------------------

    def running(self) -> dict[Partition, Running]:
        """Return the partitions that workers serve, or wait for."""
        return self._roster.running()

    def start(self, lease: Lease, member_id: UUID, handler: Handler, terms: Terms) -> None:
        """Have a partition served, by a new worker or one that has room; not during a backoff."""
        solo = lease.partition in self._suspects
        if self._backoff(lease.partition).due_s > monotonic():
            return
        if solo or not self._roster.assign(lease, member_id, self.sharing.room(lease.partition)):
            self._start_worker(lease, member_id, handler, terms, solo=solo)

    def _start_worker(
        self, lease: Lease, member_id: UUID, handler: Handler, terms: Terms, *, solo: bool
    ) -> None:
        partition = lease.partition
        spec = partial(
            WorkerSpec,
            partition=partition,
            lease_no=lease.lease_no,
            partitions_max=self.sharing.partitions_max(partition),
            is_auto=self.sharing.is_auto,
            member_id=member_id,
            handler=handler,
            terms=terms,
            former_end=self._ends.get(partition, ""),
        )
        child = self.fork(partition, f"worker {partition}", spec, run_worker)
        if child is not None:
            self._roster.hire(child, lease, member_id, solo=solo)

    def drain(self, partition: Partition) -> None:
        """Tell a partition's worker to finish its batch and let go; with none left, it exits."""
        self._roster.drop(partition)

    def has_ended(self) -> bool:
        """Tell, once, whether the service of any partition ended since the last call."""
        ended, self._ended = self._ended, False
        return ended

    def next_restart_s(self) -> float | None:
        """Return when the next backoff ends (monotonic), None if there is none."""
        due = (backoff.due_s for backoff in self._backoffs.values())
        return min((due_s for due_s in due if due_s > monotonic()), default=None)

    # -- the sequencer ----------------------------------------------------------------------------

    def keep_sequencer(self) -> None:
        """Fork the sequencer candidate if there is none and its backoff has passed."""
        if self._sequencer is not None:
            return
        self._sequencer = self.fork(None, "sequencer", SequencerSpec, run_sequencer)

    # -- all --------------------------------------------------------------------------------------

    def filenos(self) -> list[int]:
        """Return the descriptors that become readable when a worker has news."""
        return [worker.child.news.fileno() for worker in self._roster.workers]

    def descriptors(self) -> list[int]:
        """Return the descriptors of all children, which no other child may keep."""
        return [fd for child in self._children() for fd in child.descriptors()]

    def watch(self) -> None:
        """Reap the children that ended; kill those that are stuck in a handler, stopped or hang."""
        for worker in list(self._roster.workers):
            self._watch_worker(worker)
        for each in self.unleased:
            each.watch()
        if self._sequencer is not None and self._sequencer_has_ended(self._sequencer):
            self._sequencer = None

    def is_empty(self) -> bool:
        return not self._children()

    def is_killed(self) -> bool:
        return all(child.killed for child in self._children())

    def drain_all(self) -> None:
        for child in self._children():
            child.drain()

    def drain_unleased(self) -> None:
        """Let go of work that no successor waits for."""
        for child in self._unleased():
            child.drain()

    def kill_all(self) -> None:
        for child in self._children():
            child.kill()

    def _children(self) -> list[Child]:
        return [*(worker.child for worker in self._roster.workers), *self._unleased()]

    def _unleased(self) -> list[Child]:
        workers = [child for each in self.unleased for child in each.children]
        return workers if self._sequencer is None else [*workers, self._sequencer]

    def fork(
        self,
        who: Purpose | None,
        name: str,
        spec: Callable[..., S],
        run: Callable[[S, Pipe, Board], None],
    ) -> Child | None:
        """Fork a child, unless its backoff has not passed or the machine refuses (Forks.fork)."""
        if self._backoff(who).due_s > monotonic() or not self._free_slots:
            return None
        slot = self._free_slots.pop()
        served = (who.group_id, who.topic) if who else ("", "")
        self.board.clear(slot, self._teams.setdefault(served, len(self._teams)))
        self._meters.take(slot, *served)
        close_fds = (*self._private_fds(), *self.descriptors())

        def begin(pipe: Pipe) -> None:
            meter.use(self._meters.meter(slot))
            run(spec(**self._common, slot=slot, close_fds=close_fds), pipe, self.board)

        try:
            return Child.fork(name, slot, begin)
        except OSError as error:  # too many processes or open files
            self._free(slot)
            self._backoff(who).note(steady=False)
            log.error("%s: cannot be forked, will try again: %s", name, error)  # noqa: TRY400
            return None

    def reap(self, child: Child, work_ms_max: float) -> int | None:
        """Return the exit code of a child that has ended; end a child that is stuck."""
        code = child.reap()
        if code is None:
            self._kill_if_stuck(child, work_ms_max)
        else:
            self._free(child.slot)
        return code

    def failed(self, who: Purpose, child: Child) -> None:
        """Note that a child ended unasked: the next one of its kind may have to wait."""
        self._ended = True
        self._failed(who, steady=self._is_steady(child))

    def _watch_worker(self, worker: Worker) -> None:
        child = worker.child
        for ended in self._roster.hear(worker):
            if ended.unasked:
                log.warning("worker %s ended: %s", ended.partition, explain_exit(ended.code))
            self._note_end(ended, steady=self._is_steady(child))
        code = self.reap(child, self._settings.max_processing_ms)
        if code is None:
            self._reunite(worker)
            return
        steady, at_work = self._is_steady(child), self.board.subject(child.slot)
        name, why = child.name, child.explain(code)
        found = post_mortem(self._roster.dismiss(worker, code), at_work, is_steady=steady)
        line = words(name, found, why)
        if line is not None:
            log.warning(line)
        for each in found:
            partition = each.ended.partition
            if each.is_suspect:
                self._suspects.add(partition)
            if each.is_blamed:
                self._ends[partition] = why
            self._note_end(each.ended, steady=each.is_steady)

    def _note_end(self, ended: Ended, *, steady: bool) -> None:
        self._ended = True
        if ended.unasked:
            self._failed(ended.partition, steady=steady)

    def _failed(self, who: Purpose, *, steady: bool) -> None:
        self._meters.own(who.group_id, who.topic, "restart")
        self._backoff(who).note(steady=steady)

    def _reunite(self, worker: Worker) -> None:
        """Let a partition that has caused no more trouble share a worker again."""
        if not worker.solo or worker.child.age_s < STEADY_AFTER_S:
            return
        worker.solo = False
        for partition in worker.partitions:
            self._suspects.discard(partition)
            if self._roster.has_room_beside(worker, self.sharing.room(partition)):
                self._roster.drop(partition)

    def _is_steady(self, child: Child) -> bool:
        return child.age_s > STEADY_AFTER_S or self.board.completed(child.slot) > 0

    def _sequencer_has_ended(self, child: Child) -> bool:
        """Reap the sequencer; if it ended unasked, the next one waits for the backoff."""
        code = self.reap(child, SEQUENCING_S_MAX * 1000)
        if code is None:
            return False
        if code != ExitCode.DRAINED or not child.draining:
            self._backoff(None).note(steady=self._is_steady(child))
            log.warning("%s ended: %s", child.name, explain_exit(code, killed=child.killed))
        return True

    def _kill_if_stuck(self, child: Child, work_ms_max: float) -> None:
        silence_ms_max = (self._settings.connect_timeout_s + SILENCE_S_MAX) * 1000
        if child.killed:
            return
        if self.board.work_ms(child.slot) > work_ms_max:
            log.error("%s: killed: one turn took longer than %.0f ms", child.name, work_ms_max)
            self.sharing.convict(child)
            child.kill(f"it took longer than {work_ms_max:.0f} ms")
        elif max(self.board.silence_ms(child.slot), child.stopped_ms()) > silence_ms_max:
            log.error("%s: killed: stopped or hung, silent for %.0f ms", child.name, silence_ms_max)
            child.kill("it was stopped, or hung")

    def _free(self, slot: int) -> None:
        self._free_slots.append(slot)
        self._meters.give_back(slot)

    def _backoff(self, who: Purpose | None) -> Backoff:
        return self._backoffs.setdefault(who, Backoff())
