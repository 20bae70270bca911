"""Call the handler, and check its result and the transaction that it was given."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from os import getpid
from time import perf_counter
from typing import Any, NoReturn

import psycopg
from psycopg import Connection
from psycopg.pq import PipelineStatus, TransactionStatus

from gapless import loops
from gapless.consume.batch import Batch
from gapless.consume.session import (
    TransactionBrokenError,
    require_good_unit,
    require_usable,
    restore_settings,
)
from gapless.consume.unit import Unit
from gapless.consume.user.awaited import awaited
from gapless.consume.user.chain import handled, tell
from gapless.consume.user.handler import Handler
from gapless.consume.user.watch import watch, watched
from gapless.consume.verdict.failure import Failure, PartlyFailedError, UnitFailedError
from gapless.consume.verdict.wish import WISHES, Postponed
from gapless.db.connect import is_cancelled, is_passing, is_unready
from gapless.errors import GaplessError, HoleError
from gapless.failpoints import hit
from gapless.forked import OneProcess, end_forked
from gapless.log.cause import Handling, handling
from gapless.settings.sections import DeliveryMode
from gapless.telemetry.meter import UNTIMED, in_use
from gapless.telemetry.spans import TRACING

SAVEPOINT = "gapless_unit"
CAUSES_MAX = 100  # the depth to which an error's causes are searched
_CONTINUED = "the handler caught a database error and continued: use conn.transaction() around it"
ENDED = "the handler ended the transaction it was given: it must not COMMIT or ROLLBACK"

_IN_TRANSACTION = int(TransactionStatus.INTRANS)  # so: neither broken, closed, aborted nor busy
_NO_PIPELINE = int(PipelineStatus.OFF)


def call_each(
    handler: Handler, numbered: Iterable[tuple[int, Unit]], conn: Connection[Any]
) -> None:
    """Call the handler with one unit after the other, as call() does with one."""
    function, pgconn = handler.function, conn.pgconn
    tells, sets = handler.habits.publishes, handler.habits.sets
    at, pid = 0, getpid()
    now = Handling()
    token = handling.set(now)
    seen = watch() if in_use or TRACING in sys.modules else None
    try:
        for at, unit in numbered if seen is None else seen.each(numbered):  # noqa: B007 - read when one raised
            now.origin = unit
            if tells:
                tell(conn, unit)
            try:
                result = function(unit, conn)
            except BaseException as error:  # noqa: BLE001 - _blame() decides about each
                _blame(error, conn, handler, pid)
            # Nearly always all is well; an exact check costs as much as reading an event.
            if (
                result is not None
                or getpid() != pid
                or pgconn.transaction_status != _IN_TRANSACTION
                or pgconn.pipeline_status != _NO_PIPELINE
            ):
                _require_good(result, conn, pid)
            if sets:
                restore_settings(conn)
    except UnitFailedError as failed:
        failed.at = at
        raise
    finally:
        if seen is not None:
            seen.close(sys.exception())
        handling.reset(token)


def call(handler: Handler, work: Unit | Batch, conn: Connection[Any]) -> None:
    """Call the handler once. After: the transaction is open, and good.

    Raises UnitFailedError for an error of the unit; unchanged: HoleError, errors of the environment
    (also when the handler wrapped one in an error of its own), and the KeyboardInterrupt of Ctrl-C.
    """
    if handler.habits.publishes:
        tell(conn, work)
    pgconn, pid = conn.pgconn, getpid()
    token = handling.set(Handling(work))
    try:
        with watched(work) if in_use or TRACING in sys.modules else UNTIMED:
            try:
                result = handler.function(work, conn)
            except BaseException as error:  # noqa: BLE001 - _blame() decides about each
                _blame(error, conn, handler, pid)
            if (
                result is not None
                or getpid() != pid
                or pgconn.transaction_status != _IN_TRANSACTION
                or pgconn.pipeline_status != _NO_PIPELINE
            ):
                _require_good(result, conn, pid)
    finally:
        handling.reset(token)
    if handler.habits.sets:
        restore_settings(conn)


def call_apart(
    handler: Handler, numbered: Iterable[tuple[int, Unit]], conn: Connection[Any]
) -> Iterator[tuple[int, Unit, Failure]]:
    """Call the handler with each unit under a savepoint; yield those that failed, undone.

    COMMIT's checks of a unit are made before its savepoint is released. Raises as call() does, but
    not UnitFailedError, and TransactionBrokenError, with the number of the unit at hand.
    """
    at: int | None = None
    try:
        for at, unit in numbered:
            began_s, error = perf_counter(), None
            try:
                with conn.transaction(savepoint_name=SAVEPOINT):
                    call(handler, Batch([unit]) if handler.batch else unit, conn)
                    require_good_unit(conn, sets=handler.habits.sets)
            except (UnitFailedError, psycopg.Error) as failed:
                error = failed.error if isinstance(failed, UnitFailedError) else failed
                if error is failed and is_passing(error):
                    raise
                if conn.info.transaction_status != TransactionStatus.INTRANS:
                    require_usable(conn)
                    raise TransactionBrokenError(ENDED) from error
            hit("isolate.tried")
            if error is not None:
                duration_ms = (perf_counter() - began_s) * 1000
                yield at, unit, Failure(error=error, duration_ms=duration_ms)
    except TransactionBrokenError as broken:
        broken.at = at
        raise


def _blame(error: BaseException, conn: Connection[Any], handler: Handler, pid: int) -> NoReturn:
    """Raise the error of call() for an error that the handler raised; pid: of its caller."""
    if getpid() != pid:
        end_forked(error)
    if isinstance(error, HoleError) or (
        isinstance(error, KeyboardInterrupt) and handler.habits.interruptible
    ):
        raise error
    require_usable(conn, error)
    for cause in database_errors(error):
        if is_passing(cause) and not is_unready(cause):
            raise cause from None
    if isinstance(error, psycopg.errors.InFailedSqlTransaction):
        error.add_note(_CONTINUED)
    raise UnitFailedError(error) from error


def _require_good(result: object, conn: Connection[Any], pid: int) -> None:
    """Raise the error of call() for a bad result, or a transaction that the handler broke."""
    if getpid() != pid:
        end_forked()
    require_usable(conn)
    status = conn.info.transaction_status
    if status != TransactionStatus.INTRANS:
        why = _CONTINUED if status == TransactionStatus.INERROR else ENDED
        raise UnitFailedError(TransactionBrokenError(why))
    _refuse_unrun(result)


def call_outside(handler: Handler, unit: Unit) -> Failure | None:
    """Call an at-least-once handler, on a thread; return its failure, or None.

    An async handler is awaited in the loop. Raises errors of the environment (a database's, the
    handler's own), and HoleError.
    """
    if handler.coroutine is not None:
        failure: Failure | None = loops.run(partial(call_in_loop, handler, unit))
        return failure
    began = perf_counter()
    try:
        with watched(unit, is_judged_later=True), handled(unit), OneProcess():
            _refuse_unrun(handler.function(unit))
    except BaseException as raised:  # noqa: BLE001 - SystemExit must not end a thread in silence
        return _failed_outside(raised, began)
    return None


async def call_in_loop(handler: Handler, unit: Unit) -> Failure | None:
    """Do as call_outside() with an async handler, as a task of the loop."""
    began = perf_counter()
    assert handler.coroutine is not None
    try:
        with handled(unit), OneProcess():
            _refuse_unrun(await awaited(handler.coroutine, unit))
    except BaseException as raised:  # noqa: BLE001 - SystemExit must not end the loop
        return _failed_outside(raised, began)
    return None


def _failed_outside(raised: BaseException, began: float) -> Failure:
    if isinstance(raised, HoleError):
        raise raised
    error = raised.error if isinstance(raised, UnitFailedError | PartlyFailedError) else raised
    for cause in database_errors(error):
        if is_passing(cause):
            raise cause from None
    duration_ms = (perf_counter() - began) * 1000
    # One failure, whichever attempt it was: calls that the environment ended do not count.
    # If a subscription was not tried, this is no attempt of the others either.
    attempts = 0 if isinstance(error, Postponed) else 1
    only = raised.subscriptions if isinstance(raised, PartlyFailedError) else None
    return Failure(error=error, attempts=attempts, duration_ms=duration_ms, only=only)


def _refuse_unrun(result: object) -> None:
    """Raise UnitFailedError for a coroutine or generator, which would never run, unnoticed."""
    if inspect.iscoroutine(result):
        result.close()
    elif not (
        inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result)
    ):
        return
    problem = f"the handler returned a {type(result).__name__} instead of doing its work"
    raise UnitFailedError(TypeError(problem))


def excuse_of(error: BaseException | str, delivery: DeliveryMode) -> psycopg.Error | None:
    """Return the cause of a handler's error that says: its database is not as it expects it.

    Otherwise the cause that says: a statement was cancelled. Only that of an at-least-once handler:
    its database is unknown, and a missing table there is its own fault.
    """
    found = [each for each in database_errors(error) if isinstance(each, psycopg.Error)]
    kinds = (is_cancelled,) if delivery == "at-least-once" else (is_unready, is_cancelled)
    return next((cause for says in kinds for cause in found if says(cause)), None)


def database_errors(error: BaseException | str) -> list[psycopg.Error | GaplessError]:
    """Return psycopg's errors and ours among an error and its causes, as a traceback shows them.

    No other error tells about a database. None of words, and of a wish of the handler.
    """
    found: dict[int, BaseException] = {}
    cause = None if isinstance(error, (str, *WISHES)) else error
    while cause is not None and id(cause) not in found and len(found) < CAUSES_MAX:
        found[id(cause)] = cause
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return [each for each in found.values() if isinstance(each, psycopg.Error | GaplessError)]
