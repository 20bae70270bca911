"""The step: one turn of the processing cycle, for whoever drives it (worker, Spark task, test).

Fast path: claim a range, call the handler for each unit, commit; effects and offset are one commit
(I6). When that fails, everything is rolled back, and the range is tried again with care.

Errors that are the environment's (db.connect.is_transient) leave the step as they are: nothing was
committed, call it again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import psycopg
from psycopg import Connection

from gapless.consume.call import UnitFailedError, call
from gapless.consume.careful import bury, careful
from gapless.consume.claim import claim, forget_attempt, record_attempt
from gapless.consume.crash import crash_reason
from gapless.consume.handler import Handler
from gapless.consume.letters import Failure
from gapless.consume.policy import Verdict
from gapless.consume.prefetch import NOTHING, Prefetch
from gapless.consume.reader import load_units
from gapless.consume.session import TransactionBrokenError, transaction
from gapless.consume.sieve import Sieve, settle, sieve_for
from gapless.consume.turn import (
    NONE,
    UNITS_PER_COMMIT,
    Limits,
    Retry,
    Step,
    Turn,
    finish,
    offsets,
)
from gapless.consume.unit import Batch, Unit
from gapless.db.connect import is_transient
from gapless.failpoints import hit
from gapless.keys import Assignment

__all__ = ["UNITS_PER_COMMIT", "Limits", "Step", "step", "step_alone"]


def step(
    conn: Connection[Any],
    assignment: Assignment,
    handler: Handler,
    limits: Limits,
    ahead: Prefetch | None = None,
) -> Step:
    """Handle the next units of a partition, and commit.

    ahead: what whoever steps again and again keeps from one step to the next.
    Before: `conn` is outside a transaction. After: likewise, or closed if the handler ruined it.
    Again: safe at any time; whether a COMMIT without an answer happened, the offset tells.
    Raises HoleError (the log is damaged), psycopg's transient errors, and, under onFailure block,
    BlockedError: nothing else of the handler.
    Bound: a failing unit costs at most one more call for itself and for each unit before it.
    """
    ahead = ahead or Prefetch()
    turn = Turn(conn=conn, assignment=assignment, handler=handler, limits=limits, ahead=ahead)
    # Not retried inside an except block: its error would stand in every later one's traceback.
    outcome = _fast(turn, limits.batch_size)
    while isinstance(outcome, Retry):
        outcome = _again(turn, outcome)
    return outcome


def step_alone(
    conn: Connection[Any], assignment: Assignment, handler: Handler, limits: Limits
) -> Step:
    """Handle one unit, its attempt written down before: finds a unit that kills its worker (I8)."""
    limits = replace(limits, batch_size=1, group_by="transaction")
    with contextlib.suppress(psycopg.Rollback), transaction(conn):
        peek = claim(conn, assignment, 1)
        if peek.outcome == "claimed":
            raise psycopg.Rollback
    if peek.outcome != "claimed":
        return Step(outcome=peek.outcome)
    hit("alone.peeked")
    attempts = record_attempt(conn, assignment)
    if attempts is None:
        return Step(outcome="fenced")
    turn = Turn(conn=conn, assignment=assignment, handler=handler, limits=limits)
    hit("alone.recorded")
    if attempts > turn.policy.crashes_max and turn.policy.on_failure != "block":
        failure = Failure(
            error=crash_reason(attempts - 1, limits.former_end), attempts=attempts - 1
        )
        return bury(turn, peek.spans[0], failure, verdict=Verdict(state="dead"))
    try:
        return step(conn, assignment, handler, limits)
    except Exception:
        with contextlib.suppress(psycopg.Error):  # without connection it counts as a death
            forget_attempt(conn, assignment)
        hit("alone.forgotten")
        raise


def _again(turn: Turn, retry: Retry) -> Step | Retry:
    if retry.hopeless is not None:
        return bury(turn, retry.spans[0], Failure(error=retry.hopeless))
    if retry.failed is None and len(retry.spans) > turn.limits.units_per_commit:
        # Which of many failed is not known: try half of them, all at once.
        first, last = offsets(retry.spans[: len(retry.spans) // 2])
        return _fast(turn, last - first + 1)
    return careful(turn, retry)


def _fast(turn: Turn, batch_size: int) -> Step | Retry:
    spans = NOTHING
    failed: int | None = None
    parked: Mapping[str, int] = NONE
    handled = False
    try:
        with transaction(turn.conn, kept=True):
            claimed = claim(turn.conn, turn.assignment, batch_size, turn.ahead)
            if claimed.outcome != "claimed":
                return Step(outcome=claimed.outcome)
            hit("step.claimed")
            spans, units = load_units(
                turn.conn, turn.assignment.partition, claimed, turn.limits, turn.ahead
            )
            hit("step.fetched")
            sieve = sieve_for(turn, spans)
            if turn.handler.batch:
                _call_batch(turn, sieve, units)
            else:
                numbered = enumerate(units) if sieve is None else sieve.numbered(units)
                for failed, unit in numbered:  # noqa: B007 - read when one raised
                    call(turn.handler, unit, turn.conn)
            failed = None
            hit("step.handled")
            handled = True
            parked = settle(sieve)
            finish(turn, claimed)
    except (UnitFailedError, TransactionBrokenError):
        return Retry(spans=spans, failed=failed)
    except psycopg.Error as error:
        # Once handled, what fails is our own check or the COMMIT, for something a handler did.
        if not handled or is_transient(error):
            raise
        return Retry(spans=spans)
    hit("step.committed")
    return Step.after(spans, parked)


def _call_batch(turn: Turn, sieve: Sieve | None, units: Iterator[Unit]) -> None:
    batch = Batch(units if sieve is None else (unit for _, unit in sieve.numbered(units)))
    if batch:
        call(turn.handler, batch, turn.conn)
