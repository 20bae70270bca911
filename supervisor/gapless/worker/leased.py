"""One partition in the hands of a worker: wait for it, take it, work on it, let go (I7, I8).

A worker may serve several; it gives each a turn when it is due. A turn is one batch at most, and
waits for nobody longer than INSTALL_WAIT_MS: the worker's other partitions wait meanwhile. What
goes wrong with one partition ends its service alone, unless the session is lost.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Any

import psycopg
from psycopg import Connection
from psycopg.pq import TransactionStatus

from gapless.consume.drive import Driver
from gapless.consume.patience import Patience
from gapless.consume.turn import Step, Turn
from gapless.db.connect import is_revoked, is_transient, why_of
from gapless.errors import BlockedError, GaplessError, HoleError, UnplacedError, one_line
from gapless.keys import Assignment, Partition
from gapless.lease import hold
from gapless.worker.bell import Bell
from gapless.worker.board import Board
from gapless.worker.brake import Brake
from gapless.worker.retries import Retries
from gapless.worker.spec import ExitCode, WorkerSpec
from gapless.worker.zombie import Zombie

log = logging.getLogger("gapless.worker")

HOLE_RETRY_S = 5.0
CAREFUL_BATCH = 64
# A lock let go of is notified; a killed owner's is found so often, and ever less.
LOCK_POLL_S = 0.02
LOCK_POLL_S_MAX = 0.25
INSTALL_WAIT_MS = 25
RETRY_S_MAX = 10.0


@dataclass(frozen=True, slots=True)
class Desk:
    """What all partitions of a worker share: one session, one place on the board, one bell."""

    spec: WorkerSpec
    conn: Connection[Any]
    board: Board
    bell: Bell


class Leased:
    """A partition as its worker sees it; `turn()` when `due_s` (monotonic) has come."""

    def __init__(self, desk: Desk, partition: Partition, lease_no: int) -> None:
        self.partition = partition
        self.lease_no = lease_no
        self.due_s = self._began_s = monotonic()
        self.alone = 0  # so many events are to be handled one unit at a time
        self.assignment: Assignment | None = None
        self.driver: Driver | None = None
        self._desk = desk
        self._turn: Callable[[], ExitCode | None] = self._take
        self._dropped = False
        self._ready_due_s = 0.0
        self._rests_until_s = self._braked_until_s = 0.0
        self._brake = Brake()
        self._zombie = Zombie(desk.conn, partition)
        self._lock_poll_s = LOCK_POLL_S
        self._batch_size = desk.spec.terms.batch_size
        self._retries = Retries(RETRY_S_MAX)
        self._troubled = False
        self.is_owned = False  # its batches are next; until then, as when dropped, it goes first

    def wake(self) -> None:
        """Have a turn now, unless something went wrong a moment ago."""
        if not self._retries.failures and not self._troubled:
            braked_until_s = 0.0 if self.going_on else self._braked_until_s
            self.due_s = min(self.due_s, max(monotonic(), self._rests_until_s, braked_until_s))

    def drop(self) -> None:
        """Let go at the next turn, which is now; even what cannot succeed is let go of."""
        self._dropped = True
        self.is_owned = False
        self.due_s = 0.0

    @property
    def going_on(self) -> bool:
        """Whether calls of its handler are going on between turns."""
        return self.driver is not None and self.driver.going_on

    @property
    def oldest_s(self) -> float | None:
        """When (time.monotonic) the oldest of them began."""
        return None if self.driver is None else self.driver.oldest_s

    def turn(self) -> ExitCode | None:
        """Do what is next; return why the service has ended, None while it goes on.

        Raises psycopg.OperationalError when the session is lost.
        """
        try:
            if self._dropped and not self.going_on:
                return self._let_go()
            return self._turn()
        except psycopg.Error as error:
            self._require_session(error)
            if is_transient(error) or is_revoked(error):
                self._try_later(error)
                return None
            log.exception("%s: worker crashed", self.partition)
        except GaplessError as error:
            self._require_session(error)
            log.error("%s: %s", self.partition, error)  # noqa: TRY400 - one line for people
        except Exception as error:
            self._require_session(error)
            log.exception("%s: worker crashed", self.partition)
        hold.unlock(self._desk.conn, self.lease_no)
        return ExitCode.CRASHED

    # -- to become the owner ----------------------------------------------------------------------

    def _take(self) -> ExitCode | None:
        conn = self._desk.conn
        if not hold.try_lock(conn, self.lease_no):
            self._wait_for_owner()
            return None
        self.assignment = hold.take(conn, self.partition, self._desk.spec.member_id)
        if self.assignment is None:
            # The owner lost its lock, not its lease; or we are not the target any more: make way.
            hold.unlock(conn, self.lease_no)
            self._wait_for_owner()
            return None
        self._turn = self._install
        return None

    def _wait_for_owner(self) -> None:
        """Tell the owner, now and then, that we are ready; end it if it is a member no more."""
        now = monotonic()
        if now >= self._ready_due_s:
            self._ready_due_s = now + hold.READY_EVERY_MS / 1000
            hold.announce(self._desk.conn, self.partition)
            if now - self._began_s > self._desk.spec.zombie_after_s and self._zombie.end():
                self._lock_poll_s = LOCK_POLL_S
        self.due_s = now + min(self._lock_poll_s, hold.READY_EVERY_MS / 1000)
        self._lock_poll_s = min(self._lock_poll_s * 1.5, LOCK_POLL_S_MAX)

    def _install(self) -> ExitCode | None:
        assert self.assignment is not None
        try:
            held = hold.install(self._desk.conn, self.assignment, INSTALL_WAIT_MS)
        except psycopg.errors.LockNotAvailable:
            self.due_s = monotonic() + LOCK_POLL_S  # the former owner's transaction is still open
            return None
        except UnplacedError as error:
            self._stop_at_hole(error)
            return None
        if self._troubled:
            self._report(None)
        if held is None:
            return self._fenced()
        log.info("%s: acquired, epoch %s", self.partition, self.assignment.epoch)
        # The former owner died: perhaps of a unit. Find out which, one at a time (I8). Of all the
        # partitions of a worker that died only one has a unit that was tried and not finished.
        self.alone = self._desk.spec.terms.batch_size if held.unclean else 0
        turn = Turn(
            conn=self._desk.conn,
            assignment=self.assignment,
            handler=self._desk.spec.handler,
            terms=self._desk.spec.terms,
            former_end=self._desk.spec.former_end,
            patience=Patience(),
        )
        self.driver = Driver(
            turn,
            wait_period_s=self._desk.spec.wait_period_s,
            wake=self._desk.bell.ring,
        )
        self._turn = self._work
        self.is_owned = True
        self.due_s = monotonic()
        return None

    # -- to be the owner --------------------------------------------------------------------------

    def _work(self) -> ExitCode | None:
        began_s = monotonic()
        try:
            done = self._step()
        except HoleError as error:
            self._require_session(error)
            self._stop_at_hole(error)
            return None
        except BlockedError as error:
            self._try_later(error)
            return None
        if done.outcome == "fenced":
            return self._fenced()
        self._succeed(done, took_s=monotonic() - began_s)
        return None

    def _step(self) -> Step:
        desk = self._desk
        assert self.driver is not None
        desk.board.begin(desk.spec.slot, self.lease_no, self.oldest_s)
        try:
            if self._dropped or (self.going_on and monotonic() < self._braked_until_s):
                return self.driver.rest()
            return self.driver.turn(batch_size=self._batch_size, alone=self.alone > 0)
        finally:
            if not desk.conn.closed and not self.going_on:
                desk.board.acquit(desk.spec.slot)
            desk.board.rest(desk.spec.slot)

    def _succeed(self, done: Step, *, took_s: float) -> None:
        """Note a step that came to its end; adapt the size of the next one to failures."""
        desk = self._desk
        now = monotonic()
        assert self.driver is not None
        self.due_s = now + self.driver.wait_s(done)
        self._rests_until_s = now + self.driver.rest_s(done, took_s)
        self._retries.succeeded()
        if self._troubled:
            self._report(None)
        if done.dead:
            log.warning("%s: dead letters: %s more", self.partition, done.dead)
        self._slow_down(done)
        if self._brake.is_on:
            self._batch_size = 1
        elif done.failed:
            self._batch_size = min(self._batch_size, CAREFUL_BATCH)
        elif done.outcome == "done":
            desk.board.complete(desk.spec.slot)
            self._batch_size = min(self._batch_size * 2, desk.spec.terms.batch_size)
        self.alone = max(0, self.alone - max(done.events, int(done.outcome == "idle")))

    def _slow_down(self, done: Step) -> None:
        """Rest when nothing but failures comes; go on as before when something was handled."""
        was_on = self._brake.is_on
        rest_s = self._brake.note(handled=done.handled, failed=done.failed - done.asked)
        if rest_s:
            self._braked_until_s = monotonic() + rest_s
            self.due_s = self.due_s if self.going_on else max(self.due_s, self._braked_until_s)
            if not was_on:
                log.error("%s: %s, one is tried at a time", self.partition, self._brake)
            then = f"the next one in {rest_s:.0f} s, one that is handled lifts it"
            self._report(f"retrying: {self._brake}; {then}; gapless dlq list tells why")
            self._troubled = False  # who has calls going on is woken as ever
        elif was_on and not self._brake.is_on:
            self._braked_until_s = 0.0
            log.warning("%s: goes on as before: a unit was handled", self.partition)
            self._report(None)

    def _try_later(self, error: psycopg.Error | BlockedError) -> None:
        """Wait longer each time for what the environment, or the policy, does not let succeed."""
        wait_s = self._retries.failed()
        attempt = self._retries.failures
        if attempt in (1, 3, 10) or attempt % 30 == 0:
            log.warning("%s: will try again: %s", self.partition, why_of(error))
        is_told = attempt == 3 or isinstance(error, BlockedError)
        if self.assignment is not None and is_told and not is_revoked(error):
            self._report(f"retrying: {one_line(error)} (attempt {attempt})")
        self.due_s = monotonic() + wait_s

    def _stop_at_hole(self, error: HoleError) -> None:
        """Stay on the partition without going on, and say so, until the hole is mended."""
        if not self._troubled:
            log.error("%s: stopped: %s", self.partition, error)
        self._report(f"stopped: {error}")
        self.due_s = monotonic() + HOLE_RETRY_S

    def _report(self, error: str | None) -> None:
        assert self.assignment is not None
        hold.report_error(self._desk.conn, self.assignment, error)
        self._troubled = error is not None

    # -- to be the owner no more ------------------------------------------------------------------

    def _let_go(self) -> ExitCode:
        if self.assignment is not None:
            hold.release(self._desk.conn, self.assignment, self.lease_no)
            log.info("%s: released", self.partition)
        return ExitCode.DRAINED

    def _fenced(self) -> ExitCode:
        log.warning("%s: fenced: another owner took over", self.partition)
        hold.unlock(self._desk.conn, self.lease_no)
        return ExitCode.FENCED

    def _require_session(self, error: BaseException) -> None:
        """Raise `error` again if the session, which all partitions share, is not as it was."""
        conn = self._desk.conn
        if conn.closed or conn.info.transaction_status != TransactionStatus.IDLE:
            if isinstance(error, psycopg.OperationalError):
                raise error
            raise psycopg.OperationalError(one_line(error)) from error
