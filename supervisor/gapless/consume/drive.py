"""Drive one partition: take turns over its log, and over due units that were set aside.

A worker calls its driver repeatedly while it owns the partition. The driver's agenda knows the next
task, and when to look; an idle driver looks rarely, and writes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from time import monotonic
from typing import Any

from psycopg import Connection

from gapless.consume.agenda import Agenda
from gapless.consume.aside.parking import holds_keys
from gapless.consume.aside.retry import due_asides, forget_try, retry_aside
from gapless.consume.job import Job, Step
from gapless.consume.outside.concurrent_retries import ConcurrentRetries
from gapless.consume.outside.delivery import AtLeastOnce, forget_deliveries
from gapless.consume.read.claim import UnsettledError
from gapless.consume.read.place import forget_attempt, skip_overrun, stop_beyond
from gapless.consume.step import step, step_alone
from gapless.db.hidden import hidden_rows
from gapless.errors import BeyondError, HoleError, OverrunError
from gapless.keys import Assignment

log = logging.getLogger("gapless.worker")

GOES_ON_S = 0.02  # for this time one turn takes batches that were read ahead


class Driver:
    """`turn()` handles one claim, or one unit that was set aside, and returns.

    Calls of an at-least-once handler continue between turns; when one has ended, `wake` is called,
    on any thread. Without `wake`, a turn waits for the end.
    """

    def __init__(
        self,
        job: Job,
        *,
        wake: Callable[[], None] | None = None,
    ) -> None:
        self._job = job
        self._outside: AtLeastOnce | None = None
        if job.terms.delivery == "at-least-once":
            self._outside = AtLeastOnce(job, wake)
        self._beside = ConcurrentRetries(job, wake) if job.handler.asides_beside else None
        self._at_work = [each for each in (self._outside, self._beside) if each is not None]
        self._agenda = Agenda()
        self._aside: int | None = None  # the unit set aside that has its turn
        self._has_attempt = False  # a turn has recorded an attempt, and has not ended

    @property
    def assignment(self) -> Assignment:
        """The right by which it works on the partition."""
        return self._job.assignment

    @property
    def conn(self) -> Connection[Any]:
        """The session on which it works."""
        return self._job.conn

    @property
    def going_on(self) -> bool:
        """Whether calls are under way between the turns."""
        return any(each.going_on for each in self._at_work)

    @property
    def oldest_s(self) -> float | None:
        """The time (time.monotonic) at which the oldest of these calls began."""
        began_s = (each.oldest_s for each in self._at_work)
        return min((each for each in began_s if each is not None), default=None)

    @property
    def has_attempt(self) -> bool:
        """Whether an attempt is recorded whose end is not."""
        outside = self._outside
        is_aside = self._beside is not None and self._beside.going_on
        return self._has_attempt or is_aside or (outside is not None and outside.has_attempt)

    def turn(self, *, batch_size: int | None = None, alone: bool = False) -> Step:
        """Do the next task, and commit. Raises the errors of step() and retry_aside().

        alone: take one unit of the log, and record its attempt first.
        """
        agenda, began_s = self._agenda, monotonic()
        task = agenda.next(began_s)
        if task == "look":
            self._look(began_s)
            task = agenda.next(began_s)
        if self._beside is not None:
            return self._turn_of_both(self._beside, began_s, batch_size, alone=alone)
        done, rests = Step(outcome="idle"), task == "aside"
        if not rests or self.going_on:
            done = self._turn_noted(began_s, batch_size, alone=alone, rests=rests)
            if done.outcome != "idle" or self.going_on:
                return done
        return self._turn_of_aside() or done

    def rest(self) -> Step:
        """Take a turn that begins no call; while calls are `going_on`, take another."""
        aside = self._turn_beside(())
        done = self._turn_of_log(None, rests=True)
        return done if aside.outcome == "idle" else aside.followed_by(done)

    def wait_s(self, done: Step, period_s: float) -> float:
        """Return the time to sleep after `done`, the last turn; 0: do not sleep."""
        wait_s = self._agenda.pace.doze_s(period_s, idle=done.outcome == "idle")
        if not wait_s:
            return 0.0
        now_s = monotonic()
        wait_s = self._agenda.wait_s(now_s, wait_s)
        if self._outside is not None and self.going_on:
            wait_s = min(wait_s, self._outside.wait_s)
        self._agenda.pace.sleep(now_s, wait_s)
        return wait_s

    def rest_s(self, done: Step, took_s: float) -> float:
        """Return the time to let events gather after a turn that took_s, despite notifications."""
        return self._agenda.pace.rest_s(done.events, took_s)

    def has_due(self) -> bool:
        """Tell whether a unit that was set aside is due now; ask the database if none is known."""
        if not self._agenda.due:
            self._look(monotonic())
        return self._agenda.due

    def forgive(self, conn: Connection[Any]) -> None:
        """Take back, in a new session, the attempt of a turn that lost its session."""
        if self._outside is not None:
            forget_deliveries(conn, self._job.assignment)
        if self._beside is not None:
            self._beside.forgive(conn, self._job)
        if self._aside is not None:
            forget_try(conn, self._job.assignment, self._aside)
        elif self._outside is None:
            forget_attempt(conn, self._job.assignment)

    def _turn_of_both(
        self, beside: ConcurrentRetries, began_s: float, batch_size: int | None, *, alone: bool
    ) -> Step:
        """Take a turn of units set aside, and one of the log: neither waits for the other."""
        aside = self._turn_beside(self._agenda.take_due(began_s))
        if aside.outcome == "fenced":
            return aside
        done = self._turn_noted(began_s, batch_size, alone=alone, rests=False)
        if done.outcome == "fenced":
            beside.abandon()
        return aside.followed_by(done) if aside.outcome == "done" else done

    def _turn_noted(
        self, began_s: float, batch_size: int | None, *, alone: bool, rests: bool
    ) -> Step:
        """Take a turn of the log, and report it to the agenda."""
        agenda = self._agenda
        done = self._turn_of_log(batch_size, alone=alone, rests=rests)
        idle = done.outcome == "idle"
        # is_end: the turn claimed all that the log had, and that was little.
        tells_nothing = alone or self._outside is not None or self._job.backlog.events
        size = batch_size or self._job.terms.batch_size
        is_end = not (tells_nothing or done.dead or done.waiting) and 0 < done.events < size
        now_s, waits = monotonic(), done.waiting > 0
        if agenda.log_taken(now_s, idle=idle, waits=waits, is_end=is_end, began_s=began_s):
            self._look(now_s)
        return done

    def _turn_of_log(
        self, batch_size: int | None, *, alone: bool = False, rests: bool = False
    ) -> Step:
        """Take a turn of the log; raise the error that stops the group, with its remedy."""
        job, until_s = self._job, monotonic() + GOES_ON_S
        self._aside = None
        try:
            if self._outside is not None:
                terms = replace(job.terms, batch_size=batch_size or job.terms.batch_size)
                return self._outside.turn(replace(job, terms=terms), rests=rests)
            self._has_attempt = alone
            if alone:
                done = step_alone(job)
            else:
                done = step(
                    job, batch_size=batch_size, continue_while=lambda: monotonic() < until_s
                )
        except UnsettledError as error:
            self._has_attempt = False
            is_settled = error.settle(self.conn, self.assignment)
            return Step(outcome="done" if is_settled else "fenced")
        except OverrunError as error:
            return self._skip_overrun(error)
        except BeyondError as error:
            # Now: by the next look the log may have reached that offset.
            stop_beyond(self.conn, self.assignment, error.log_end)
            raise
        except HoleError as error:
            remedy = self._remedy(error)
            if remedy is None:
                raise
            raise HoleError(remedy) from error
        self._has_attempt = False
        return done

    def _remedy(self, error: HoleError) -> str | None:
        """Return the error with the way to continue; None if it is not known."""
        hidden = hidden_rows(self.conn)
        if hidden is not None or error.first_offset is None:
            return hidden
        place = f"{self.assignment.partition}@{error.first_offset}"
        return f"{error}; gapless skip {place} continues without them"

    def _skip_overrun(self, error: OverrunError) -> Step:
        """Continue behind the events that retention dropped, as autoOffsetReset says."""
        goal = self._job.terms.auto_offset_reset
        self._has_attempt = False
        if goal == "error":
            raise error
        lost = skip_overrun(self._job.conn, self.assignment, goal)
        if lost is None:
            return Step(outcome="fenced")
        log.error(
            "%s: %s offsets lost, continues at %s: %s", self.assignment.partition, lost, goal, error
        )
        return Step(outcome="done")

    def _turn_beside(self, due: Sequence[int]) -> Step:
        """Note the ended calls of units that were set aside, and begin others beside the log."""
        if self._beside is None or not (due or self._beside.going_on):
            return Step(outcome="idle")
        return self._beside.turn(self._job, due)

    def _turn_of_aside(self) -> Step | None:
        """Handle the next due unit that was set aside; None: none is known to be due."""
        first_offset = self._agenda.take_aside()
        if first_offset is None:
            return None
        self._aside, self._has_attempt = first_offset, True
        outcome = retry_aside(self._job, first_offset)
        self._has_attempt = False
        yields = self._outside is not None
        self._agenda.aside_taken(monotonic(), yields=yields)
        if outcome == "fenced":
            return Step(outcome="fenced")
        return Step(
            outcome="done",
            dead=int(outcome == "dead"),
            waiting=int(outcome == "waiting"),
            handled=int(outcome == "handled"),
        )

    def _look(self, now_s: float) -> None:
        """Ask the database for due units, and for parked ones under a policy that parks none."""
        job = self._job
        if not job.terms.policy.parks and (job.parked or self._agenda.is_new):
            self._job = job = replace(job, parked=holds_keys(job))
        self._agenda.looked(now_s, *due_asides(job))
