"""The step: one turn of the processing cycle, for whoever drives it (worker, Spark task, test).

Fast path: claim a range, call the handler for each unit, commit; effects and offset are one commit
(I6). When that fails, everything is rolled back, and the range is tried again with care.

Errors that are the environment's (db.connect.is_transient) leave the step as they are: nothing was
committed, call it again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

import psycopg

from gapless.consume.backlog import Backlog
from gapless.consume.call import UnitFailedError, call, call_each
from gapless.consume.careful import bury, careful
from gapless.consume.chain import learn
from gapless.consume.claim import Claim, Wanted, claim, forget_attempt, record_attempt
from gapless.consume.crash import crash_reason
from gapless.consume.letters import Failure
from gapless.consume.policy import Verdict
from gapless.consume.reader import wary
from gapless.consume.session import (
    TransactionBrokenError,
    allow_commit,
    commit_and_begin,
    transaction,
)
from gapless.consume.sieve import Sieve, settle, sieve_for
from gapless.consume.turn import Retry, Step, Turn, offsets
from gapless.consume.unit import NOTHING, Batch, Spans, Unit
from gapless.db.connect import is_passing
from gapless.errors import HoleError
from gapless.failpoints import hit

__all__ = ["Step", "step", "step_alone"]

Done = tuple[Spans, int]
"""A batch that was handled: its units, and how many of them were parked."""


def step(
    turn: Turn, *, batch_size: int | None = None, goes_on: Callable[[], bool] = lambda: False
) -> Step:
    """Handle the next units of a partition, and commit.

    batch_size: events to claim, if not as agreed. goes_on: asked after each batch; as long as it
    says so, and units are read ahead (`turn.backlog`), the next batch follows, a commit for each.
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
    turn.backlog.forget()
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
    turn = replace(turn, backlog=Backlog())  # what was read ahead is claimed by batches
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
    conn, backlog = turn.conn, turn.backlog
    batch_size = 1 if turn.handler.habits.defers else batch_size
    committed: list[Done] = []
    handled: Done | None = None  # the last one; its COMMIT is next, unless it is committed
    spans = NOTHING
    try:
        with transaction(conn, kept=True):
            claimed, units = backlog.claim(conn, turn.assignment, turn.terms, batch_size)
            if claimed.outcome != "claimed":
                return Step(outcome=claimed.outcome)
            spans = claimed.spans
            handled = _handle(turn, claimed, units)
            while backlog.units and goes_on():
                # COMMIT, BEGIN and the next claim are one round trip.
                commit_and_begin(conn, partial(committed.append, handled))
                following = backlog.claim_read(conn, turn.assignment, batch_size)
                if following is None:  # why not, the next step finds out: what is done counts
                    return _all_of(committed)
                hit("step.next")
                claimed, units = following
                spans = claimed.spans
                handled = _handle(turn, claimed, units)
    except (UnitFailedError, TransactionBrokenError) as error:
        return _retry(turn, spans, error, committed)
    except psycopg.Error as error:
        if handled is None or handled in committed:
            raise
        # It is our own check or the COMMIT, and fails for something a handler did.
        retry = _retry(turn, spans, error, committed)
        if is_passing(error) and not retry.learned:
            raise
        return retry
    hit("step.committed")
    return _all_of([*committed, handled])


def _handle(turn: Turn, claimed: Claim, units: Iterable[Unit]) -> Done:
    """Call the handler with each unit, and allow the COMMIT, which is next."""
    hit("step.fetched")
    handler, spans = turn.handler, claimed.spans
    sieve = sieve_for(turn, spans) if turn.parks else None
    if handler.batch:
        _call_batch(turn, sieve, units)
    else:
        numbered = enumerate(units) if sieve is None else sieve.numbered(units)
        if sieve is not None or claimed.rows is None:
            numbered = wary(handler, numbered)
        call_each(handler, numbered, turn.conn)
    hit("step.handled")
    parked = settle(sieve).get("parked", 0) if sieve is not None else 0
    allow_commit(turn.conn, claimed.claim_xid, 1 if handler.batch else len(spans.ends))
    return spans, parked


def _all_of(batches: Sequence[Done]) -> Step:
    """Return what was done with batches that were committed, one after the other."""
    if not batches:
        return Step(outcome="idle")
    units = sum(len(spans.ends) for spans, _ in batches)
    parked = sum(parked for _, parked in batches)
    last = batches[-1][0]
    return Step(
        outcome="done",
        events=sum(len(spans.ids) for spans, _ in batches),
        units=units,
        parked=parked,
        handled=units - parked,
        next_offset=last.first_offset + len(last.ids),
    )


def _retry(turn: Turn, spans: Spans, error: Exception, committed: Sequence[Done]) -> Retry:
    """Return what is to be tried again, and what was committed before it."""
    return Retry(
        spans=spans,
        failed=error.at if isinstance(error, UnitFailedError) else None,
        done=_all_of(committed),
        learned=learn(turn.handler, error),
    )


def _call_batch(turn: Turn, sieve: Sieve | None, units: Iterable[Unit]) -> None:
    batch = Batch(units if sieve is None else (unit for _, unit in sieve.numbered(units)))
    if batch:
        call(turn.handler, batch, turn.conn)
