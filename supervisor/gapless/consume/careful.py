"""The careful path of a step: find the failing units, set them aside, keep the others (I9).

Each unit runs under a savepoint, and deferred constraints are checked before it is released; a unit
that fails is rolled back alone, and the policy says what becomes of it. At most `units_per_commit`
savepoints are in one commit. The units before the first failure ran well a moment ago: they run
again without savepoints. So one failure costs few calls, and many in a row one each.

Whatever cannot be told apart by a savepoint (the handler ended the transaction; COMMIT failed) is
tried again with fewer units, and in the end with one, whose failure is then certain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from time import perf_counter

import psycopg

from gapless.consume.call import UnitFailedError, call, require_transaction
from gapless.consume.chain import learn
from gapless.consume.claim import Claim, Wanted, claim
from gapless.consume.letters import Failure, set_aside
from gapless.consume.policy import Verdict
from gapless.consume.reader import read_units, under_settings, wary
from gapless.consume.session import (
    TransactionBrokenError,
    allow_commit,
    run,
    settings_before,
    transaction,
)
from gapless.consume.sieve import Sieve, settle
from gapless.consume.turn import Retry, Step, Turn, offsets
from gapless.consume.unit import Batch, Span, Spans, Unit
from gapless.consume.wish import Retry as AskedToRetry
from gapless.db.connect import is_passing
from gapless.failpoints import hit

SAVEPOINT = "gapless_unit"


class _BlockedHereError(Exception):
    """Under onFailure block: this unit failed, and must not be passed."""

    def __init__(self, error: BaseException | str) -> None:
        super().__init__(error)
        self.error = error


def careful(turn: Turn, retry: Retry) -> Step | Retry:
    """Handle the first units of `retry.spans`, up to `units_per_commit` from the failing one on.

    Raises BlockedError when the first of them failed, and the policy is to block.
    """
    good = retry.failed or 0
    chosen = retry.spans[: good + turn.units_per_commit]
    at: int | None = None
    aside: Counter[str] = Counter()
    handled = False
    try:
        with suppress(psycopg.Rollback), transaction(turn.conn):
            claimed = _claim_again(turn, chosen)
            if claimed is None:
                return Step(outcome="fenced")
            hit("careful.claimed")
            sieve = Sieve.load(turn, chosen) if turn.parks else None
            units = wary(
                turn.handler,
                read_units(turn.conn, turn.assignment.partition, chosen, turn.terms),
            )
            _together(turn, sieve, islice(units, good))
            for at, unit in enumerate(units, good):  # noqa: B007 - read when one raised
                _handle(turn, sieve, unit, aside)
            at = None
            handled = True
            aside.update(settle(sieve))
            allow_commit(turn.conn, claimed.claim_xid, len(chosen))
    except (UnitFailedError, TransactionBrokenError) as error:
        if learn(turn.handler, error):
            return Retry(spans=chosen, learned=True)
        return _fewer(chosen, good if at is None else at, error)
    except _BlockedHereError as blocked:
        return _block(turn, chosen, at or 0, blocked.error)
    except psycopg.Error as error:
        if not handled or is_passing(error):
            raise
        return _fewer(chosen, len(chosen) // 2, error)
    hit("careful.committed")
    return Step.after(chosen, aside) if handled else Step(outcome="idle")


def bury(turn: Turn, span: Span, failure: Failure, *, verdict: Verdict | None = None) -> Step:
    """Pass the next unit without calling its handler, as the policy says of it, or `verdict`.

    Raises BlockedError when it is not to be passed.
    """
    aside: Counter[str] = Counter()
    spans = Spans.of(span)
    if verdict is None:
        assert isinstance(failure.error, BaseException)
        verdict = turn.judge(failure.error, failure.attempts)
    if verdict.state == "block":
        raise turn.blocked(span.first_offset, failure.error)
    with suppress(psycopg.Rollback), transaction(turn.conn):
        claimed = _claim_again(turn, spans)
        if claimed is None:
            return Step(outcome="fenced")
        hit("bury.claimed")
        _put(turn, span, failure, verdict, aside)
        hit("bury.lettered")
        allow_commit(turn.conn, claimed.claim_xid, 1)
        return Step.after(spans, aside)
    return Step(outcome="idle")


def _handle(turn: Turn, sieve: Sieve | None, unit: Unit, aside: Counter[str]) -> None:
    """Handle a unit under a savepoint, or park it; when it fails, do as the policy says."""
    if sieve is not None and sieve.parks(unit):
        return
    began = perf_counter()
    error = _alone(turn, unit)
    hit("careful.tried")
    if error is None:
        return
    failure = Failure(error=error, duration_ms=(perf_counter() - began) * 1000)
    verdict = turn.judge(error, failure.attempts)
    if verdict.state == "block":
        raise _BlockedHereError(error)
    _put(turn, unit.span, failure, verdict, aside)
    hit("careful.lettered")
    if sieve is not None and verdict.state != "skip":
        sieve.hold(unit.first_offset)


def _put(turn: Turn, span: Span, failure: Failure, verdict: Verdict, aside: Counter[str]) -> None:
    if verdict.state == "skip":
        return
    set_aside(turn.conn, turn.assignment.partition, span, failure, turn.fate(verdict))
    aside[verdict.state] += 1
    aside["asked"] += isinstance(failure.error, AskedToRetry)


def _block(turn: Turn, spans: Spans, at: int, error: BaseException | str) -> Retry:
    """Pass the units in front of the one that blocks; with none left, tell the driver."""
    if at == 0:
        raise turn.blocked(spans[0].first_offset, error) from None
    return Retry(spans=spans[:at])


def _claim_again(turn: Turn, spans: Spans) -> Claim | None:
    """Claim exactly these units; None when fenced.

    Leaves the transaction by psycopg.Rollback when somebody moved the group's offset meanwhile.
    """
    first, last = offsets(spans)
    claimed = claim(turn.conn, turn.assignment, Wanted(last - first + 1))
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


def _together(turn: Turn, sieve: Sieve | None, units: Iterable[Unit]) -> None:
    """Handle units that ran well a moment ago. Raises UnitFailedError when they do not now."""
    some = 0
    for some, unit in enumerate(wary(turn.handler, _unparked(sieve, units)), 1):  # noqa: B007
        call(turn.handler, unit, turn.conn)
    if not some:
        return
    try:
        _check(turn)
    except psycopg.Error as error:
        if is_passing(error):
            raise
        raise UnitFailedError(error) from error


def _unparked(sieve: Sieve | None, units: Iterable[Unit]) -> Iterator[Unit]:
    """Yield the units that are not to be parked."""
    return (unit for unit in units if sieve is None or not sieve.parks(unit))


def _check(turn: Turn) -> None:
    """Refuse now what COMMIT would refuse. Raises what the handler broke, or ChangedError."""
    with under_settings(turn.handler):
        run(turn.conn, "check_unit", {"settings": settings_before(turn.conn)})


def _alone(turn: Turn, unit: Unit) -> BaseException | None:
    """Handle a unit under a savepoint; return what made it fail, with nothing of it left."""
    try:
        with turn.conn.transaction(savepoint_name=SAVEPOINT):
            call(turn.handler, Batch([unit]) if turn.handler.batch else unit, turn.conn)
            _check(turn)
    except UnitFailedError as failure:
        require_transaction(turn.conn, failure.error)
        return failure.error
    except psycopg.Error as error:
        if is_passing(error):
            raise
        require_transaction(turn.conn, error)
        return error
    return None
