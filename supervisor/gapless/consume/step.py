"""The step: one turn of the processing cycle, for whoever drives it (worker, Spark task, test).

Fast path: claim a range, call the handler for each unit, commit; effects and offset are one commit
(I6). When a unit fails, everything is rolled back and the range is claimed again carefully: each
unit under a savepoint, deferred constraints checked before it is released, failing units into the
dead letter queue (I9), at most UNITS_PER_COMMIT savepoints in a commit. The units before the first
failure are known to be good and share one savepoint, so a failure costs few handler calls.

Errors that are the environment's (db.connect.is_transient) leave the step as they are: nothing was
committed, call it again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import psycopg
from psycopg import Connection
from psycopg.pq import TransactionStatus

from gapless.consume.claim import Claim, claim, forget_attempt, record_attempt
from gapless.consume.handler import GroupBy, Handler
from gapless.consume.letters import dead_letter
from gapless.consume.reader import load_units
from gapless.consume.unit import Batch, Span, Unit
from gapless.db.connect import is_transient
from gapless.db.queries import query
from gapless.failpoints import hit
from gapless.keys import Assignment

UNITS_PER_COMMIT = 64  # PostgreSQL keeps so many subtransactions of a transaction in shared memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much one step may take. A unit is never cut, whatever these say.

    stream_above_events: a unit with more is read in slices while the handler iterates over it.
    attempts_max: after so many deaths of a worker at one unit, it is dead-lettered unseen.
    """

    batch_size: int = 100
    group_by: GroupBy = "transaction"
    stream_above_events: int = 10_000
    attempts_max: int = 3
    units_per_commit: int = UNITS_PER_COMMIT


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What a step did: `events` and `units` left behind (dead ones included), `dead` units."""

    outcome: Literal["done", "idle", "fenced"]
    events: int = 0
    units: int = 0
    dead: int = 0
    next_offset: int = 0


class UnitFailedError(Exception):
    """The handler refused a unit; `index` tells which of the claim, if it is known."""

    def __init__(self, index: int | None, error: BaseException) -> None:
        super().__init__(index, error)
        self.index = index
        self.error = error


class TransactionBrokenError(Exception):
    """The handler ended the transaction it was given, or left it aborted."""


@dataclass(frozen=True, slots=True)
class _Turn:
    conn: Connection[Any]
    assignment: Assignment
    handler: Handler
    limits: Limits


def step(conn: Connection[Any], assignment: Assignment, handler: Handler, limits: Limits) -> Step:
    """Handle the next units of a partition, and commit.

    Before: `conn` is in autocommit, outside a transaction. After: likewise.
    Again: safe at any time; a step whose COMMIT got no answer is decided by the offset in the table.
    Raises HoleError (the log is damaged), psycopg errors that are transient, nothing of the handler.
    """
    turn = _Turn(conn, assignment, handler, limits)
    try:
        return _fast(turn)
    except _RangeFailedError as failure:
        return _careful(turn, failure.spans, failure.index)


def step_alone(
    conn: Connection[Any], assignment: Assignment, handler: Handler, limits: Limits
) -> Step:
    """Handle one unit, its attempt written down before: finds a unit that kills its worker (I8)."""
    turn = _Turn(conn, assignment, handler, replace(limits, batch_size=1, group_by="transaction"))
    with conn.transaction(force_rollback=True):
        peek = claim(conn, assignment, 1)
    if peek.outcome != "claimed":
        return Step(outcome=peek.outcome)
    attempts = record_attempt(conn, assignment)
    if attempts is None:
        return Step(outcome="fenced")
    if attempts > limits.attempts_max:
        reason = f"its worker died {attempts - 1} times while handling it"
        return _bury(turn, peek.spans[0], reason, attempts - 1)
    try:
        return step(conn, assignment, handler, turn.limits)
    except Exception:
        with contextlib.suppress(psycopg.Error):  # without connection it counts as a death
            forget_attempt(conn, assignment)
        raise


class _RangeFailedError(Exception):
    def __init__(self, spans: Sequence[Span], index: int | None) -> None:
        super().__init__(index)
        self.spans = spans
        self.index = index


def _fast(turn: _Turn) -> Step:
    spans: Sequence[Span] = ()
    finished = False
    try:
        with turn.conn.transaction():
            claimed = claim(turn.conn, turn.assignment, turn.limits.batch_size)
            if claimed.outcome != "claimed":
                return Step(outcome=claimed.outcome)
            hit("step.claimed")
            spans, units = load_units(turn.conn, turn.assignment.partition, claimed, turn.limits)
            hit("step.fetched")
            if turn.handler.batch:
                _call(turn, Batch(units), None)
            else:
                for index, unit in enumerate(units):
                    _call(turn, unit, index)
            hit("step.handled")
            _finish(turn, claimed)
            finished = True
    except UnitFailedError as failure:
        raise _RangeFailedError(spans, failure.index) from failure.error
    except psycopg.Error as error:
        # After finish only COMMIT can fail: a deferred constraint. Which unit broke it is not known.
        if not finished or is_transient(error):
            raise
        raise _RangeFailedError(spans, None) from error
    hit("step.committed")
    return _done(claimed, len(spans), 0)


def _careful(turn: _Turn, spans: Sequence[Span], failed: int | None) -> Step:
    """Handle the range again, up to UNITS_PER_COMMIT units from the failing one on."""
    alone = max(turn.limits.units_per_commit - 1, 1)  # one more savepoint is for the good ones
    good = failed or 0
    chosen = spans[: good + alone]
    size = chosen[-1].last_offset - chosen[0].first_offset + 1
    dead = 0
    finished = False
    try:
        with turn.conn.transaction():
            claimed = claim(turn.conn, turn.assignment, size)
            if claimed.outcome != "claimed":
                return Step(outcome=claimed.outcome)
            _, units = load_units(
                turn.conn, turn.assignment.partition, claimed, replace(turn.limits, batch_size=size)
            )
            batch = list(units)
            if good and _try(turn, batch[:good]) is not None:
                raise UnitFailedError(None, RuntimeError("it had succeeded before"))
            for unit in batch[good:]:
                error = _try(turn, [unit])
                if error is not None:
                    dead_letter(turn.conn, turn.assignment.partition, unit.span, error)
                    dead += 1
            _finish(turn, claimed)
            finished = True
    except (UnitFailedError, TransactionBrokenError) as error:
        return _smaller(turn, chosen, error)
    except psycopg.Error as error:
        if not finished or is_transient(error):
            raise
        return _smaller(turn, chosen, error)
    return _done(claimed, len(batch), dead)


def _smaller(turn: _Turn, spans: Sequence[Span], error: BaseException) -> Step:
    """Go on with less: the first half, and in the end with one unit, whose failure is then certain."""
    if len(spans) == 1:
        return _bury(turn, spans[0], error.__cause__ or error, 1)
    return _careful(turn, spans[: len(spans) // 2], None)


def _bury(turn: _Turn, span: Span, error: BaseException | str, attempts: int) -> Step:
    """Dead-letter the next unit without calling its handler."""
    with turn.conn.transaction():
        claimed = claim(turn.conn, turn.assignment, len(span.ids))
        if claimed.outcome != "claimed":
            return Step(outcome=claimed.outcome)
        for each in claimed.spans:
            dead_letter(turn.conn, turn.assignment.partition, each, error, attempts)
        _finish(turn, claimed)
    return _done(claimed, len(claimed.spans), len(claimed.spans))


def _try(turn: _Turn, units: Sequence[Unit]) -> BaseException | None:
    """Handle units under one savepoint; return what made them fail, with nothing of them left."""
    try:
        with turn.conn.transaction():
            for unit in units:
                _call(turn, Batch([unit]) if turn.handler.batch else unit, None)
            turn.conn.execute(query("consume", "check_constraints"))
    except UnitFailedError as failure:
        _require_transaction(turn.conn, failure.error)
        return failure.error
    except psycopg.Error as error:
        if is_transient(error):
            raise
        _require_transaction(turn.conn, error)
        return error
    return None


def _call(turn: _Turn, work: Unit | Batch, index: int | None) -> None:
    """Call the handler. Raises UnitFailedError for its errors, transient ones as they are."""
    try:
        turn.handler(work, turn.conn)
    except (Exception, SystemExit) as error:
        if turn.conn.broken or turn.conn.closed or is_transient(error):
            raise
        raise UnitFailedError(index, error) from error
    status = turn.conn.info.transaction_status
    if status == TransactionStatus.INERROR:
        problem = (
            "the handler caught a database error and went on: use conn.transaction() around it"
        )
        raise UnitFailedError(index, TransactionBrokenError(problem))
    if status != TransactionStatus.INTRANS:
        problem = "the handler ended the transaction it was given: it must not COMMIT or ROLLBACK"
        raise UnitFailedError(index, TransactionBrokenError(problem))


def _require_transaction(conn: Connection[Any], error: BaseException) -> None:
    if conn.info.transaction_status != TransactionStatus.INTRANS:
        raise TransactionBrokenError("the handler ended the transaction it was given") from error


def _finish(turn: _Turn, claimed: Claim) -> None:
    row = turn.conn.execute(query("consume", "finish"), {"claim_xid": claimed.claim_xid}).fetchone()
    if row is None or not row[0]:
        problem = (
            "the handler replaced the transaction it was given: it must not COMMIT or ROLLBACK"
        )
        raise UnitFailedError(None, TransactionBrokenError(problem))
    hit("step.finished")


def _done(claimed: Claim, units: int, dead: int) -> Step:
    return Step(
        outcome="done",
        events=claimed.last_offset - claimed.first_offset + 1,
        units=units,
        dead=dead,
        next_offset=claimed.last_offset + 1,
    )
