"""The careful path of a step: find the failing units, dead-letter them, keep the others (I9).

Each unit runs under a savepoint, and deferred constraints are checked before it is released; a unit
that fails is rolled back alone and goes to the dead letter queue. At most `units_per_commit`
savepoints are in one commit. The units before the first failure ran well a moment ago: they run
again without savepoints. So one failure costs few calls, and many in a row one each.

Whatever cannot be told apart by a savepoint (the handler ended the transaction; COMMIT failed) is
tried again with fewer units, and in the end with one, whose failure is then certain.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import islice

import psycopg

from gapless.consume.call import TransactionBrokenError, UnitFailedError, call, require_transaction
from gapless.consume.claim import Claim, claim
from gapless.consume.letters import dead_letter
from gapless.consume.reader import read_units
from gapless.consume.session import run, transaction
from gapless.consume.turn import Retry, Step, Turn, finish, offsets
from gapless.consume.unit import Batch, Span, Spans, Unit
from gapless.db.connect import is_transient
from gapless.failpoints import hit


def careful(turn: Turn, retry: Retry) -> Step | Retry:
    """Handle the first units of `retry.spans`, up to `units_per_commit` from the failing one on."""
    good = retry.failed or 0
    chosen = retry.spans[: good + turn.limits.units_per_commit]
    at: int | None = None
    dead = 0
    handled = False
    try:
        with suppress(psycopg.Rollback), transaction(turn.conn):
            claimed = _claim_again(turn, chosen)
            if claimed is None:
                return Step(outcome="fenced")
            hit("careful.claimed")
            units = read_units(turn.conn, turn.assignment.partition, chosen, turn.limits)
            if good:
                _together(turn, islice(units, good))
            for at, unit in enumerate(units, good):  # noqa: B007 - read when one raised
                error = _alone(turn, unit)
                hit("careful.tried")
                if error is not None:
                    dead_letter(turn.conn, turn.assignment.partition, unit.span, error)
                    hit("careful.lettered")
                    dead += 1
            at = None
            handled = True
            finish(turn, claimed)
    except (UnitFailedError, TransactionBrokenError) as error:
        return _fewer(chosen, good if at is None else at, error)
    except psycopg.Error as error:
        if not handled or is_transient(error):
            raise
        return _fewer(chosen, len(chosen) // 2, error)
    hit("careful.committed")
    return Step.after(chosen, dead) if handled else Step(outcome="idle")


def bury(turn: Turn, span: Span, error: BaseException | str, attempts: int) -> Step:
    """Dead-letter the next unit without calling its handler."""
    with suppress(psycopg.Rollback), transaction(turn.conn):
        claimed = _claim_again(turn, [span])
        if claimed is None:
            return Step(outcome="fenced")
        hit("bury.claimed")
        dead_letter(turn.conn, turn.assignment.partition, span, error, attempts)
        hit("bury.lettered")
        finish(turn, claimed)
        return Step.after([span], 1)
    return Step(outcome="idle")


def _claim_again(turn: Turn, spans: Sequence[Span]) -> Claim | None:
    """Claim exactly these units; None when fenced.

    Leaves the transaction by psycopg.Rollback when somebody moved the group's offset meanwhile.
    """
    first, last = offsets(spans)
    claimed = claim(turn.conn, turn.assignment, last - first + 1)
    if claimed.outcome == "fenced":
        return None
    if (claimed.first_offset, claimed.last_offset) != (first, last):
        raise psycopg.Rollback
    return claimed


def _fewer(spans: Spans, count: int, error: BaseException) -> Retry:
    """Go on with the first `count` units; one that failed alone is hopeless."""
    if len(spans) == 1:
        reason = error.error if isinstance(error, UnitFailedError) else error
        return Retry(spans=spans, hopeless=reason)
    return Retry(spans=spans[: max(count, 1)])


def _together(turn: Turn, units: Iterable[Unit]) -> None:
    """Handle units that ran well a moment ago. Raises UnitFailedError when they do not now."""
    for unit in units:
        call(turn.handler, unit, turn.conn)
    try:
        run(turn.conn, "check_constraints", {})
    except psycopg.Error as error:
        if is_transient(error):
            raise
        raise UnitFailedError(error) from error


def _alone(turn: Turn, unit: Unit) -> BaseException | None:
    """Handle a unit under a savepoint; return what made it fail, with nothing of it left."""
    try:
        with turn.conn.transaction():
            call(turn.handler, Batch([unit]) if turn.handler.batch else unit, turn.conn)
            run(turn.conn, "check_constraints", {})
    except UnitFailedError as failure:
        require_transaction(turn.conn, failure.error)
        return failure.error
    except psycopg.Error as error:
        if is_transient(error):
            raise
        require_transaction(turn.conn, error)
        return error
    return None
