"""The step: one turn of the processing cycle, for whoever drives it (worker, Spark task, test).

Fast path: claim a range, call the handler for each unit, commit; effects and offset are one commit
(I6). When that fails, everything is rolled back, and the range is tried again with care.

Errors that are the environment's (db.connect.is_transient) leave the step as they are: nothing was
committed, call it again.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

import psycopg
from psycopg import Connection

from gapless.consume.call import UnitFailedError, call
from gapless.consume.careful import bury, careful
from gapless.consume.claim import NOTHING, claim, forget_attempt, record_attempt
from gapless.consume.handler import Handler
from gapless.consume.reader import load_units
from gapless.consume.session import transaction
from gapless.consume.turn import UNITS_PER_COMMIT, Limits, Retry, Step, Turn, finish, offsets
from gapless.consume.unit import Batch
from gapless.db.connect import is_transient
from gapless.failpoints import hit
from gapless.keys import Assignment

__all__ = ["UNITS_PER_COMMIT", "Limits", "Step", "step", "step_alone"]


def step(conn: Connection[Any], assignment: Assignment, handler: Handler, limits: Limits) -> Step:
    """Handle the next units of a partition, and commit.

    Before: `conn` is outside a transaction. After: likewise, or closed if the handler ruined it.
    Again: safe at any time; whether a COMMIT without an answer happened, the offset tells.
    Raises HoleError (the log is damaged) and psycopg's transient errors, nothing of the handler.
    Bound: a failing unit costs at most one more call for itself and for each unit before it.
    """
    turn = Turn(conn=conn, assignment=assignment, handler=handler, limits=limits)
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
    hit("alone.recorded")
    if attempts > limits.attempts_max:
        reason = f"its worker died, or lost its session, {attempts - 1} times while handling it"
        turn = Turn(conn=conn, assignment=assignment, handler=handler, limits=limits)
        return bury(turn, peek.spans[0], reason, attempts - 1)
    try:
        return step(conn, assignment, handler, limits)
    except Exception:
        with contextlib.suppress(psycopg.Error):  # without connection it counts as a death
            forget_attempt(conn, assignment)
        hit("alone.forgotten")
        raise


def _again(turn: Turn, retry: Retry) -> Step | Retry:
    if retry.hopeless is not None:
        return bury(turn, retry.spans[0], retry.hopeless, 1)
    if retry.failed is None and len(retry.spans) > turn.limits.units_per_commit:
        # Which of many failed is not known: try half of them, all at once.
        first, last = offsets(retry.spans[: len(retry.spans) // 2])
        return _fast(turn, last - first + 1)
    return careful(turn, retry)


def _fast(turn: Turn, batch_size: int) -> Step | Retry:
    spans = NOTHING
    failed: int | None = None
    handled = False
    try:
        with transaction(turn.conn):
            claimed = claim(turn.conn, turn.assignment, batch_size)
            if claimed.outcome != "claimed":
                return Step(outcome=claimed.outcome)
            hit("step.claimed")
            spans, units = load_units(turn.conn, turn.assignment.partition, claimed, turn.limits)
            hit("step.fetched")
            if turn.handler.batch:
                call(turn.handler, Batch(units), turn.conn)
            else:
                for failed, unit in enumerate(units):  # noqa: B007 - read when one raised
                    call(turn.handler, unit, turn.conn)
            failed = None
            hit("step.handled")
            handled = True
            finish(turn, claimed)
    except UnitFailedError:
        return Retry(spans=spans, failed=failed)
    except psycopg.Error as error:
        # Once handled, what fails is our own check or the COMMIT, for something a handler did.
        if not handled or is_transient(error):
            raise
        return Retry(spans=spans)
    hit("step.committed")
    return Step.after(spans)
