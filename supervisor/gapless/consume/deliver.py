"""At-least-once: call handlers whose effects are elsewhere, several at a time, in no transaction.

A window of the log is read without moving the offset. Units are called on threads, in order for
each key; what ended is noted, and what begins is written down before, in one transaction (I8). The
offset moves over the finished prefix alone. A unit that was in hand when the worker died, or whose
end was not noted, is called again; one that was finished ahead of an earlier one is not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

import psycopg
from psycopg import Connection

from gapless.consume.call import call_outside
from gapless.consume.claim import Claim, claim
from gapless.consume.crash import crash_reason
from gapless.consume.letters import Failure, Fate, set_aside, settle_parked
from gapless.consume.policy import judge
from gapless.consume.reader import read_units
from gapless.consume.session import run, transaction
from gapless.consume.sieve import Sieve
from gapless.consume.turn import Step, Turn
from gapless.consume.unit import Span, Spans
from gapless.consume.window import Window
from gapless.errors import BlockedError
from gapless.failpoints import hit
from gapless.keys import Assignment, partition_params

TURN_S = 2.0  # after this no call begins any more, so that the worker can listen to its supervisor
UNITS_MAX = 500


def deliver(turn: Turn, pulse: Callable[[], None]) -> Step:
    """Call the handler for the next units; return when their calls have ended.

    pulse: called whenever a call has ended, or something was noted. Raises as step() does; also a
    transient error of a call, after what the other calls did was noted.
    """
    with suppress(psycopg.Rollback), transaction(turn.conn):
        peek = claim(turn.conn, turn.assignment, turn.limits.batch_size)
        if peek.outcome == "claimed":
            raise psycopg.Rollback
    if peek.outcome != "claimed":
        return Step(outcome=peek.outcome)
    return _Delivery(turn, peek, pulse).run()


def forget_deliveries(conn: Connection[Any], assignment: Assignment) -> None:
    """Take back that calls were begun: it was not they that kept their end from being noted."""
    with transaction(conn):
        run(conn, "forget_deliveries", assignment.params)


@dataclass(slots=True)
class _Note:
    """What one transaction writes down."""

    done: list[int] = field(default_factory=list)
    begun: list[Span] = field(default_factory=list)
    parked: list[int] = field(default_factory=list)
    aside: Counter[str] = field(default_factory=Counter)


class _Delivery:
    """One window on its way: the calls going on, and what has ended and is not noted yet."""

    def __init__(self, turn: Turn, peek: Claim, pulse: Callable[[], None]) -> None:
        self._turn = turn
        self._pulse = pulse
        self._spans: Spans = peek.spans[:UNITS_MAX]
        with transaction(turn.conn):
            known = run(turn.conn, "deliveries", partition_params(turn.assignment.partition))
            self._sieve = Sieve.load(turn, self._spans)
        finished = {first for first, _, is_finished in known if is_finished}
        self._window = Window(self._spans, self._sieve.keys, finished)
        self._expected = self._window.first_offset
        # One of those that were in hand when a worker died killed it: find out which.
        self._suspects = {first: n for first, n, is_finished in known if n and not is_finished}
        self._by_offset = {span.first_offset: span for span in self._spans}
        self._calls: dict[Future[Failure | None], int] = {}
        self._ended: dict[int, Failure | bool] = {}  # True: well; False: to be called again
        self._error: BaseException | None = None
        self._blocked: BlockedError | None = None
        self._aside: Counter[str] = Counter()

    def run(self) -> Step:
        until_s = monotonic() + TURN_S
        with ThreadPoolExecutor(self._turn.limits.concurrency) as pool:
            while True:
                goes_on = self._error is None and monotonic() < until_s
                begin = self._choose() if goes_on else []
                if not (begin or self._ended or self._calls):
                    break
                if not (begin or self._ended):
                    self._await()
                elif not self._note(begin, pool):
                    return Step(outcome="idle")  # the next claim tells whether it is fenced
        if (error := self._error or self._blocked) is not None:
            raise error
        units, next_offset = self._window.prefix()
        return Step(
            outcome="done",
            events=next_offset - self._window.first_offset,
            units=units,
            dead=self._aside["dead"],
            waiting=self._aside["waiting"],
            parked=self._aside["parked"],
            next_offset=next_offset,
        )

    def _choose(self) -> list[Span]:
        """Take as many units in hand as may be, in order for each key."""
        most = 1 if self._suspects else self._turn.limits.concurrency
        chosen: list[Span] = []
        while len(self._calls) + len(chosen) < most:
            span = self._window.take()
            if span is None:
                break
            chosen.append(span)
        return chosen

    def _await(self) -> None:
        """Wait until a call has ended."""
        ended, _ = wait(self._calls, return_when=FIRST_COMPLETED)
        for future in ended:
            first = self._calls.pop(future)
            error = future.exception()
            if error is not None:  # the environment's: called again, raised at the end
                self._error = self._error or error
            self._ended[first] = False if error is not None else future.result() or True
        hit("deliver.called")
        self._pulse()

    def _note(self, begin: list[Span], pool: ThreadPoolExecutor) -> bool:
        """Write down what has ended and what begins, then begin it; False: not ours any more."""
        turn, note, attempts = self._turn, _Note(), None
        with suppress(psycopg.Rollback), transaction(turn.conn):
            for first, end in self._ended.items():
                if end is True or (end is not False and self._fail(first, end, note)):
                    note.done.append(first)
            for span in begin:
                self._begin(span, note)
            if note.parked:
                settle_parked(turn.conn, turn.assignment.partition, note.parked)
            attempts = self._write(note)
            if attempts is None:
                raise psycopg.Rollback
        if attempts is None:
            return False
        hit("deliver.noted")
        self._pulse()  # many may be parked one after the other, and no call ends meanwhile
        for first in self._ended:
            self._suspects.pop(first, None)
        self._ended = {}
        self._window.finish(note.done)
        self._expected = self._window.prefix()[1]
        self._aside.update(note.aside)
        self._call(note.begun, attempts, pool)
        return True

    def _fail(self, first: int, failure: Failure, note: _Note) -> bool:
        """Do with a unit whose call failed what the policy says; tell whether it is passed."""
        assert isinstance(failure.error, BaseException)
        verdict = judge(self._turn.policy, failure.error, failure.attempts)
        if verdict.state == "block":
            place = f"{self._turn.assignment.partition}@{first}"
            self._blocked = BlockedError(place, failure.error)
            return False
        if verdict.state != "skip":
            fate = Fate(
                state="dead" if verdict.state == "dead" else "waiting",
                retry_after_s=verdict.retry_after_s,
                parks=self._turn.policy.parks,
                worker=self._turn.limits.worker,
            )
            self._set_aside(first, failure, fate, note)
            if fate.parks:
                self._sieve.hold(first)
        return True

    def _begin(self, span: Span, note: _Note) -> None:
        """Let a unit begin, unless it is to be parked, or has killed too many workers."""
        turn, first = self._turn, span.first_offset
        crashes = self._suspects.get(first, 0)
        parks = turn.policy.parks
        if turn.parks and self._sieve.stops(first):
            words = Failure(error="parked behind an earlier unit of its key", attempts=0)
            self._set_aside(first, words, Fate(state="parked"), note)
            note.parked.append(first)
        elif crashes >= turn.policy.crashes_max and turn.policy.on_failure != "block":
            reason = crash_reason(crashes, turn.limits.former_end)
            fate = Fate(state="dead", parks=parks, worker=turn.limits.worker)
            self._set_aside(first, Failure(error=reason, attempts=crashes), fate, note)
            if parks:
                self._sieve.hold(first)
        else:
            note.begun.append(span)
            return
        note.done.append(first)

    def _set_aside(self, first: int, failure: Failure, fate: Fate, note: _Note) -> None:
        turn = self._turn
        set_aside(turn.conn, turn.assignment.partition, self._by_offset[first], failure, fate)
        note.aside[fate.state] += 1

    def _write(self, note: _Note) -> dict[int, int] | None:
        """Note all this; return which attempt each begun is, None when it is not ours any more."""
        params = {
            **self._turn.assignment.params,
            "expected": self._expected,
            "ended": list(self._ended),
            "done": note.done,
            "begun": [span.first_offset for span in note.begun],
            "begun_last": [span.last_offset for span in note.begun],
            "upto": self._window.prefix(note.done)[1],
        }
        rows = run(self._turn.conn, "note_deliveries", params)
        if rows and rows[0][0] is None:
            return None
        return {first: attempts for first, attempts, _ in rows}

    def _call(
        self, begun: Sequence[Span], attempts: dict[int, int], pool: ThreadPoolExecutor
    ) -> None:
        turn = self._turn
        for span in begun:
            one = Spans(span.first_offset, span.ids, [len(span.ids)])
            attempt = attempts[span.first_offset]
            (unit,) = read_units(
                turn.conn, turn.assignment.partition, one, turn.limits, attempt=attempt
            )
            self._calls[pool.submit(call_outside, turn.handler, unit)] = span.first_offset
