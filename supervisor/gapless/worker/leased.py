"""One partition of a worker: wait for it, take it, work on it, let go (I7, I8).

A worker may serve several; it gives each a turn when it is due. A turn is at most one batch, and
waits no longer than INSTALL_WAIT_MS for a lock: the worker's other partitions wait for its end.
Trouble with one partition ends its service alone, unless the session is lost. The partition's
state (states.py) says what a turn does.
"""

from __future__ import annotations

import logging
from math import inf
from time import monotonic

import psycopg

from gapless.consume.drive import Driver
from gapless.db.connect import is_revoked, is_transient
from gapless.errors import GaplessError
from gapless.keys import Partition
from gapless.lease import hold
from gapless.logs import has_turn
from gapless.worker.service import Service, Shared
from gapless.worker.spec import ExitCode
from gapless.worker.states import State, Waiting, Working

log = logging.getLogger("gapless.worker")


class Leased:
    """A partition from its worker's side; call `turn()` when `due_s` (monotonic) has come."""

    def __init__(self, shared: Shared, partition: Partition, lease_no: int) -> None:
        self.partition = partition
        self.lease_no = lease_no
        self._service = Service(shared, partition, lease_no)
        self._state: State = Waiting(self._service)

    @property
    def due_s(self) -> float:
        """When (time.monotonic) the next turn is."""
        service = self._service
        looked_s = service.shared.board.looked_s
        period_s = service.shared.spec.settings.wait_period_ms / 1000
        return min(service.due_s, max(service.look_s, looked_s + period_s))

    @property
    def is_owned(self) -> bool:
        """Whether its batches are next; until then, as when dropped, it goes first."""
        return isinstance(self._state, Working) and not self._service.is_dropped

    @property
    def driver(self) -> Driver | None:
        """The driver that works on the partition, once it is ours."""
        return self._state.driver

    @property
    def going_on(self) -> bool:
        """Whether calls of its handler are under way between turns."""
        return self.driver is not None and self.driver.going_on

    @property
    def oldest_s(self) -> float | None:
        """When (time.monotonic) the oldest of these calls began."""
        return None if self.driver is None else self.driver.oldest_s

    def wake(self) -> None:
        """Have a turn now, unless something failed a moment ago."""
        service, state = self._service, self._state
        rests_until_s = state.wakes_at_s if isinstance(state, Working) else 0.0
        wakes_at_s = max(monotonic(), service.holds_until_s, rests_until_s)
        service.due_s = min(service.due_s, wakes_at_s)

    def drop(self) -> None:
        """Let go at the next turn, which is now, even of work that cannot succeed."""
        self._service.is_dropped = True
        self._service.due_s = 0.0

    def turn(self) -> ExitCode | None:
        """Do the next thing; return why the service has ended, None while it continues.

        Raises psycopg.OperationalError when the session is lost.
        """
        service = self._service
        service.look_s, service.holds_until_s = inf, 0.0
        has_turn(self.partition)
        try:
            if service.is_dropped and not self.going_on:
                return self._let_go()
            following = self._state.turn()
        except Exception as error:
            service.require_session(error)
            if isinstance(error, psycopg.Error) and (is_transient(error) or is_revoked(error)):
                service.try_later(error, self._state.assignment)
                return None
            if isinstance(error, GaplessError):
                log.error("%s: %s", self.partition, error)  # noqa: TRY400 - one line for people
            else:
                log.exception("%s: worker crashed", self.partition)
        else:
            if isinstance(following, ExitCode):
                return following
            self._state = following
            return None
        hold.unlock(service.shared.conn, self.lease_no)
        return ExitCode.CRASHED

    def _let_go(self) -> ExitCode:
        assignment, conn = self._state.assignment, self._service.shared.conn
        if assignment is not None:
            hold.release(conn, assignment, self.lease_no)
            log.info("%s: released", self.partition)
        return ExitCode.DRAINED
