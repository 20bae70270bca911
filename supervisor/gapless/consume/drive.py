"""Drive one partition: turns over its log, and over what was set aside and is due.

A driver is what a worker calls again and again while it owns the partition. It remembers when to
look at what was set aside; an idle one looks rarely, and writes nothing.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from time import monotonic
from typing import Any

from psycopg import Connection

from gapless.consume.claim import forget_attempt, skip_overrun, stop_beyond
from gapless.consume.deliver import Delivery, forget_deliveries
from gapless.consume.redrive import due_letters, forget_try, redrive
from gapless.consume.sieve import holds_keys
from gapless.consume.step import step, step_alone
from gapless.consume.turn import Step, Turn
from gapless.errors import BeyondError, HoleError, OverrunError
from gapless.keys import Assignment

log = logging.getLogger("gapless.worker")

GOES_ON_S = 0.02  # so long one turn takes batch after batch of what was read ahead
LOOK_S = 5.0  # with nothing to do and no notification
LOOK_BUSY_S = 0.25
EARLY = 0.9  # called again after less than this part of the wait: there was a notification
# After a claim that took all there was. The next event comes with a notification: what commits
# after a claim has looked notifies after it. So late a worker notices what none tells of: that it
# had only come to the end of a layout.
DOZE_S = 0.05
# Where several events come at once, again and again, a few more are let gather: a turn costs more
# than they do. 8 workers behind 16 single publishers: 6 500 -> 8 500 events/s.
SEVERAL_EVENTS = 4
REST_S_MAX = 0.01
RESTS_PER_TURN = 3

LETTERS_EVERY_S = 2.0  # at least once: what is due waits until no call is going on


class Driver:
    """`turn()` handles one claim, or one unit that was set aside; one after the other.

    Calls of an at-least-once handler go on between turns; `wake` is called, on any thread, when one
    has ended. Without it a turn waits for that.
    """

    def __init__(
        self,
        turn: Turn,
        *,
        wait_period_s: float = 1.0,
        wake: Callable[[], None] | None = None,
    ) -> None:
        self._turn = turn
        self._delivery: Delivery | None = None
        if turn.terms.delivery == "at-least-once":
            self._delivery = Delivery(turn, wake)
        self._wait_period_s = wait_period_s
        self._due: deque[int] = deque()
        self._look_at_s = 0.0
        self._next_due_s: float | None = None
        self._woken_before_s = 0.0
        self._is_at_end = False  # the last turn took all there was
        self._is_stream = False  # several events came with the last turn, and were all there was
        self._log_is_next = False  # a unit that was set aside has just had its turn
        self._log_was_idle = False  # then all that is due comes before another look at the log
        self._log_until_s = 0.0  # at least once: so long the log is next
        self._in_hand: int | None = None  # the unit set aside that has its turn
        self._has_attempt = False  # a turn began that wrote an attempt down, and has not ended

    @property
    def assignment(self) -> Assignment:
        """The right it works by."""
        return self._turn.assignment

    @property
    def conn(self) -> Connection[Any]:
        """The session it works on."""
        return self._turn.conn

    @property
    def going_on(self) -> bool:
        """Whether calls are going on between the turns."""
        return self._delivery is not None and self._delivery.going_on

    @property
    def oldest_s(self) -> float | None:
        """When (time.monotonic) the oldest of them began."""
        return None if self._delivery is None else self._delivery.oldest_s

    @property
    def has_attempt(self) -> bool:
        """Whether an attempt is written down whose end is not."""
        delivery = self._delivery
        return self._has_attempt or (delivery is not None and delivery.has_attempt)

    def turn(self, *, batch_size: int | None = None, alone: bool = False) -> Step:
        """Do what is next, and commit; see step() and redrive() for what it raises.

        alone: take one unit of the log, its attempt written down before.
        """
        woken = monotonic() < self._woken_before_s
        self._woken_before_s = 0.0
        self._is_at_end = False
        self._look()
        rests = bool(self._due) and not self._log_is_next and monotonic() >= self._log_until_s
        if rests and not self.going_on:
            self._log_is_next = not self._log_was_idle
            return self._letter()
        self._log_is_next = False
        done = self._turn_of_log(batch_size, alone=alone, rests=rests)
        self._log_was_idle = done.outcome == "idle"
        if self._log_was_idle and woken:
            self._look(at_once=True)  # it was not the log: perhaps somebody redrives a unit
        if self._log_was_idle and self._due and not self.going_on:
            return self._letter()
        if not self._log_was_idle:
            self._look_soon(0.0 if done.waiting else LOOK_BUSY_S)
        size = batch_size or self._turn.terms.batch_size
        self._is_at_end = self._delivery is None and not alone and self._took_all(done, size)
        return done

    def rest(self) -> Step:
        """Take a turn that begins nothing; as long as calls are `going_on`, take another."""
        return self._log_turn(None, rests=True)

    def wait_s(self, done: Step) -> float:
        """Return how long to sleep at most after this turn, the last one; 0: not at all."""
        if done.outcome != "idle" and not self._is_at_end:
            return 0.0
        wait_s = DOZE_S if self._is_at_end else self._wait_period_s
        if self._next_due_s is not None:
            wait_s = min(wait_s, max(0.0, self._next_due_s - monotonic()))
        if self._delivery is not None and self.going_on:
            wait_s = min(wait_s, self._delivery.wait_s)
        self._woken_before_s = monotonic() + EARLY * wait_s
        return wait_s

    def rest_s(self, done: Step, took_s: float) -> float:
        """Return how long to let events gather after a turn that took_s, whatever notifies."""
        was_stream = self._is_stream
        self._is_stream = self._is_at_end and done.events >= SEVERAL_EVENTS
        if was_stream and self._is_stream:
            return min(RESTS_PER_TURN * took_s, REST_S_MAX)
        return 0.0

    def has_due(self) -> bool:
        """Tell whether a unit that was set aside is due now. Looks at once."""
        self._look_at_s = 0.0
        self._look()
        return bool(self._due)

    def forgive(self, conn: Connection[Any]) -> None:
        """Take back the attempt of a turn that lost its session, from a new one."""
        if self._delivery is not None:
            forget_deliveries(conn, self._turn.assignment)
        if self._in_hand is not None:
            forget_try(conn, self._turn.assignment, self._in_hand)
        elif self._delivery is None:
            forget_attempt(conn, self._turn.assignment)

    def _turn_of_log(self, batch_size: int | None, *, alone: bool, rests: bool) -> Step:
        """Take a turn of the log; raise what keeps the group from going on, with what helps."""
        try:
            return self._log_turn(batch_size, alone=alone, rests=rests)
        except OverrunError as error:
            return self._skip_overrun(error)
        except BeyondError as error:
            # Now, or the log may have come to that offset at the next look.
            stop_beyond(self.conn, self.assignment, error.log_end)
            raise
        except HoleError as error:
            if error.first_offset is None:
                raise
            place = f"{self.assignment.partition}@{error.first_offset}"
            raise HoleError(f"{error}; gapless skip {place} goes on without them") from error

    def _log_turn(
        self, batch_size: int | None, *, alone: bool = False, rests: bool = False
    ) -> Step:
        turn = self._turn
        self._in_hand = None
        if self._delivery is not None:
            size = batch_size or turn.terms.batch_size
            terms = replace(turn.terms, batch_size=size)
            return self._delivery.turn(replace(turn, terms=terms), rests=rests)
        self._has_attempt = alone
        if alone:
            done = step_alone(turn)
        else:
            until_s = monotonic() + GOES_ON_S
            done = step(turn, batch_size=batch_size, goes_on=lambda: monotonic() < until_s)
        self._has_attempt = False
        return done

    def _skip_overrun(self, error: OverrunError) -> Step:
        """Go on as autoOffsetReset says, behind what retention dropped."""
        goal = self._turn.terms.auto_offset_reset
        self._has_attempt = False
        if goal == "error":
            raise error
        lost = skip_overrun(self._turn.conn, self.assignment, goal)
        if lost is None:
            return Step(outcome="fenced")
        log.error(
            "%s: %s offsets lost, goes on at %s: %s", self.assignment.partition, lost, goal, error
        )
        return Step(outcome="done")

    def _letter(self) -> Step:
        self._in_hand, self._has_attempt = self._due[0], True
        outcome = redrive(self._turn, self._due[0])
        self._has_attempt = False
        self._due.popleft()
        self._log_was_idle &= bool(self._due)
        if self._delivery is not None and not self._log_was_idle:
            self._log_until_s = monotonic() + LETTERS_EVERY_S
        self._look_soon(0.0 if outcome == "waiting" or not self._due else LOOK_BUSY_S)
        if outcome == "fenced":
            return Step(outcome="fenced")
        return Step(
            outcome="done",
            dead=int(outcome == "dead"),
            waiting=int(outcome == "waiting"),
            handled=int(outcome == "handled"),
        )

    def _took_all(self, done: Step, batch_size: int) -> bool:
        """Tell whether a turn claimed from the log what there was, and that was not much."""
        is_behind = self._turn.backlog.events > 0
        return not (is_behind or done.failed) and 0 < done.events < batch_size

    def _look(self, *, at_once: bool = False) -> None:
        now = monotonic()
        if self._due or (now < self._look_at_s and not at_once):
            return
        self._look_for_parked()
        found, wait_s = due_letters(self._turn)
        self._due.extend(found)
        self._next_due_s = None if wait_s is None else now + wait_s
        self._look_at_s = now + (LOOK_S if wait_s is None else min(LOOK_S, wait_s))

    def _look_for_parked(self) -> None:
        """Remember whether units are parked, in a group that parks none any more."""
        turn = self._turn
        if not turn.terms.policy.parks and (turn.parked or self._look_at_s == 0.0):
            self._turn = replace(turn, parked=holds_keys(turn))

    def _look_soon(self, seconds: float) -> None:
        self._look_at_s = min(self._look_at_s, monotonic() + seconds)
