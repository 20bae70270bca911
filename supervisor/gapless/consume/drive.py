"""Drive one partition: turns over its log, and over what was set aside and is due.

A driver is what a worker calls again and again while it owns the partition. It remembers when to
look at what was set aside; an idle one looks rarely, and writes nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from time import monotonic
from typing import Any

import psycopg
from psycopg import Connection

from gapless.consume.claim import forget_attempt
from gapless.consume.deliver import deliver, forget_deliveries
from gapless.consume.handler import Handler
from gapless.consume.redrive import due_letters, forget_try, redrive
from gapless.consume.sieve import holds_keys
from gapless.consume.step import step, step_alone
from gapless.consume.turn import Limits, Step, Turn
from gapless.keys import Assignment

LOOK_S = 5.0  # with nothing to do and no notification
LOOK_BUSY_S = 0.25
EARLY = 0.9  # called again after less than this part of the wait: there was a notification


class Driver:
    """`turn()` handles one claim, or one unit that was set aside; one after the other."""

    def __init__(
        self,
        conn: Connection[Any],
        assignment: Assignment,
        handler: Handler,
        limits: Limits,
        *,
        wait_period_s: float = 1.0,
        pulse: Callable[[], None] = lambda: None,
    ) -> None:
        self._turn = Turn(conn=conn, assignment=assignment, handler=handler, limits=limits)
        self._wait_period_s = wait_period_s
        self._pulse = pulse
        self._due: deque[int] = deque()
        self._look_at_s = 0.0
        self._next_due_s: float | None = None
        self._idle_since_s: float | None = None
        self._log_is_next = False
        self._log_was_idle = False  # then all that is due comes before another look at the log
        self._in_hand: int | None = None  # the unit set aside that has its turn
        self.has_attempt = False  # a turn began that wrote an attempt down, and has not ended

    @property
    def assignment(self) -> Assignment:
        """The right it works by."""
        return self._turn.assignment

    @property
    def conn(self) -> Connection[Any]:
        """The session it works on."""
        return self._turn.conn

    def turn(self, *, batch_size: int | None = None, alone: bool = False) -> Step:
        """Do what is next, and commit; see step() and redrive() for what it raises.

        alone: take one unit of the log, its attempt written down before.
        """
        self._look()
        if self._due and not self._log_is_next:
            self._log_is_next = not self._log_was_idle
            return self._letter()
        self._log_is_next = False
        done = self._log_turn(batch_size, alone=alone)
        self._log_was_idle = done.outcome == "idle"
        if done.outcome == "idle" and self._due:
            return self._letter()
        self._note(done)
        return done

    def wait_s(self) -> float:
        """Return how long to sleep at most after an idle turn."""
        if self._next_due_s is None:
            return self._wait_period_s
        return min(self._wait_period_s, max(0.0, self._next_due_s - monotonic()))

    def has_due(self) -> bool:
        """Tell whether a unit that was set aside is due now. Looks at once."""
        self._look_at_s = 0.0
        self._look()
        return bool(self._due)

    def forgive(self, conn: Connection[Any]) -> None:
        """Take back the attempt of a turn that lost its session, from a new one."""
        if self._in_hand is None:
            forget = forget_deliveries if self._delivers else forget_attempt
            forget(conn, self._turn.assignment)
        else:
            forget_try(conn, {**self._turn.assignment.params, "first_offset": self._in_hand})

    def _log_turn(self, batch_size: int | None, *, alone: bool) -> Step:
        turn = self._turn
        limits = replace(turn.limits, batch_size=batch_size) if batch_size else turn.limits
        act = step_alone if alone else step
        self._in_hand, self.has_attempt = None, alone or self._delivers
        if self._delivers:
            return self._deliver(replace(turn, limits=limits))
        done = act(turn.conn, turn.assignment, turn.handler, limits)
        self.has_attempt = False
        return done

    @property
    def _delivers(self) -> bool:
        return self._turn.delivery == "at-least-once"

    def _deliver(self, turn: Turn) -> Step:
        concurrency = turn.handler.concurrency or turn.limits.concurrency
        turn = replace(turn, limits=replace(turn.limits, concurrency=concurrency))
        try:
            done = deliver(turn, self._pulse)
        except psycopg.Error:
            if not turn.conn.closed:  # else see forgive(): it takes a new session
                forget_deliveries(turn.conn, turn.assignment)
            raise
        self.has_attempt = False
        return done

    def _letter(self) -> Step:
        self._in_hand, self.has_attempt = self._due[0], True
        outcome = redrive(self._turn, self._due[0])
        self.has_attempt = False
        self._due.popleft()
        self._log_was_idle &= bool(self._due)
        self._idle_since_s = None
        self._look_soon(0.0 if outcome == "waiting" or not self._due else LOOK_BUSY_S)
        if outcome == "fenced":
            return Step(outcome="fenced")
        return Step(outcome="done", dead=int(outcome == "dead"), waiting=int(outcome == "waiting"))

    def _look(self) -> None:
        now = monotonic()
        idle_s = self._idle_since_s
        woken = idle_s is not None and now - idle_s < EARLY * self._wait_period_s
        if self._due or (now < self._look_at_s and not woken):
            return
        self._look_for_parked()
        found, wait_s = due_letters(self._turn)
        self._due.extend(found)
        self._next_due_s = None if wait_s is None else now + wait_s
        self._look_at_s = now + (LOOK_S if wait_s is None else min(LOOK_S, wait_s))

    def _look_for_parked(self) -> None:
        """Remember whether units are parked, in a group that parks none any more."""
        turn = self._turn
        if not turn.policy.parks and (turn.limits.parked or self._look_at_s == 0.0):
            self._turn = replace(turn, limits=replace(turn.limits, parked=holds_keys(turn)))

    def _look_soon(self, seconds: float) -> None:
        self._look_at_s = min(self._look_at_s, monotonic() + seconds)

    def _note(self, done: Step) -> None:
        if done.outcome == "idle":
            self._idle_since_s = monotonic()
            return
        self._idle_since_s = None
        self._look_soon(0.0 if done.waiting else LOOK_BUSY_S)
