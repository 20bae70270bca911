"""The step: one turn of the processing cycle, for whoever drives it (worker, Spark task, test).

Fast path: claim a range, call the handler for each unit, commit; effects and offset are one commit
(I6). When that fails, everything is rolled back, and the range is tried again with care.

Errors that are the environment's (db.connect.is_transient) leave the step as they are: nothing was
committed, call it again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import psycopg

from gapless.consume.call import UnitFailedError, call, call_each
from gapless.consume.careful import bury, careful
from gapless.consume.chain import learn
from gapless.consume.claim import (
    Claim,
    Made,
    Wanted,
    claim,
    claim_ahead,
    forget_attempt,
    record_attempt,
)
from gapless.consume.crash import crash_reason
from gapless.consume.letters import Failure
from gapless.consume.policy import Verdict
from gapless.consume.prefetch import NOTHING, Prefetch
from gapless.consume.reader import at_once, load_units, units_of, wary
from gapless.consume.session import (
    TransactionBrokenError,
    commit_and_begin,
    transaction,
)
from gapless.consume.sieve import Sieve, settle, sieve_for
from gapless.consume.turn import (
    NONE,
    Retry,
    Step,
    Turn,
    finish,
    offsets,
)
from gapless.consume.unit import Batch, Spans, Unit
from gapless.db.connect import is_passing
from gapless.errors import HoleError
from gapless.failpoints import hit
from gapless.log.event import Row

__all__ = ["Step", "step", "step_alone"]


def step(
    turn: Turn, *, batch_size: int | None = None, goes_on: Callable[[], bool] = lambda: False
) -> Step:
    """Handle the next units of a partition, and commit.

    batch_size: events to claim, if not as agreed. goes_on: asked after each batch; as long as it
    says so, and units are read ahead (`turn.ahead`), the next batch follows, a commit for each.
    Before: `conn` is outside a transaction. After: likewise, or closed if the handler ruined it.
    Again: safe at any time; whether a COMMIT without an answer happened, the offset tells.
    Raises HoleError (the log is damaged where the group is), psycopg's transient errors, and, under
    onFailure block, BlockedError: nothing else of the handler.
    Bound: a failing unit costs at most one more call for itself and for each unit before it.
    """
    try:
        return _step(turn, batch_size or turn.terms.batch_size, goes_on)
    except HoleError as error:
        if not error.whole:
            raise
        whole = error.whole
    # What stands before a hole is handled; at the hole itself the next step stops.
    turn.ahead.forget()
    return _step(turn, whole, lambda: False)


def _step(turn: Turn, batch_size: int, goes_on: Callable[[], bool]) -> Step:
    # Not retried inside an except block: its error would stand in every later one's traceback.
    outcome = _fast(turn, batch_size, goes_on)
    if not isinstance(outcome, Retry):
        return outcome
    done = outcome.done
    while isinstance(outcome, Retry):
        outcome = _again(turn, outcome)
    return done.followed_by(outcome)


def step_alone(turn: Turn) -> Step:
    """Handle one unit, its attempt written down before: finds a unit that kills its worker (I8)."""
    conn, assignment = turn.conn, turn.assignment
    turn = replace(turn, ahead=Prefetch())  # what was read ahead is claimed by batches
    with contextlib.suppress(psycopg.Rollback), transaction(conn):
        peek = claim(conn, assignment, Wanted(1, group_by=turn.terms.group_by))
        if peek.outcome == "claimed":
            raise psycopg.Rollback
    if peek.outcome != "claimed":
        return Step(outcome=peek.outcome)
    hit("alone.peeked")
    attempts = record_attempt(conn, assignment)
    if attempts is None:
        return Step(outcome="fenced")
    hit("alone.recorded")
    if attempts > turn.terms.policy.crashes_max and turn.terms.policy.on_failure != "block":
        failure = Failure(error=crash_reason(attempts - 1, turn.former_end), attempts=attempts - 1)
        return bury(turn, peek.spans[0], failure, verdict=Verdict(state="dead"))
    try:
        return step(turn, batch_size=1)
    except Exception:
        with contextlib.suppress(psycopg.Error):  # without connection it counts as a death
            forget_attempt(conn, assignment)
        hit("alone.forgotten")
        raise


def _again(turn: Turn, retry: Retry) -> Step | Retry:
    if retry.learned:
        first, last = offsets(retry.spans)
        return _fast(turn, last - first + 1)
    if retry.hopeless is not None:
        return bury(turn, retry.spans[0], Failure(error=retry.hopeless))
    if retry.failed is None and len(retry.spans) > turn.units_per_commit:
        # Which of many failed is not known: try half of them, all at once.
        first, last = offsets(retry.spans[: len(retry.spans) // 2])
        return _fast(turn, last - first + 1)
    return careful(turn, retry)


def _fast(turn: Turn, batch_size: int, goes_on: Callable[[], bool] = lambda: False) -> Step | Retry:
    """Handle a batch, and what was read ahead as long as `goes_on`, a commit for each."""
    hand = _Hand(turn)
    if turn.handler.habits.defers:
        batch_size = 1
    wanted = Wanted(batch_size, at_once(turn.terms), turn.terms.group_by)
    try:
        with transaction(turn.conn, kept=True):
            claimed = claim(turn.conn, turn.assignment, wanted, turn.ahead, hand.make)
            if claimed.outcome != "claimed":
                return Step(outcome=claimed.outcome)
            hand.handle(claimed)
            while turn.ahead.units and goes_on():
                commit_and_begin(turn.conn, hand.put_down)
                following = claim_ahead(
                    turn.conn, turn.assignment, batch_size, turn.ahead, hand.make
                )
                if following is None:  # why not, the next step finds out: what is done counts
                    return hand.done
                hit("step.next")
                hand.handle(following)
    except (UnitFailedError, TransactionBrokenError) as error:
        return hand.retry(error)
    except psycopg.Error as error:
        return hand.retry_ours(error)
    hand.put_down()
    hit("step.committed")
    return hand.done


class _Hand:
    """The batch in hand, and what was committed before it."""

    def __init__(self, turn: Turn) -> None:
        self.spans = NOTHING
        self.is_handled = False
        self._parked: Mapping[str, int] = NONE
        self._turn = turn
        # Counted, not a Step for each batch: to make and add them takes as long as a statement.
        self._events = self._units = self._set_aside = self._next_offset = 0

    def make(self, spans: Spans, rows: list[Row]) -> Made:
        """Make the units of what was read ahead, while the database is asked whether it is ours."""
        turn = self._turn
        return units_of(turn.conn, turn.assignment.partition, turn.terms, spans, rows)

    def handle(self, claimed: Claim) -> None:
        """Call the handler with each unit, and allow the COMMIT, which is next."""
        turn = self._turn
        hit("step.claimed")
        self.spans, units = claimed.made or load_units(
            turn.conn, turn.assignment.partition, claimed, turn.terms, turn.ahead
        )
        hit("step.fetched")
        sieve = sieve_for(turn, self.spans)
        if turn.handler.batch:
            _call_batch(turn, sieve, units)
        else:
            numbered = enumerate(units) if sieve is None else sieve.numbered(units)
            if sieve is not None or len(self.spans.ids) > at_once(turn.terms):
                numbered = wary(turn.handler, numbered)
            call_each(turn.handler, numbered, turn.conn)
        hit("step.handled")
        self.is_handled = True
        self._parked = settle(sieve)
        finish(turn, claimed, 1 if turn.handler.batch else len(self.spans))

    def put_down(self) -> None:
        """Note that it is committed."""
        self._events += len(self.spans.ids)
        self._units += len(self.spans)
        self._set_aside += self._parked.get("parked", 0)
        self._next_offset = offsets(self.spans)[1] + 1
        self.spans = NOTHING
        self.is_handled = False

    @property
    def done(self) -> Step:
        """What was committed."""
        if not self._units:
            return Step(outcome="idle")
        return Step(
            outcome="done",
            events=self._events,
            units=self._units,
            parked=self._set_aside,
            handled=self._units - self._set_aside,
            next_offset=self._next_offset,
        )

    def retry(self, error: Exception) -> Retry:
        """Return what is to be tried again."""
        return Retry(
            spans=self.spans,
            failed=error.at if isinstance(error, UnitFailedError) else None,
            done=self.done,
            learned=learn(self._turn.handler, error),
        )

    def retry_ours(self, error: psycopg.Error) -> Retry:
        """Return what is to be tried again when a statement of ours failed; or raise the error.

        Once handled, it is our own check or the COMMIT, and fails for something a handler did.
        """
        if self.is_handled:
            retry = self.retry(error)
            if retry.learned or not is_passing(error):
                return retry
        raise error


def _call_batch(turn: Turn, sieve: Sieve | None, units: Iterator[Unit]) -> None:
    batch = Batch(units if sieve is None else (unit for _, unit in sieve.numbered(units)))
    if batch:
        call(turn.handler, batch, turn.conn)
