"""One reserved event at a time, exactly once: a suspect after a crash, or an event due again.

The reservation keeps other workers away; the acknowledgement is the first statement of the
handler's transaction, so it commits with the writes of the handler (Q4).
"""

from __future__ import annotations

from collections import Counter
from time import perf_counter

import psycopg

from gapless.consume.job import STATES, Step
from gapless.consume.session import TransactionBrokenError, allow_commit, transaction
from gapless.consume.user.call import call
from gapless.consume.user.chain import adapt
from gapless.consume.verdict.failure import Failure, UnitFailedError, crash_reason
from gapless.consume.verdict.policy import Verdict
from gapless.db.connect import is_passing
from gapless.errors import ReceiptError
from gapless.failpoints import hit
from gapless.features.queue.place import QueuePlace
from gapless.features.queue.receipts import Reserved, acknowledge, begin_reserved, fail, give_back
from gapless.telemetry import spans


def step_reserved(place: QueuePlace, reserved: Reserved) -> Step:
    """Handle a reserved event alone, and commit; if it fails, set it aside (again)."""
    offset = reserved.unit.first_offset
    if reserved.is_poison(place.job.terms.policy.crashes_max):
        reason = crash_reason(reserved.deaths, "")
        return _fail(place, reserved, Failure(error=reason, attempts=0), Verdict(state="dead"))
    place.queue.holds(place.lease_no, offset, offset)
    try:
        done = _try(place, reserved)
    except ReceiptError:
        done = Step(outcome="done")  # another worker has it, or the group was moved
    except BaseException:
        if not place.queue.conn.closed:
            place.queue.holds(0, 0, 0)
            give_back(place.queue, reserved)
        raise
    place.queue.holds(0, 0, 0)
    return done


def _try(place: QueuePlace, reserved: Reserved) -> Step:
    job, conn = place.job, place.queue.conn
    began = perf_counter()
    handled = False
    try:
        with transaction(conn):
            claim_xid = begin_reserved(place.queue, reserved)
            call(job.handler, reserved.unit, conn)
            handled = True
            hit("queue.aside")
            allow_commit(conn, claim_xid, 1)
    except (UnitFailedError, TransactionBrokenError) as error:
        if adapt(job.handler, error):
            return _try(place, reserved)
        reason: BaseException = error.error if isinstance(error, UnitFailedError) else error
    except psycopg.Error as error:
        if handled and adapt(job.handler, error):
            return _try(place, reserved)
        if not handled or is_passing(error):
            raise
        reason = error
    else:
        return Step(outcome="done", events=1, units=1, handled=1)
    failure = Failure(error=reason, duration_ms=(perf_counter() - began) * 1000)
    offset, failed = reserved.unit.first_offset, reserved.attempts + 1
    verdict = job.judge(reason, failed, offset, redriven=reserved.was_dead)
    spans.verdict(reason, verdict.state, failed)
    if verdict.state == "block":
        raise job.blocked(offset, reason)
    return _fail(place, reserved, failure, verdict)


def _fail(place: QueuePlace, reserved: Reserved, failure: Failure, verdict: Verdict) -> Step:
    if verdict.state == "skip":
        acknowledge(place.queue, [reserved])
        return Step(outcome="done", events=1, units=1, handled=1)
    fail(place.queue, reserved, failure, verdict)
    return step_of(1, Counter({verdict.state: 1}))


def step_of(events: int, aside: Counter[str]) -> Step:
    """Return the step for a number of events; aside: how many were set aside, by state."""
    return Step(
        outcome="done",
        events=events,
        units=events,
        dead=aside["dead"],
        waiting=aside["waiting"],
        asked=aside["asked"],
        handled=events - sum(aside[state] for state in STATES),
    )
