"""The step: one turn of the processing cycle, for any driver of it (worker, Spark task, test).

Fast path: claim a range, call the handler for each unit, commit; effects and offset are one commit
(I6). When that fails, everything is rolled back, and the range is tried again with care.

Errors of the environment (db.connect.is_transient) leave the step unchanged: nothing was committed,
call it again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

import psycopg

from gapless.consume.aside.parking import Parking, parking_for, settle_parking
from gapless.consume.batch import Batch
from gapless.consume.isolate import give_up, isolate
from gapless.consume.job import Done, Job, Redo, Step
from gapless.consume.read.backlog import Backlog
from gapless.consume.read.claim import Claim, Wanted
from gapless.consume.read.place import forget_attempt, record_attempt
from gapless.consume.read.units import with_settings_checked
from gapless.consume.session import (
    TransactionBrokenError,
    allow_commit,
    commit_and_begin,
    transaction,
)
from gapless.consume.unit import Unit
from gapless.consume.user.call import call, call_each
from gapless.consume.user.chain import adapt
from gapless.consume.verdict.failure import Failure, UnitFailedError, crash_reason
from gapless.consume.verdict.policy import Verdict
from gapless.db.connect import is_passing
from gapless.errors import HoleError
from gapless.failpoints import hit

__all__ = ["Step", "step", "step_alone"]


def step(
    job: Job, *, batch_size: int | None = None, continue_while: Callable[[], bool] = lambda: False
) -> Step:
    """Handle the next units of a partition, and commit.

    batch_size: events to claim, by default as in the terms. continue_while: asked after each batch;
    while it is true, and units are read ahead (`job.backlog`), the next batch follows, with a
    commit for each.
    Before: `conn` is outside a transaction. After: likewise, or closed if the handler ruined it.
    Again: safe at any time; the offset shows whether a COMMIT without an answer happened.
    Raises HoleError (the log is damaged at the group's place), psycopg's transient errors, and,
    under onFailure block, BlockedError: no other error of the handler.
    Bound: a failing unit costs at most one more call for itself and for each unit before it.
    """
    try:
        return _step(job, batch_size or job.terms.batch_size, continue_while)
    except HoleError as error:
        if not error.whole:
            raise
        whole = error.whole
    # The units before a hole are handled; the next step stops at the hole itself.
    job.backlog.forget()
    return _step(job, whole, lambda: False)


def _step(job: Job, batch_size: int, continue_while: Callable[[], bool]) -> Step:
    # Not retried inside an except block: its error would be in the traceback of every later one.
    outcome = _fast(job, batch_size, continue_while)
    done = outcome.done if isinstance(outcome, Redo) else ()
    while isinstance(outcome, Redo):
        if outcome.learned:
            outcome = _fast(job, len(outcome.spans.wanted))
        elif outcome.hopeless is not None:
            outcome = give_up(job, outcome.spans, Failure(error=outcome.hopeless))
        elif outcome.failed is None and len(outcome.spans) > job.units_per_commit:
            # It is unknown which of many failed: try half of them, all at once.
            outcome = _fast(job, len(outcome.spans[: len(outcome.spans) // 2].wanted))
        else:
            outcome = isolate(job, outcome)
    return _all_of(done).followed_by(outcome) if done else outcome


def step_alone(job: Job) -> Step:
    """Handle one unit, and record its attempt first: finds a unit that kills its worker (I8)."""
    conn, assignment = job.conn, job.assignment
    job = replace(job, backlog=Backlog())  # units that were read ahead are claimed by batches
    with contextlib.suppress(psycopg.Rollback), transaction(conn):
        peek = job.backlog.ask(conn, assignment, Wanted(1, group_by=job.terms.group_by))
        if peek.outcome == "claimed":
            raise psycopg.Rollback
    if peek.outcome != "claimed":
        return Step(outcome=peek.outcome)
    if not peek.spans:  # the filter passes all of it
        return step(job, batch_size=1)
    hit("alone.peeked")
    attempts = record_attempt(conn, assignment)
    if attempts is None:
        return Step(outcome="fenced")
    hit("alone.recorded")
    if job.terms.policy.gives_up(attempts - 1):
        failure = Failure(error=crash_reason(attempts - 1, job.former_end), attempts=attempts - 1)
        return give_up(job, peek.spans[:1], failure, verdict=Verdict(state="dead"))
    try:
        return step(job, batch_size=1)
    except Exception:
        with contextlib.suppress(psycopg.Error):  # without a connection it counts as a death
            forget_attempt(conn, assignment)
        hit("alone.forgotten")
        raise


def _fast(
    job: Job, batch_size: int, continue_while: Callable[[], bool] = lambda: False
) -> Step | Redo:
    """Handle a batch, and batches read ahead while `continue_while` holds, a commit for each."""
    conn, backlog = job.conn, job.backlog
    batch_size = 1 if job.handler.habits.defers else batch_size
    committed: list[Done] = []
    handled: Done | None = None  # the last one; its COMMIT is next, unless it is committed
    claimed = Claim(outcome="idle")
    try:
        with transaction(conn, kept=True):
            claimed, units = backlog.claim(conn, job.assignment, job.terms, batch_size)
            if claimed.outcome != "claimed":
                return Step(outcome=claimed.outcome)
            handled = _handle(job, claimed, units)
            while backlog.units and continue_while():
                # COMMIT, BEGIN and the next claim are one round trip.
                commit_and_begin(conn, partial(committed.append, handled))
                following = backlog.claim_read(conn, job.assignment, batch_size)
                if following is None:  # the next step finds the reason; these batches count
                    return _all_of(committed)
                hit("step.next")
                claimed, units = following
                handled = _handle(job, claimed, units)
    except (UnitFailedError, TransactionBrokenError) as error:
        return _retry(job, claimed, error, committed)
    except psycopg.Error as error:
        if handled is None or handled in committed:
            raise
        # Our own check or the COMMIT failed, and a handler caused it.
        retry = _retry(job, claimed, error, committed)
        if is_passing(error) and not retry.learned:
            raise
        return retry
    hit("step.committed")
    return _all_of([*committed, handled])


def _handle(job: Job, claimed: Claim, units: Iterable[Unit]) -> Done:
    """Call the handler with each unit, and allow the COMMIT, which is next."""
    hit("step.fetched")
    handler, spans = job.handler, claimed.spans
    parking = parking_for(job, spans) if job.parks else None
    if handler.batch:
        _call_batch(job, parking, units)
    else:
        numbered = enumerate(units) if parking is None else parking.numbered(units)
        if claimed.rows is None:  # some are read between the calls
            numbered = with_settings_checked(handler, numbered)
        call_each(handler, numbered, job.conn)
    hit("step.handled")
    parked = settle_parking(parking).get("parked", 0) if parking is not None else 0
    allow_commit(job.conn, claimed.claim_xid, 1 if handler.batch else len(spans.ends))
    return spans, parked


def _all_of(batches: Sequence[Done]) -> Step:
    """Return the result of batches that were committed, one after the other."""
    if not batches:
        return Step(outcome="idle")
    units = sum(len(spans.ends) for spans, _ in batches)
    parked = sum(parked for _, parked in batches)
    last = batches[-1][0]
    return Step(
        outcome="done",
        events=sum(len(spans.wanted) for spans, _ in batches),
        units=units,
        parked=parked,
        handled=units - parked,
        next_offset=last.first_offset + len(last.ids),
    )


def _retry(job: Job, claimed: Claim, error: Exception, committed: Sequence[Done]) -> Redo:
    """Return the units to be tried again, and the batches committed before them.

    Raises the error when no handler was called: a filter passed all of the claim.
    """
    if not claimed.spans.ends:
        raise error
    redo = Redo(spans=claimed.spans, rows=claimed.rows, done=committed)
    if isinstance(error, UnitFailedError):
        return replace(redo, failed=error.at)
    return replace(redo, learned=adapt(job.handler, error))


def _call_batch(job: Job, parking: Parking | None, units: Iterable[Unit]) -> None:
    batch = Batch(units if parking is None else (unit for _, unit in parking.numbered(units)))
    if batch:
        call(job.handler, batch, job.conn)
