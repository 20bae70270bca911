"""Exactly once in a queue: effects and acknowledgement are one commit (Q4, I6).

A worker's transaction locks the events it takes: when the worker dies, the transaction ends, and
they are open again at once. To find an event that failed, the worker takes the batch again, with a
savepoint for each event; that event is set aside, and the others commit. Other workers may take
them first: then those find the failed event.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import psycopg

from gapless.consume.isolate import BlockedHereError, handle_apart, put_aside
from gapless.consume.job import Step
from gapless.consume.session import (
    TransactionBrokenError,
    allow_commit,
    commit_and_begin,
    transaction,
)
from gapless.consume.unit import Unit
from gapless.consume.user.call import call_each
from gapless.consume.user.chain import adapt
from gapless.consume.verdict.failure import Failure, UnitFailedError
from gapless.db.connect import is_passing
from gapless.failpoints import hit
from gapless.features.queue.alone import step_of
from gapless.features.queue.place import QueuePlace
from gapless.features.queue.take import Taken, TakeOutcome, take_next


@dataclass(slots=True)
class _Redo:
    """Nothing of these units was committed; the first one is at first_offset.

    learned: the step has just learned how to call the handler. error: the unit there failed
    by it, for sure.
    """

    first_offset: int
    events: int
    learned: bool = False
    error: BaseException | None = None


@dataclass(slots=True)
class _QueueProgress:
    """The events that a step has committed. pending: handled units that are to be committed next.

    outcome: the outcome of the last claim.
    """

    events: int = 0
    pending: Sequence[Unit] = ()
    outcome: TakeOutcome = "idle"


def step_place(
    place: QueuePlace, *, batch_size: int, continue_while: Callable[[], bool] = lambda: False
) -> tuple[Step, TakeOutcome]:
    """Handle the next events of a partition, and commit; return the step and the last outcome.

    continue_while: asked after each full batch; then the next one follows, a commit for each.
    Before: the session is outside a transaction. After: likewise. Again: safe at any time.
    Raises BlockedError while the database is not as the handler expects it, HoleError, and
    psycopg's transient errors: then nothing more was committed.
    """
    progress = _QueueProgress()
    redo = _fast(place, batch_size, continue_while, progress)
    done = _handled(progress.events)
    while redo is not None:
        if redo.learned:
            before = progress.events
            redo = _fast(place, redo.events, lambda: False, progress)
            more = _handled(progress.events - before)
        else:
            outcome = _careful(place, redo)
            redo = outcome if isinstance(outcome, _Redo) else None
            more = Step(outcome="done") if isinstance(outcome, _Redo) else outcome
        done = done.followed_by(more)
    return done, progress.outcome


def _fast(
    place: QueuePlace, batch_size: int, continue_while: Callable[[], bool], progress: _QueueProgress
) -> _Redo | None:
    """Handle a batch, and more while each is full; None when all went well."""
    conn, handler = place.queue.conn, place.job.handler
    batch_size = 1 if handler.habits.defers else batch_size
    units: Sequence[Unit] = ()
    try:
        with transaction(conn, kept=True):
            taken = _take(place, batch_size, progress)
            while taken.outcome == "claimed":
                units = taken.units
                call_each(handler, enumerate(units), conn)
                hit("queue.handled")
                progress.pending = units
                allow_commit(conn, taken.claim_xid, len(units))
                if len(units) < batch_size or not continue_while():
                    break
                # COMMIT, BEGIN and the next claim are one round trip.
                commit_and_begin(conn, partial(_committed, place, progress))
                taken = _take(place, batch_size, progress)
    except (UnitFailedError, TransactionBrokenError) as error:
        progress.pending = ()
        _rolled_back(place)
        return _again(place, units, error)
    except psycopg.Error as error:
        was_handled, progress.pending = bool(progress.pending), ()
        _rolled_back(place)
        if not was_handled:
            raise
        # Our own check or the COMMIT failed, because of something that a handler did.
        redo = _again(place, units, error)
        if is_passing(error) and not redo.learned:
            raise
        return redo
    if progress.pending:
        _committed(place, progress)
        hit("queue.committed")
    return None


def _take(place: QueuePlace, batch_size: int, progress: _QueueProgress) -> Taken:
    taken = take_next(place, batch_size, place.hint)
    progress.outcome = taken.outcome
    if taken.outcome == "claimed":
        hit("queue.taken")
        place.queue.holds(place.lease_no, taken.first_offset, taken.last_offset)
        place.took(taken.last_offset)
    return taken


def _committed(place: QueuePlace, progress: _QueueProgress) -> None:
    events = len(progress.pending)
    progress.pending = ()
    progress.events += events
    place.open = max(0, place.open - events)
    place.queue.holds(0, 0, 0)


def _rolled_back(place: QueuePlace) -> None:
    """Note that no worker died of these events; after a lost session that is unknown: leave it."""
    if not place.queue.conn.closed:
        place.queue.holds(0, 0, 0)


def _handled(events: int) -> Step:
    if not events:
        return Step(outcome="idle")
    return Step(outcome="done", events=events, units=events, handled=events)


def _again(place: QueuePlace, units: Sequence[Unit], error: Exception) -> _Redo:
    """Return the units to try again: from the first one that failed, if it is known."""
    if adapt(place.job.handler, error):
        place.hint = units[0].first_offset
        return _Redo(units[0].first_offset, len(units), learned=True)
    at = error.at if isinstance(error, UnitFailedError) else None
    if at is None and len(units) == 1:
        return _Redo(units[0].first_offset, 1, error=error)
    return _Redo(units[0].first_offset, len(units))


def _careful(place: QueuePlace, redo: _Redo) -> Step | _Redo:
    """Take again, from the same offset on, with a savepoint for each event (I9).

    Others may have taken some of these events since; all events taken now are handled.
    Raises BlockedError when the first event met a database that is not ready.
    """
    if redo.error is not None:
        return _give_up(place, redo.first_offset, redo.error)
    trial = _QueueTrial()
    try:
        _try_each(place, redo, trial)
    except (UnitFailedError, TransactionBrokenError) as error:
        _rolled_back(place)
        return _narrower(place, trial, error)
    except BlockedHereError as blocked:
        _rolled_back(place)
        first = trial.units[0].first_offset
        if blocked.at:
            return _Redo(first, blocked.at)
        raise place.job.blocked(first, blocked.error) from None
    except psycopg.Error as error:
        _rolled_back(place)
        if not trial.handled or is_passing(error):
            raise
        return _narrower(place, trial, error)
    place.queue.holds(0, 0, 0)
    units = trial.units
    place.hint = units[-1].first_offset + 1 if units else None
    return step_of(len(units), trial.aside)


@dataclass(slots=True)
class _QueueTrial:
    """The progress of a careful batch. handled: the COMMIT is next."""

    units: Sequence[Unit] = ()
    handled: bool = False
    aside: Counter[str] = field(default_factory=Counter)


def _try_each(place: QueuePlace, redo: _Redo, trial: _QueueTrial) -> None:
    job, conn = place.job, place.queue.conn
    with transaction(conn):
        size = min(redo.events, job.units_per_commit)
        taken = take_next(place, size, redo.first_offset)
        if taken.outcome != "claimed":
            return
        trial.units = taken.units
        place.queue.holds(place.lease_no, taken.first_offset, taken.last_offset)
        handle_apart(job, enumerate(taken.units), trial.aside)
        trial.handled = True
        allow_commit(conn, taken.claim_xid, len(taken.units))


def _narrower(place: QueuePlace, trial: _QueueTrial, error: Exception) -> _Redo:
    """Try fewer: a unit that ends its transaction is known for sure only when it is alone."""
    units = trial.units
    first = units[0].first_offset
    if adapt(place.job.handler, error):
        return _Redo(first, len(units), learned=True)
    if len(units) == 1:
        return _Redo(first, 1, error=error.error if isinstance(error, UnitFailedError) else error)
    if not trial.handled:  # that unit, alone: any worker may take those before it
        at = error.at if isinstance(error, TransactionBrokenError) else None
        return _Redo(units[at or 0].first_offset, 1)
    return _Redo(first, len(units) // 2)


def _give_up(place: QueuePlace, offset: int, error: BaseException) -> Step:
    """Set an event aside without a call of its handler, as the policy for its error says."""
    job, conn = place.job, place.queue.conn
    verdict = job.judge(error, 1, offset)
    if verdict.state == "block":
        raise job.blocked(offset, error)
    aside: Counter[str] = Counter()
    done = Step(outcome="done")
    with suppress(psycopg.Rollback), transaction(conn):
        taken = take_next(place, 1, offset)
        if taken.outcome != "claimed" or taken.first_offset != offset:
            raise psycopg.Rollback  # another worker has it, and finds out
        put_aside(job, taken.units[0].span, Failure(error=error), verdict, aside)
        allow_commit(conn, taken.claim_xid, 1)
        done = step_of(1, aside)
    return done
