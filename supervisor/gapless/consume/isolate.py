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
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import islice

import psycopg

from gapless.consume.aside.parking import Parking, settle_parking
from gapless.consume.aside.record import set_aside
from gapless.consume.job import NONE, Job, Redo, Step
from gapless.consume.read.units import FETCH_EVENTS, read_units, with_settings_checked
from gapless.consume.session import (
    TransactionBrokenError,
    allow_commit,
    require_good_unit,
    transaction,
)
from gapless.consume.unit import Source, Span, Unit, UnitRanges
from gapless.consume.user.call import call_apart, call_each
from gapless.consume.user.chain import adapt
from gapless.consume.verdict.failure import Failure, UnitFailedError
from gapless.consume.verdict.policy import Verdict
from gapless.consume.verdict.wish import Retry
from gapless.db.connect import is_passing
from gapless.failpoints import hit
from gapless.log.event import Row
from gapless.log.read import fetch

Numbering = Callable[[Iterable[Unit], int], Iterable[tuple[int, Unit]]]
"""Gives the units to be called their numbers, from a first one on."""


class BlockedHereError(Exception):
    """Under onFailure block: the unit with the number `at` failed, and must not be passed."""

    def __init__(self, error: BaseException, at: int) -> None:
        super().__init__(error)
        self.error = error
        self.at = at


def isolate(job: Job, retry: Redo) -> Step | Redo:
    """Handle the first units of `retry.spans`, up to `units_per_commit` from the failing one on.

    Raises BlockedError when the first of them failed, and the policy is to block.
    """
    good = retry.failed or 0
    chosen = retry.spans[: good + job.units_per_commit]
    aside: Counter[str] = Counter()
    handled = False
    try:
        with suppress(psycopg.Rollback), transaction(job.conn):
            claimed = job.backlog.claim_again(job.conn, job.assignment, chosen)
            if claimed.outcome == "fenced":
                return Step(outcome="fenced")
            hit("isolate.claimed")
            parking = Parking.load(job, chosen) if job.parks else None
            number: Numbering = enumerate if parking is None else parking.numbered
            units = _units(job, chosen, retry.rows)
            _together(job, number(islice(units, good), 0), good)
            handle_apart(job, number(units, good), aside, parking)
            handled = True
            aside.update(NONE if parking is None else settle_parking(parking))
            allow_commit(job.conn, claimed.claim_xid, len(chosen.ends))
    except (UnitFailedError, TransactionBrokenError) as error:
        if adapt(job.handler, error):
            return Redo(spans=chosen, learned=True)
        at = error.at if isinstance(error, TransactionBrokenError) else None
        return _fewer(retry, chosen, good if at is None else at, error)
    except BlockedHereError as blocked:
        if blocked.at == 0:
            raise job.blocked(chosen[0].first_offset, blocked.error) from None
        return Redo(spans=chosen[: blocked.at], rows=retry.rows)  # those before it can be passed
    except psycopg.Error as error:
        if not handled or is_passing(error):
            raise
        return _fewer(retry, chosen, len(chosen) // 2, error)
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
        claimed = job.backlog.claim_again(job.conn, job.assignment, spans)
        if claimed.outcome == "fenced":
            return Step(outcome="fenced")
        hit("give_up.claimed")
        put_aside(job, span, failure, verdict, aside)
        hit("give_up.recorded")
        allow_commit(job.conn, claimed.claim_xid, 1)
        return Step.after(spans, aside)
    return Step(outcome="idle")


def handle_apart(
    job: Job,
    numbered: Iterable[tuple[int, Unit]],
    aside: Counter[str],
    parking: Parking | None = None,
) -> None:
    """Handle units, each under a savepoint; apply the policy to those that fail.

    Raises BlockedHereError for one that must not be passed, and the errors of call_apart().
    """
    for at, unit, failure in call_apart(job.handler, numbered, job.conn):
        assert isinstance(failure.error, BaseException)
        verdict = job.judge(failure.error, failure.attempts, unit.first_offset)
        if verdict.state == "block":
            raise BlockedHereError(failure.error, at)
        put_aside(job, unit.span, failure, verdict, aside, parking)
        hit("isolate.recorded")


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
    set_aside(job, span, failure, verdict)
    aside[verdict.state] += 1
    aside["asked"] += isinstance(failure.error, Retry)
    if parking is not None:
        parking.hold(span.first_offset)


def _units(job: Job, spans: UnitRanges, rows: list[Row] | None) -> Iterator[Unit]:
    """Return units for another call; events that are not in memory are read between the calls."""
    partition = job.assignment.partition
    if rows is None:
        units = read_units(job.conn, partition, spans, job.terms)
        return with_settings_checked(job.handler, units)
    source = Source(partition, partial(fetch, job.conn), FETCH_EVENTS)
    return iter(spans.units(source, rows[: len(spans.wanted)]))


def _together(job: Job, numbered: Iterable[tuple[int, Unit]], count: int) -> None:
    """Handle units that ran well a moment ago. Raises UnitFailedError when they do not now."""
    if not count:
        return
    call_each(job.handler, numbered, job.conn)
    try:
        require_good_unit(job.conn, sets=job.handler.habits.sets)
    except psycopg.Error as error:
        if is_passing(error):
            raise
        raise UnitFailedError(error) from error


def _fewer(retry: Redo, spans: UnitRanges, count: int, error: BaseException) -> Redo:
    """Continue with the first `count` units; a single unit that failed is hopeless."""
    if len(spans) == 1:
        reason = error.error if isinstance(error, UnitFailedError) else error
        return Redo(spans=spans, hopeless=reason)
    return Redo(spans=spans[: max(count, 1)], rows=retry.rows)
