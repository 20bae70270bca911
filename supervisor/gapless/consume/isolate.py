"""The isolate path of a step: find the failing units, set them aside, keep the others (I9).

Each unit runs under a savepoint, and deferred constraints are checked before it is released; a unit
that fails is rolled back alone, and treated by the policy. At most `units_per_commit` savepoints
are in one commit. The units before the first failure ran well a moment ago: they run again without
savepoints. So one failure costs few calls, and many in a row cost one each.

Failures that a savepoint cannot attribute to a unit (the handler ended the transaction; COMMIT
failed) are tried again with fewer units, and in the end with one, whose failure is then certain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from time import perf_counter

import psycopg

from gapless.consume.aside.letters import set_aside
from gapless.consume.aside.parking import Parking, settle_parking
from gapless.consume.batch import Batch
from gapless.consume.job import NONE, Job, Redo, Step
from gapless.consume.read.claim import Claim, Wanted
from gapless.consume.read.units import checked_units, with_settings_checked
from gapless.consume.session import (
    TransactionBrokenError,
    allow_commit,
    require_good_unit,
    transaction,
)
from gapless.consume.unit import Span, Unit, UnitRanges
from gapless.consume.user.call import call, call_each, require_transaction
from gapless.consume.user.chain import adapt
from gapless.consume.verdict.failure import Failure, UnitFailedError
from gapless.consume.verdict.policy import Verdict
from gapless.consume.verdict.wish import Retry
from gapless.db.connect import is_passing
from gapless.failpoints import hit

SAVEPOINT = "gapless_unit"


class BlockedHereError(Exception):
    """Under onFailure block: this unit failed, and must not be passed."""

    def __init__(self, error: BaseException | str) -> None:
        super().__init__(error)
        self.error = error


def isolate(job: Job, retry: Redo) -> Step | Redo:
    """Handle the first units of `retry.spans`, up to `units_per_commit` from the failing one on.

    Raises BlockedError when the first of them failed, and the policy is to block.
    """
    good = retry.failed or 0
    chosen = retry.spans[: good + job.units_per_commit]
    at: int | None = None
    aside: Counter[str] = Counter()
    handled = False
    try:
        with suppress(psycopg.Rollback), transaction(job.conn):
            claimed = _claim_again(job, chosen)
            if claimed is None:
                return Step(outcome="fenced")
            hit("isolate.claimed")
            parking = Parking.load(job, chosen) if job.parks else None
            partition = job.assignment.partition
            units = iter(checked_units(job.handler, job.conn, partition, chosen, job.terms))
            _together(job, parking, islice(units, good), good)
            for at, unit in enumerate(units, good):  # noqa: B007 - read when one raised
                handle_alone(job, parking, unit, aside)
            at = None
            handled = True
            aside.update(NONE if parking is None else settle_parking(parking))
            allow_commit(job.conn, claimed.claim_xid, len(chosen.ends))
    except (UnitFailedError, TransactionBrokenError) as error:
        if adapt(job.handler, error):
            return Redo(spans=chosen, learned=True)
        return _fewer(chosen, good if at is None else at, error)
    except BlockedHereError as blocked:
        return _block(job, chosen, at or 0, blocked.error)
    except psycopg.Error as error:
        if not handled or is_passing(error):
            raise
        return _fewer(chosen, len(chosen) // 2, error)
    hit("isolate.committed")
    return Step.after(chosen, aside) if handled else Step(outcome="idle")


def give_up(
    job: Job, spans: UnitRanges, failure: Failure, *, verdict: Verdict | None = None
) -> Step:
    """Pass the next unit, the only one of `spans`, without a call, by the policy or `verdict`.

    Raises BlockedError when it is not to be passed.
    """
    aside: Counter[str] = Counter()
    (span,) = spans
    if verdict is None:
        assert isinstance(failure.error, BaseException)
        verdict = job.judge(failure.error, failure.attempts, span.first_offset)
    if verdict.state == "block":
        raise job.blocked(span.first_offset, failure.error)
    with suppress(psycopg.Rollback), transaction(job.conn):
        claimed = _claim_again(job, spans)
        if claimed is None:
            return Step(outcome="fenced")
        hit("give_up.claimed")
        put_aside(job, span, failure, verdict, aside)
        hit("give_up.lettered")
        allow_commit(job.conn, claimed.claim_xid, 1)
        return Step.after(spans, aside)
    return Step(outcome="idle")


def handle_alone(job: Job, parking: Parking | None, unit: Unit, aside: Counter[str]) -> None:
    """Handle a unit under a savepoint, or park it; if it fails, apply the policy."""
    if parking is not None and parking.parks(unit):
        return
    began = perf_counter()
    error = _alone(job, unit)
    hit("isolate.tried")
    if error is None:
        return
    failure = Failure(error=error, duration_ms=(perf_counter() - began) * 1000)
    verdict = job.judge(error, failure.attempts, unit.first_offset)
    if verdict.state == "block":
        raise BlockedHereError(error)
    put_aside(job, unit.span, failure, verdict, aside, parking)
    hit("isolate.lettered")


def put_aside(
    job: Job,
    span: Span,
    failure: Failure,
    verdict: Verdict,
    aside: Counter[str],
    parking: Parking | None = None,
) -> None:
    """Set a unit aside by the verdict, in the open transaction, and count it.

    parking: gets its keys, to hold them.
    """
    if verdict.state == "skip":
        return
    set_aside(job.conn, job.assignment.partition, span, failure, job.fate(verdict))
    aside[verdict.state] += 1
    aside["asked"] += isinstance(failure.error, Retry)
    if parking is not None:
        parking.hold(span.first_offset)


def _block(job: Job, spans: UnitRanges, at: int, error: BaseException | str) -> Redo:
    """Pass the units before the one that blocks; if there are none, raise BlockedError."""
    if at == 0:
        raise job.blocked(spans[0].first_offset, error) from None
    return Redo(spans=spans[:at])


def _claim_again(job: Job, spans: UnitRanges) -> Claim | None:
    """Claim exactly these units; None when fenced.

    Leaves the transaction by psycopg.Rollback when the group's offset was moved in the meantime.
    """
    first, events = spans.first_offset, len(spans.ids)
    claimed = job.backlog.ask(job.conn, job.assignment, Wanted(events, exactly=True))
    if claimed.outcome == "fenced":
        return None
    if (claimed.first_offset, claimed.last_offset) != (first, first + events - 1):
        raise psycopg.Rollback
    if not claimed.spans.is_like(spans):  # the filter has changed since they were claimed
        raise psycopg.Rollback
    return claimed


def _fewer(spans: UnitRanges, count: int, error: BaseException) -> Redo:
    """Continue with the first `count` units; a single unit that failed is hopeless."""
    if len(spans) == 1:
        reason = error.error if isinstance(error, UnitFailedError) else error
        return Redo(spans=spans, hopeless=reason)
    return Redo(spans=spans[: max(count, 1)])


def _together(job: Job, parking: Parking | None, units: Iterable[Unit], count: int) -> None:
    """Handle units that ran well a moment ago. Raises UnitFailedError when they do not now."""
    if not count:
        return
    numbered: Iterable[tuple[int, Unit]] = enumerate(units)
    if parking is not None:
        numbered = with_settings_checked(job.handler, parking.numbered(units))
    call_each(job.handler, numbered, job.conn)
    try:
        require_good_unit(job.conn, sets=job.handler.habits.sets)
    except psycopg.Error as error:
        if is_passing(error):
            raise
        raise UnitFailedError(error) from error


def _alone(job: Job, unit: Unit) -> BaseException | None:
    """Handle a unit under a savepoint; return the error that undid it, or None."""
    try:
        with job.conn.transaction(savepoint_name=SAVEPOINT):
            call(job.handler, Batch([unit]) if job.handler.batch else unit, job.conn)
            require_good_unit(job.conn, sets=job.handler.habits.sets)
    except UnitFailedError as failure:
        require_transaction(job.conn, failure.error)
        return failure.error
    except psycopg.Error as error:
        if is_passing(error):
            raise
        require_transaction(job.conn, error)
        return error
    return None
