"""The states of a partition in a worker (I7, I8).

    Waiting ──took the lease──▶ Installing ──fence is in──▶ Working
                                     │                        │
                                     └────────fenced──────────┴──▶ over

A turn returns the next state, or the code with which the service is over. A partition that is
dropped is over from any state (leased.py).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import ClassVar, Protocol

import psycopg

from gapless.consume.aside.record import failing_keys
from gapless.consume.drive import Driver
from gapless.consume.job import Job, Step
from gapless.consume.verdict.patience import Patience
from gapless.errors import BlockedError, HoleError, UnplacedError
from gapless.keys import Assignment
from gapless.lease import hold
from gapless.logs import owns
from gapless.telemetry.meter import in_use
from gapless.worker.crew import batch_size
from gapless.worker.failure_backoff import BRAKE_UNITS, REST_LOOK_S, FailureBackoff
from gapless.worker.service import Service
from gapless.worker.spec import ExitCode
from gapless.worker.zombie import Zombie

log = logging.getLogger("gapless.worker")

CAREFUL_BATCH = 64
# A released lock is notified; a killed owner's lock is polled, less and less often.
LOCK_POLL_S = 0.02
LOCK_POLL_S_MAX = 0.25  # as often as it announces that it is ready
INSTALL_WAIT_MS = 25
OWN_LOOK_S = 30.0  # its session proves itself this often, where the supervisor looks on its behalf


class State(Protocol):
    """The state of a partition in its worker."""

    @property
    def assignment(self) -> Assignment | None:
        """The right to work on it, once the lease is taken."""

    @property
    def driver(self) -> Driver | None:
        """The driver that works on it, once the fence is in."""

    def turn(self) -> State | ExitCode:
        """Do the next thing; return the state that follows, or why the service is over.

        Raises psycopg's errors and GaplessError.
        """


class Waiting:
    """Another worker has the partition, or had: poll its lock, and tell it that we are ready."""

    assignment = None
    driver = None

    def __init__(self, service: Service) -> None:
        self._service = service
        self._zombie = Zombie(service.shared.conn, service.partition)
        self._ready_due_s = 0.0
        self._lock_poll_s = LOCK_POLL_S

    def turn(self) -> State | ExitCode:
        """Take lock and lease, if they are free."""
        service, shared = self._service, self._service.shared
        assignment = hold.try_take(
            shared.conn, service.lease_no, service.partition, shared.spec.member_id
        )
        return self._wait() if assignment is None else Installing(service, assignment)

    def _wait(self) -> State:
        """Tell the owner now and then that we are ready; end its session if it was evicted."""
        service, now = self._service, monotonic()
        if now >= self._ready_due_s:
            self._ready_due_s = now + hold.READY_EVERY_MS / 1000
            hold.announce(service.shared.conn, service.partition)
            is_overdue = now - service.began_s > service.shared.spec.settings.zombie_after_ms / 1000
            if is_overdue and self._zombie.end():
                self._lock_poll_s = LOCK_POLL_S
        service.due_s = now + self._lock_poll_s
        self._lock_poll_s = min(self._lock_poll_s * 1.5, LOCK_POLL_S_MAX)
        return self


@dataclass(frozen=True, slots=True)
class Installing:
    """The lease is ours; a former owner's transaction may still be open, so the fence waits."""

    service: Service
    assignment: Assignment
    driver: ClassVar[None] = None

    def turn(self) -> State | ExitCode:
        """Make the fence valid, waiting at most INSTALL_WAIT_MS."""
        service, assignment = self.service, self.assignment
        try:
            held = hold.install(service.shared.conn, assignment, INSTALL_WAIT_MS)
        except psycopg.errors.LockNotAvailable:
            service.due_s = monotonic() + LOCK_POLL_S
            return self
        except UnplacedError as error:
            service.stop_at_hole(error, assignment)
            return self
        if service.is_troubled:
            service.report(assignment, None)
        if held is None:
            return _fenced(service)
        owns(assignment)
        how = "released by its former owner" if assignment.epoch > 1 else "new"
        if held.unclean:
            how = "its former owner died or was evicted"
        log.info("%s: acquired, epoch %s: %s", service.partition, assignment.epoch, how)
        for counts in in_use:
            counts.happened("takeover")
        service.due_s = monotonic()
        return Working(service, assignment, is_unclean=held.unclean)


class Working:
    """The partition is ours: a batch per turn, smaller and slower while units fail."""

    def __init__(self, service: Service, assignment: Assignment, *, is_unclean: bool) -> None:
        spec = service.shared.spec
        self._service = service
        self.assignment = assignment
        self.driver = Driver(
            Job(
                conn=service.shared.conn,
                assignment=assignment,
                handler=spec.handler,
                terms=spec.terms,
                former_end=spec.former_end,
                patience=Patience(),
            ),
            wake=service.shared.wakeup.ring,
        )
        # The former owner died, perhaps of a unit: find it by one unit at a time (I8). Of all the
        # partitions of a worker that died, only one has a unit that was tried and not finished.
        self._alone = spec.terms.batch_size if is_unclean else 0  # events
        # A handler that shares a worker may be slow: its first call shows it, before a whole batch.
        self._shares = spec.is_auto and spec.partitions_max > 1
        self._batch_size = 1 if self._shares else spec.terms.batch_size
        self._brake = FailureBackoff(spec.terms.policy.brake_keys)
        self._rests_until_s = self._braked_until_s = 0.0

    @property
    def wakes_at_s(self) -> float:
        """The time (time.monotonic) until which no notification brings a turn, except for calls."""
        return max(self._rests_until_s, 0.0 if self.driver.going_on else self._braked_until_s)

    def turn(self) -> State | ExitCode:
        """Take a turn of the driver, and settle when the next one is."""
        began_s, spent_s = monotonic(), self._spent_s()
        if self._rests(began_s) and not self.driver.going_on:
            self._service.due_s = min(self._braked_until_s, began_s + REST_LOOK_S)
            return self
        try:
            done = self._step()
        except HoleError as error:
            self._service.stop_at_hole(error, self.assignment)
            return self
        except BlockedError as error:
            self._service.try_later(error, self.assignment)
            return self
        if done.outcome == "fenced":
            return _fenced(self._service)
        self._succeed(done, began_s)
        self._adapt(done, self._spent_s() - spent_s)
        return self

    def _rests(self, now_s: float) -> bool:
        """Tell whether it is braked, and no worker with the same handler has handled a unit yet."""
        board, slot = self._service.shared.board, self._service.shared.spec.slot
        return now_s < self._braked_until_s and board.handled_s(slot) < self._brake.since_s

    def _step(self) -> Step:
        shared, driver = self._service.shared, self.driver
        shared.board.begin(shared.spec.slot, self._service.lease_no, driver.oldest_s)
        try:
            rests = driver.going_on and self._rests(monotonic())
            if self._service.is_dropped or rests:
                return driver.rest()
            return driver.turn(batch_size=self._batch_size, alone=self._alone > 0)
        finally:
            if not shared.conn.closed and not driver.going_on:
                shared.board.acquit(shared.spec.slot)
            shared.board.rest(shared.spec.slot)

    def _succeed(self, done: Step, began_s: float) -> None:
        """Note a step that came to its end."""
        service, now = self._service, monotonic()
        service.due_s = now + self._wait_s(done, now)
        self._rests_until_s = now + self.driver.rest_s(done, now - began_s)
        if done.is_settled:
            service.succeed(done.next_offset, self.assignment)
        elif done.outcome == "idle" and not self.driver.going_on:
            service.blocked_at = 0  # the group may have been moved
            service.succeed(0, self.assignment)
        if done.handled:
            service.shared.board.handle(service.shared.spec.slot)
        self._slow_down(done, (began_s, now))
        self._alone = max(0, self._alone - max(done.events, int(done.outcome == "idle")))

    def _spent_s(self) -> float:
        """Return a clock that runs while its handler is called; always, if that is not metered."""
        return in_use[0].spent_s("process") if self._shares and in_use else monotonic()

    def _adapt(self, done: Step, handler_s: float) -> None:
        """Adapt the size of the next step to failures, and to partitions that wait for its end."""
        most = self._service.shared.spec.terms.batch_size
        if self._brake.is_on:
            self._batch_size = 1
        elif done.failed:
            self._batch_size = min(self._batch_size, CAREFUL_BATCH)
        elif self._shares and done.events:
            self._batch_size = batch_size(done.events, handler_s, most)
        elif done.outcome == "done":
            self._batch_size = min(self._batch_size * 2, most)

    def _wait_s(self, done: Step, now_s: float) -> float:
        """Return the time to sleep: longer at rest, where the supervisor looks on its behalf."""
        period_s = self._service.shared.spec.settings.wait_period_ms / 1000
        if done.outcome == "idle" and not (self.driver.going_on or self._brake.is_on):
            self._service.look_s = now_s + period_s
            period_s = max(period_s, OWN_LOOK_S)
        return self.driver.wait_s(done, period_s)

    def _slow_down(self, done: Step, turn_s: tuple[float, float]) -> None:
        """Rest while all units of this supervisor's handler fail; otherwise continue as before."""
        service, brake, was_on = self._service, self._brake, self._brake.is_on
        shared, (_, now_s) = service.shared, turn_s
        rest_s = brake.note(
            handled=done.handled,
            failed=done.failed - done.asked,
            turn_s=turn_s,
            handled_s=shared.board.handled_s(shared.spec.slot),
            keys=partial(failing_keys, shared.conn, BRAKE_UNITS, service.partition),
        )
        if rest_s:
            self._braked_until_s = monotonic() + rest_s
            if not self.driver.going_on:
                service.due_s = max(service.due_s, now_s + min(rest_s, REST_LOOK_S))
            why = brake.explain(rest_s)
            if not was_on:
                log.error("%s: %s", service.partition, why)
            service.report(self.assignment, f"retrying: {why}")
            service.is_troubled = False  # until not all fails any more
        elif was_on and not brake.is_on:
            self._braked_until_s = 0.0
            self._batch_size = min(CAREFUL_BATCH, shared.spec.terms.batch_size)
            log.warning("%s: continues as before: not all fails any more", service.partition)
            service.report(self.assignment, None)


def _fenced(service: Service) -> ExitCode:
    log.warning("%s: fenced: another owner took over", service.partition)
    for counts in in_use:
        counts.happened("fenced")
    hold.unlock(service.shared.conn, service.lease_no)
    return ExitCode.FENCED
