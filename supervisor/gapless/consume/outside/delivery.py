"""At-least-once: call handlers whose effects are elsewhere, several at a time, in no transaction.

The log is read ahead of the offset, through a window that slides. Units are called on threads, in
order for each key; ended calls are noted, and new calls are recorded before they begin, in one
transaction (I8). The offset moves over the finished prefix alone. A unit that was in hand when the
worker died, or whose end was not noted, is called again; one finished ahead of others is not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

import psycopg
from psycopg import Connection

from gapless.consume.aside.parking import BEHIND
from gapless.consume.aside.record import set_aside, settle_parked
from gapless.consume.job import STATES, Job, Step
from gapless.consume.outside.calls import Calls, Ended
from gapless.consume.outside.lookahead import Lookahead
from gapless.consume.read.units import read_apart
from gapless.consume.session import run, run_and_commit, transaction
from gapless.consume.unit import Span
from gapless.consume.verdict.failure import Failure, crash_reason
from gapless.consume.verdict.policy import Verdict
from gapless.consume.verdict.wish import Retry
from gapless.errors import BlockedError, HoleError
from gapless.failpoints import hit
from gapless.keys import Assignment
from gapless.telemetry import spans


def forget_deliveries(conn: Connection[Any], assignment: Assignment) -> None:
    """Take back the records of calls that began: they are not the reason why no end was noted."""
    run_and_commit(conn, "forget_deliveries", assignment.params)


@dataclass(slots=True)
class _Note:
    """The changes that one transaction records.

    done, again: units that need no further call, or do. begun: their calls begin after COMMIT.
    """

    done: list[int] = field(default_factory=list)
    again: list[int] = field(default_factory=list)
    begun: list[Span] = field(default_factory=list)
    parked: list[int] = field(default_factory=list)
    aside: Counter[str] = field(default_factory=Counter)
    blocked: BlockedError | None = None


class AtLeastOnce:
    """The calls of one partition; they continue between the turns of its driver.

    wake: called, on any thread, when the next turn has something to do. Without it a turn waits.
    """

    def __init__(self, job: Job, wake: Callable[[], None] | None) -> None:
        self._job = job
        self._waits = wake is None
        self._wake = wake or (lambda: None)
        self._reset()

    def _reset(self) -> None:
        self._calls = Calls(self._job.handler, self._job.terms.concurrency, self._wake)
        self._ended: dict[int, Ended] = {}
        self._trouble: BaseException | None = None
        self._ahead = Lookahead()
        self._is_noting = False  # calls may be recorded that did not begin

    @property
    def going_on(self) -> bool:
        """Whether calls are under way, or have ended and are not noted yet."""
        return bool(self._calls or self._ended)

    @property
    def has_attempt(self) -> bool:
        """Whether a call may be recorded as begun whose end is not."""
        return self.going_on or self._is_noting

    @property
    def oldest_s(self) -> float | None:
        """The time (time.monotonic) at which the oldest call under way began."""
        return self._calls.oldest_s

    @property
    def wait_s(self) -> float:
        """The longest time to sleep after an idle turn, which may not have looked at the log."""
        return self._ahead.wait_s

    def turn(self, job: Job, *, rests: bool = False) -> Step:
        """Note the calls that have ended, and begin others, unless it `rests`.

        "idle": nothing has ended and nothing can begin; no call is under way, if turns wait.
        Raises as step() does. The error of a call or of the policy is raised after all calls have
        ended; other transient errors at once: take another turn.
        """
        self._job = job
        self._collect(wait=False)
        begin: list[Span] = []
        passes = False
        if not rests and self._trouble is None:
            outcome = self._ahead.look(job)
            if outcome == "fenced":
                return self._lost("fenced")
            if outcome == "claimed":
                begin = self._ahead.choose(job, self._calls)
                # If all units were finished ahead by a former owner, only this passes them.
                passes = self._ahead.window.prefix()[0] > 0
        if not (begin or passes or self._ended):
            self._collect(wait=self._waits)
        if begin or passes or self._ended:
            hit("deliver.called")
            return self._note(begin)
        if self._trouble is not None and not self._calls:
            trouble, self._trouble = self._trouble, None
            if isinstance(trouble, psycopg.errors.SerializationFailure):
                self._reset()  # units read ahead may be replaced (events_beside_of.sql): read again
            raise trouble
        return Step(outcome="idle")

    def _lost(self, outcome: Literal["idle", "fenced"]) -> Step:
        """Forget all: the partition has another owner, or the offset was moved."""
        self._calls.abandon()
        self._reset()
        return Step(outcome=outcome)

    def _collect(self, *, wait: bool) -> None:
        """Collect the ended calls; after the first error no other call begins, noted or not."""
        self._ended.update(self._calls.collect(wait=wait))
        errors = (end for end in self._ended.values() if isinstance(end, BaseException))
        self._trouble = self._trouble or next(errors, None)

    # -- the notes --------------------------------------------------------------------------------

    def _note(self, begin: list[Span]) -> Step:
        """Record ended and new calls in one transaction, then begin the new ones."""
        note = _Note()
        self._is_noting = True
        try:
            attempts = self._write_all(note, begin)
        except BaseException:
            for span in begin:
                self._ahead.window.untake(span.first_offset)
            raise
        if attempts is None:
            return self._lost("idle")  # the next claim tells whether it is fenced
        hit("deliver.noted")
        done = self._noted(note)
        self._call(note.begun, attempts)
        self._is_noting = False
        return done

    def _write_all(self, note: _Note, begin: list[Span]) -> dict[int, int] | None:
        """Return the attempt of each unit begun; None when the partition is not ours any more."""
        job = self._job
        with suppress(psycopg.Rollback), transaction(job.conn):
            for first, end in self._ended.items():
                self._end(first, end, note)
            for span in begin:
                self._begin(span, note)
            if note.parked:
                settle_parked(job.conn, job.assignment.partition, note.parked)
            attempts = self._write(note)
            if attempts is None:
                raise psycopg.Rollback
        return attempts

    def _end(self, first: int, end: Ended, note: _Note) -> None:
        """Decide about a unit whose call has ended."""
        if end is None or (isinstance(end, Failure) and self._fail(first, end, note)):
            note.done.append(first)
        else:
            note.again.append(first)

    def _fail(self, first: int, failure: Failure, note: _Note) -> bool:
        """Apply the policy to a unit whose call failed; tell whether the unit is passed."""
        assert isinstance(failure.error, BaseException)
        verdict = self._job.judge(failure.error, max(1, failure.attempts), first)
        if verdict.state in ("block", "skip"):  # otherwise set_aside() does it
            spans.verdict(failure.error, verdict.state, failure.attempts)
        if verdict.state == "block":
            note.blocked = self._job.blocked(first, failure.error)
            return False
        if verdict.state != "skip":
            self._set_aside(first, failure, verdict, note)
        return True

    def _begin(self, span: Span, note: _Note) -> None:
        """Begin a unit, unless it is to be parked, or has killed too many workers."""
        job, first = self._job, span.first_offset
        crashes = self._ahead.suspects.get(first, 0)
        if job.parks and self._ahead.sieve.stops(first):
            self._set_aside(first, BEHIND, Verdict(state="parked"), note)
            note.parked.append(first)
        elif job.terms.policy.gives_up(crashes):
            reason = crash_reason(crashes, job.former_end)
            failure = Failure(error=reason, attempts=crashes)
            self._set_aside(first, failure, Verdict(state="dead"), note)
        else:
            note.begun.append(span)
            return
        note.done.append(first)

    def _set_aside(self, first: int, failure: Failure, verdict: Verdict, note: _Note) -> None:
        set_aside(self._job, self._ahead.window.span(first), failure, verdict)
        note.aside[verdict.state] += 1
        # A failure for some subscriptions must not slow down the others (FailureBackoff).
        note.aside["asked"] += isinstance(failure.error, Retry) or failure.only is not None
        if self._job.terms.policy.parks and verdict.state != "parked":  # that one holds them
            self._ahead.sieve.hold(first)

    def _write(self, note: _Note) -> dict[int, int] | None:
        params = {
            **self._job.assignment.params,
            "expected": self._ahead.window.begin,
            "ended": list(self._ended),
            "done": note.done,
            "begun": [span.first_offset for span in note.begun],
            "begun_last": [span.last_offset for span in note.begun],
            "upto": self._ahead.window.prefix(note.done)[1],
        }
        rows = run(self._job.conn, "note_deliveries", params)
        if rows and rows[0][0] is None:
            return None
        return {first: attempts for first, attempts, _ in rows}

    def _noted(self, note: _Note) -> Step:
        """Continue after the COMMIT of a note."""
        window = self._ahead.window
        self._trouble = self._trouble or note.blocked
        for first in self._ended:
            self._ahead.suspects.pop(first, None)
        self._ended = {}
        for first in note.again:
            window.untake(first)
        events = window.events
        window.finish(note.done)
        units, next_offset = window.prefix()
        window.pass_(units)
        return Step(
            outcome="done",
            events=events - window.events,
            units=units,
            dead=note.aside["dead"],
            waiting=note.aside["waiting"],
            parked=note.aside["parked"],
            asked=note.aside["asked"],
            handled=len(note.done) - sum(note.aside[state] for state in STATES),
            next_offset=next_offset if units else 0,
        )

    def _call(self, begun: Sequence[Span], attempts: dict[int, int]) -> None:
        job, partition = self._job, self._job.assignment.partition
        at = 0
        try:
            for unit in read_apart(
                job.conn,
                partition,
                begun,
                job.terms,
                attempts=attempts,
                through=self._calls.elsewhere,
            ):
                self._calls.begin(unit, job.conn)
                at += 1
        except (psycopg.Error, HoleError) as error:  # raised by the next note: none began
            self._ended.update((each.first_offset, error) for each in begun[at:])
