"""Handle units that were set aside: due retries, units no longer parked, and redriven ones.

One unit, one transaction, under the fence of the log (I7): it counts as handled by the same commit
as its handler's writes (I6). Each try is recorded before, so that a unit that kills its worker is
known here too (I8).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from time import perf_counter
from typing import Any, Literal, NamedTuple

import psycopg
from psycopg import Connection

from gapless import feature
from gapless.consume.aside.record import tell_death
from gapless.consume.batch import Batch
from gapless.consume.job import Job
from gapless.consume.read.claim import Seen
from gapless.consume.read.units import FETCH_EVENTS
from gapless.consume.session import (
    TransactionBrokenError,
    run,
    run_and_commit,
    run_at_commit,
    transaction,
)
from gapless.consume.unit import Fetch, Source, Unit
from gapless.consume.user.call import call, call_outside
from gapless.consume.user.chain import adapt
from gapless.consume.verdict.failure import Failure, UnitFailedError, crash_reason
from gapless.consume.verdict.policy import Verdict
from gapless.db.connect import is_passing
from gapless.db.wire import fetch_all
from gapless.errors import HoleError
from gapless.failpoints import hit
from gapless.keys import Assignment
from gapless.log.event import Row
from gapless.log.read import ROWS
from gapless.telemetry import spans

Outcome = Literal["handled", "waiting", "dead", "gone", "fenced"]


class ClaimedAside(NamedTuple):
    """The answer of gapless.claim_letter(); `failed`: the number of earlier attempts."""

    outcome: Literal["claimed", "gone", "fenced"]
    claim_xid: str
    last_offset: int
    failed: int
    was_dead: bool
    timeline: int | None
    has_subscriptions: bool = False


def retry_aside(job: Job, first_offset: int) -> Outcome:
    """Handle a unit that is due, and commit.

    "gone": it is not due any more. "waiting", "dead": it failed again.
    Again: safe at any time. Raises psycopg's transient errors; then nothing was committed.
    """
    tries = record_try(job, first_offset)
    if not tries:
        return "fenced" if tries is None else "gone"
    if tries > job.terms.policy.crashes_max:
        return end_deadly(job, first_offset, tries)
    try:
        if job.terms.delivery == "at-least-once":
            return _try_outside(job, first_offset)
        return _try(job, first_offset)
    except Exception:
        with suppress(psycopg.Error):  # without a connection it counts as a death
            forget_try(job.conn, job.assignment, first_offset)
        raise


def record_try(job: Job, first_offset: int) -> int | None:
    """Record that a unit is about to be called; return the number of its tries without an end.

    This try is included. 0: the unit is not due any more. None: fenced.
    """
    ((tries,),) = run_and_commit(job.conn, "record_try", _place(job.assignment, first_offset))
    if tries:
        hit("aside.recorded")
    return None if tries is None else int(tries)


def end_deadly(job: Job, first_offset: int, tries: int) -> Outcome:
    """Give a unit up: this number of tries, this one included, had no end."""
    reason = crash_reason(tries - 1, job.former_end)
    dead = Verdict(state="dead")
    return _failed(job, first_offset, Failure(error=reason, attempts=0), dead)


def forget_try(conn: Connection[Any], assignment: Assignment, first_offset: int) -> None:
    """Take back the last try of a unit: it neither succeeded nor failed."""
    run_and_commit(conn, "forget_try", _place(assignment, first_offset))


def due_asides(job: Job) -> tuple[list[int], float | None]:
    """Return the first offsets of due units, ascending; or the seconds until the next is due.

    (None: no unit waits.) Only looks: nothing is written. Bound: the lowest 64.
    """
    rows = run(job.conn, "letters_due", job.assignment.partition.params)
    if rows and rows[0][0] is None:
        return [], float(rows[0][1])
    return [first_offset for first_offset, _ in rows], None


def _place(assignment: Assignment, first_offset: int) -> dict[str, object]:
    return {**assignment.params, "first_offset": first_offset}


def _try(job: Job, first_offset: int) -> Outcome:
    began, place = perf_counter(), _place(job.assignment, first_offset)
    claimed: ClaimedAside | None = None
    handled = False
    try:
        with transaction(job.conn):
            claimed = _claim(job.conn, place)
            if claimed.outcome != "claimed":
                return claimed.outcome
            hit("aside.claimed")
            unit = _unit(job, first_offset, claimed)
            call(job.handler, Batch([unit]) if job.handler.batch else unit, job.conn)
            handled = True
            hit("aside.handled")
            run_at_commit(job.conn, "finish_letter", {**place, "claim_xid": claimed.claim_xid})
    except (UnitFailedError, TransactionBrokenError, HoleError) as error:
        if adapt(job.handler, error):
            return _try(job, first_offset)
        reason: BaseException = error.error if isinstance(error, UnitFailedError) else error
    except psycopg.Error as error:
        # After the handler, our own check or the COMMIT may fail, and a handler caused it.
        if handled and adapt(job.handler, error):
            return _try(job, first_offset)
        if not handled or is_passing(error):
            raise
        reason = error
    else:
        hit("aside.committed")
        return "handled"
    assert claimed is not None
    failure = Failure(error=reason, duration_ms=(perf_counter() - began) * 1000)
    verdict = job.judge(reason, claimed.failed + 1, first_offset, redriven=claimed.was_dead)
    return _failed(job, first_offset, failure, verdict)


def _try_outside(job: Job, first_offset: int) -> Outcome:
    """Call an at-least-once handler; claim the unit, and count it as handled, afterwards."""
    claimed, unit = look_outside(job, first_offset)
    if claimed.outcome != "claimed":
        return claimed.outcome
    assert unit is not None
    if job.handler.guard is not None:
        job.handler.guard.look(job.conn, unit.topic)
    return end_outside(job, first_offset, claimed, call_outside(job.handler, unit))


def look_outside(
    job: Job, first_offset: int, through: Callable[[Fetch], Fetch] = lambda fetch: fetch
) -> tuple[ClaimedAside, Unit | None]:
    """Return the claim of a unit, and the unit to call its handler with; claim nothing.

    through: wraps the function that reads a unit that is too large for memory.
    """
    unit: Unit | None = None
    with suppress(psycopg.Rollback), transaction(job.conn):
        claimed = _claim(job.conn, _place(job.assignment, first_offset))
        if claimed.outcome == "claimed":
            unit = _unit(job, first_offset, claimed, through)
        raise psycopg.Rollback
    return claimed, unit


def end_outside(
    job: Job, first_offset: int, claimed: ClaimedAside, failure: Failure | None
) -> Outcome:
    """Record the end of a call that was begun with the result of look_outside()."""
    hit("aside.handled")
    if failure is None:
        return _skip(job, first_offset)
    assert isinstance(failure.error, BaseException)
    verdict = job.judge(failure.error, claimed.failed + 1, first_offset, redriven=claimed.was_dead)
    return _failed(job, first_offset, failure, verdict)


def _claim(conn: Connection[Any], place: Mapping[str, object]) -> ClaimedAside:
    return ClaimedAside(*run(conn, "claim_letter", place)[0])


def _failed(job: Job, first_offset: int, failure: Failure, verdict: Verdict) -> Outcome:
    spans.verdict(failure.error, verdict.state, failure.attempts)
    if verdict.state == "skip":
        return _skip(job, first_offset)
    state: Outcome = "dead" if verdict.state == "dead" else "waiting"
    place = _place(job.assignment, first_offset)
    params = {
        **place,
        **failure.params(job.terms.worker),
        "state": state,
        "retry_after_s": verdict.retry_after_s,
        "counted": failure.attempts > 0 and verdict.counted,
    }
    with transaction(job.conn):
        ((written,),) = run(job.conn, "letter_failed", params)
        if written and failure.only is not None:
            run(job.conn, "narrow_letter", {**place, "only": list(failure.only)})
    if written and state == "dead":
        tell_death(job.assignment.partition, first_offset, params)
    return state if written else "gone"


def _skip(job: Job, first_offset: int) -> Outcome:
    """Count a unit as handled that was handled elsewhere, or is to be skipped."""
    place = _place(job.assignment, first_offset)
    with transaction(job.conn):
        claimed = _claim(job.conn, place)
        if claimed.outcome != "claimed":
            return claimed.outcome
        run_at_commit(job.conn, "finish_letter", {**place, "claim_xid": claimed.claim_xid})
    return "handled"


def _unit(
    job: Job,
    first_offset: int,
    claimed: ClaimedAside,
    through: Callable[[Fetch], Fetch] = lambda fetch: fetch,
) -> Unit:
    """Return the unit for another call, as the handler saw it."""
    source = Source(
        job.assignment.partition,
        through(partial(_fetch_kept, job, first_offset)),
        FETCH_EVENTS,
        attempt=claimed.failed + 1,
        timelines=((0, claimed.timeline or 1),),
    )
    offsets = range(first_offset, claimed.last_offset + 1)
    rows: list[Row] | None = None
    if len(offsets) <= job.terms.stream_above_events:
        found = _fetch(job, first_offset, offsets)
        kept = [first_offset + at for at, row in enumerate(found) if row[0]]
        rows = [row[1:] for row in found if row[0]]
    else:
        place = {**job.assignment.partition.params, "first_offset": first_offset}
        kept = [offset for (offset,) in run(job.conn, "letter_kept", place)]
    if len(kept) == len(offsets) and not claimed.has_subscriptions:
        return Unit(source, first_offset, rows, offsets)
    seen = Seen(offsets, kept, rows, claimed.has_subscriptions)
    return feature.reader().unit_again(job.conn, source, seen)


def _fetch_kept(job: Job, first_offset: int, offsets: Sequence[int]) -> list[Row]:
    """Read the handler's events by their offsets; there may be others between them."""
    between = range(offsets[0], offsets[-1] + 1)
    return [row[1:] for row in _fetch(job, first_offset, between) if row[0]]


def _fetch(job: Job, first_offset: int, offsets: Sequence[int]) -> list[Any]:
    """Read events, after a flag: its handler gets it. Raises HoleError for a missing one."""
    params = {
        **job.assignment.partition.params,
        "first_offset": first_offset,
        "from_offset": offsets[0],
        "to_offset": offsets[-1],
    }
    rows = fetch_all(job.conn, "consume", "fetch_letter", params, form=ROWS)
    if len(rows) != len(offsets):
        raise HoleError(f"{len(rows)} of {len(offsets)} events are left in dead_letter_event")
    return rows
