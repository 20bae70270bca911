"""The supervisor's side of its exporter: fork it, keep it, tell it that the loop turns."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from socket import socket
from time import monotonic
from uuid import UUID

from gapless.telemetry.meter import Meters
from gapless.telemetry.supervisor_beat import SupervisorBeat
from gapless.worker.board import Board
from gapless.worker.child import Child, explain_exit
from gapless.worker.plan import Plan
from gapless.worker.retries import Backoff
from gapless.worker.spec import ExporterSpec, Pipe

log = logging.getLogger("gapless.supervisor")

ROWS_MAX = 4096  # of the meters: the largest number of children
SILENCE_S_MAX = 10.0
STEADY_AFTER_S = 10.0


class ExporterKeeper:
    """One exporter, started again when it ends; without a socket there is none, and no meters.

    The socket stays the supervisor's: readers wait while the exporter is started again.
    """

    def __init__(
        self, plan: Plan, listening: socket | None, close_fds: Callable[[], list[int]]
    ) -> None:
        self._plan = plan
        self._listening = listening
        self._close_fds = close_fds
        self._board = Board(1)
        self._pulse = SupervisorBeat()
        self._child: Child | None = None
        self._backoff = Backoff()
        self.meters = Meters(0 if listening is None else ROWS_MAX)

    def turn(self, member_id: UUID | None, *, drains: bool) -> None:
        """Note that the supervisor's loop turned; start an exporter if there is none."""
        if self._listening is None:
            return
        self._pulse.beat(member_id, drains=drains)
        if self._child is not None and self._has_ended(self._child):
            self._child = None
        if self._child is None and monotonic() >= self._backoff.due_s:
            self._start(self._listening)

    def filenos(self) -> list[int]:
        """Return the descriptors that other children must close."""
        listening = [] if self._listening is None else [self._listening.fileno()]
        return [*listening, *(self._child.descriptors() if self._child else [])]

    def end(self) -> None:
        """End the exporter at once: it has nothing left to report."""
        if self._child is not None:
            self._child.kill()
            self._child.process.join()
            self._child = None

    def _start(self, listening: socket) -> None:
        plan, settings = self._plan, self._plan.settings
        spec = ExporterSpec(
            dsn=plan.dsn,
            supervisor_pid=os.getpid(),
            close_fds=tuple(self._close_fds()),
            slot=0,
            settings=settings,
            listening=listening,
            groups=frozenset((topic, group) for group, topic in plan.handlers),
            # An attempt to connect may keep the loop busy as long as that.
            silence_s_max=settings.member_ttl_ms / 1000 + settings.connect_timeout_s,
        )
        self._board.clear(0)

        def run(pipe: Pipe) -> None:
            # Only in the child: prometheus-client is an extra, and no worker needs it.
            from gapless.features.metrics.process import run_exporter  # noqa: PLC0415

            run_exporter(spec, pipe, self._board, (self.meters, self._pulse))

        try:
            self._child = Child.fork("exporter", 0, run)
        except OSError as error:
            self._backoff.note(steady=False)
            log.error("exporter: cannot be forked, will try again: %s", error)  # noqa: TRY400

    def _has_ended(self, child: Child) -> bool:
        code = child.reap()
        if code is None:
            if not child.killed and self._board.silence_ms(0) > SILENCE_S_MAX * 1000:
                log.error("exporter: killed: stopped or hung")
                child.kill()
            return False
        self._backoff.note(steady=child.age_s > STEADY_AFTER_S)
        log.warning("exporter ended: %s", explain_exit(code, killed=child.killed))
        return True
