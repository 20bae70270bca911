"""The state that a partition keeps in its worker: its place, when it is due, and its trouble."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from math import inf
from time import monotonic
from typing import Any

import psycopg
from psycopg import Connection

from gapless.db.connect import is_revoked, why_of
from gapless.db.hidden import why_refused
from gapless.errors import BlockedError, HoleError, one_line
from gapless.keys import Assignment, Partition
from gapless.lease import hold
from gapless.worker.board import Board
from gapless.worker.retries import Retries
from gapless.worker.session_loop import is_sound
from gapless.worker.spec import WorkerSpec
from gapless.worker.wakeup import Wakeup

log = logging.getLogger("gapless.worker")

HOLE_RETRY_S = 5.0
RETRY_S_MAX = 10.0


@dataclass(frozen=True, slots=True)
class Shared:
    """The parts that all partitions of a worker share: one session, one board slot, one bell."""

    spec: WorkerSpec
    conn: Connection[Any]
    board: Board
    wakeup: Wakeup


class Service:
    """A partition that a worker serves. due_s (time.monotonic): when its next turn is.

    look_s: likewise, unless the supervisor looks on its behalf before then. holds_until_s: nothing
    brings a turn before then. blocked_at: the first offset of a unit that no other may pass; 0:
    there is none.
    is_dropped: let it go. is_troubled: the lease says why it does not continue.
    """

    def __init__(self, shared: Shared, partition: Partition, lease_no: int) -> None:
        self.shared = shared
        self.partition = partition
        self.lease_no = lease_no
        self.due_s = self.began_s = monotonic()
        self.look_s = inf
        self.holds_until_s = 0.0
        self.retries = Retries(RETRY_S_MAX)
        self.blocked_at = 0
        self.is_dropped = False
        self.is_troubled = False

    def report(self, assignment: Assignment, error: str | None) -> None:
        """Write to the lease why the partition does not continue; None: it continues."""
        hold.report_error(self.shared.conn, assignment, error)
        self.is_troubled = error is not None

    def try_later(self, error: psycopg.Error | BlockedError, assignment: Assignment | None) -> None:
        """Wait longer each time while the environment, or the policy, prevents success."""
        wait_s = self.retries.failed()
        attempt = self.retries.failures
        if isinstance(error, BlockedError) and error.first_offset:
            self.blocked_at = min(self.blocked_at or error.first_offset, error.first_offset)
        if attempt in (1, 3, 10) or attempt % 30 == 0:
            why = why_refused(self.shared.conn, error)
            log.warning("%s: will try again: %s", self.partition, why)
        is_told = attempt == 3 or isinstance(error, BlockedError)
        if assignment is not None and is_told and not is_revoked(error):
            self.report(assignment, f"retrying: {why_of(error)} (attempt {attempt})")
        self._put_off(wait_s)

    def succeed(self, next_offset: int, assignment: Assignment) -> None:
        """Note success: waits begin anew, unless other units than the one that blocks had it.

        next_offset: the offset after the units that were passed; 0: none were.
        """
        if self.blocked_at and next_offset <= self.blocked_at:
            return
        self.retries.succeeded()
        self.blocked_at = 0
        if self.is_troubled:
            self.report(assignment, None)

    def stop_at_hole(self, error: HoleError, assignment: Assignment) -> None:
        """Stay on the partition without progress, and report it, until the hole is repaired."""
        if not self.is_troubled:
            log.error("%s: stopped: %s", self.partition, error)
        self.report(assignment, f"stopped: {error}")
        self._put_off(HOLE_RETRY_S)

    def _put_off(self, wait_s: float) -> None:
        self.due_s = self.holds_until_s = monotonic() + wait_s

    def require_session(self, error: BaseException) -> None:
        """Raise `error` again if the session, which all partitions share, is broken."""
        if not is_sound(self.shared.conn):
            if isinstance(error, psycopg.OperationalError):
                raise error
            raise psycopg.OperationalError(one_line(error)) from error
