"""The session of a step: its transaction and its own queries, independent of the handler.

A handler gets the very connection on which the step works. Its changes there (row factory,
isolation level, a ROLLBACK of its own) must not change the step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import psycopg
from psycopg import Connection
from psycopg.pq import PipelineStatus, TransactionStatus

from gapless.db.inherited import keep_from_children
from gapless.db.wire import drop_later, fetch_all, later
from gapless.errors import limit_met
from gapless.telemetry.meter import UNTIMED, Operation, in_use, timed

_LEFT_OPEN = "the handler left a transaction block open on the connection it was given"
_REPLACED = "GL002"  # gapless.require_finish(): another transaction than that of the claim
_UNATTRIBUTED = "GL004"  # gapless.refuse_untold(): events were published for an unknown unit
_CHANGED = "GL005"  # gapless.require_settings(): the session is not as it was
# The errors of our statements that settings of a handler can cause: its timeouts, its role.
_BY_SETTINGS = frozenset({"57014", "55P03", "42501"})


class TransactionBrokenError(Exception):
    """The handler ended the transaction it was given, or left it aborted.

    at: the number of the unit that was called then, if it was called under a savepoint.
    """

    at: int | None = None


class UnattributedError(TransactionBrokenError):
    """The handler published, and the database does not know for which unit (I10)."""


class ChangedError(TransactionBrokenError):
    """The handler changed, or seems to have changed, settings of the session that we rely on."""


_OURS: Mapping[str, type[TransactionBrokenError]] = {
    _UNATTRIBUTED: UnattributedError,
    _CHANGED: ChangedError,
    _REPLACED: TransactionBrokenError,
}


@dataclass(frozen=True, slots=True)
class _Settings:
    """The settings of a session before any handler had it; `watched` as one text."""

    watched: str
    names: list[str]
    vals: list[str]


_OPEN = (TransactionStatus.INTRANS, TransactionStatus.INERROR)
_OPERATIONS: Mapping[str, Operation] = {"commit": "commit", "claim_ahead": "claim"}


_settings: WeakKeyDictionary[Connection[Any], _Settings] = WeakKeyDictionary()
_committed: WeakKeyDictionary[Connection[Any], list[Callable[[], object]]] = WeakKeyDictionary()


@contextmanager
def transaction(conn: Connection[Any], *, kept: bool = False) -> Iterator[None]:
    """Open the step's transaction; COMMIT at the end of the block, ROLLBACK on an exception.

    BEGIN goes with the first run() of the block, which MUST be its first use of `conn`. READ
    COMMITTED whatever the session's default is. Autocommit is off in the block: statements of a
    handler after a ROLLBACK of its own must not be committed one by one.
    kept: use prepared statements to the end; not where a savepoint may be rolled back (db.wire).
    Before: `conn` is idle. After: idle again, or closed if that is impossible.
    Raises OperationalError for a closed one, TransactionBrokenError when the transaction to be
    committed is not the one that allow_commit() allowed.
    """
    if conn.closed:  # MUST be asked first: a stream that was never finished holds its lock forever
        raise psycopg.OperationalError("the connection is closed")
    autocommit = conn.autocommit
    conn.autocommit = False
    later(conn, "consume", "begin", trusted=kept)
    try:
        if conn not in _settings:
            keep_from_children(conn)
            _settings[conn] = _Settings(*run(conn, "settings")[0])
        yield
        _require_no_block(conn)
        run(conn, "commit")
        for then in _committed.pop(conn, ()):
            then()
    except BaseException:
        _committed.pop(conn, None)
        drop_later(conn)  # a savepoint may have been rolled back, with all prepared queries
        with suppress(psycopg.Error):
            if conn.info.transaction_status in _OPEN:
                run(conn, "rollback")
        raise
    finally:
        if not conn.closed:
            if conn.info.transaction_status != TransactionStatus.IDLE:
                conn.close()  # its effects must not commit later
                raise psycopg.OperationalError(_LEFT_OPEN)
            conn.autocommit = autocommit


def after_commit(conn: Connection[Any], then: Callable[[], object]) -> None:
    """Within transaction(): have a function called once it is committed, and only then."""
    _committed.setdefault(conn, []).append(then)


def run(
    conn: Connection[Any],
    name: str,
    params: Mapping[str, object] = {},
) -> list[Any]:
    """Run a named query of `sql/consume/queries/consume.sql`; return its rows as tuples."""
    try:
        with timed(_OPERATIONS[name]) if in_use and name in _OPERATIONS else UNTIMED:
            return fetch_all(conn, "consume", name, params)
    except psycopg.Error as error:
        explain(error)
        raise


def run_and_commit(conn: Connection[Any], name: str, params: Mapping[str, object]) -> list[Any]:
    """Run a named query in a transaction of its own; return its rows."""
    with transaction(conn):
        return run(conn, name, params)


def explain(error: psycopg.Error) -> None:
    """Raise our own error for a failed check of ours, whichever query the error came with."""
    kind = _OURS.get(error.sqlstate or "")
    if kind is not None:
        raise kind(error.diag.message_primary) from error


def run_untimed(conn: Connection[Any], name: str, params: Mapping[str, object]) -> None:
    """Run a named query that may take longer than statement_timeout, which is for handlers."""
    later(conn, "consume", "lift_timeout")
    later(conn, "consume", name, params)
    run(conn, "put_timeout_back")  # one round trip


def run_before(conn: Connection[Any], name: str, params: Mapping[str, object] = {}) -> None:
    """Run a named query right before the next one, in the same round trip."""
    later(conn, "consume", name, params)


def run_at_commit(conn: Connection[Any], name: str, params: Mapping[str, object]) -> None:
    """Run a named query right before COMMIT, in the same round trip; COMMIT fails if it does.

    Adds the parameter `settings`: the settings of the session before any handler.
    """
    later(conn, "consume", name, {"settings": settings_before(conn), **params})


def allow_commit(conn: Connection[Any], claim_xid: str, calls: int) -> None:
    """Allow the COMMIT of a claim, which is next; it fails if its transaction is over.

    calls: of the handler, in this transaction. After several, COMMIT cannot attribute an event.
    """
    known = _settings[conn].watched  # since transaction() of the claim
    params = {"claim_xid": claim_xid, "units": calls, "settings": known}
    later(conn, "consume", "finish_units", params)


def commit_and_begin(conn: Connection[Any], then: Callable[[], object]) -> None:
    """Within transaction(): end it and begin the next one, in the round trip of the next run().

    then: called once the first is committed, even if the next one fails.
    """
    _require_no_block(conn)
    later(conn, "consume", "commit", then=then)
    later(conn, "consume", "begin")


def settings_before(conn: Connection[Any]) -> str | None:
    """Return the original settings of the session, to compare; None before its first use."""
    known = _settings.get(conn)
    return None if known is None else known.watched


def require_good_unit(conn: Connection[Any], *, sets: bool) -> None:
    """Raise now the errors that COMMIT would raise.

    sets: settings of the handler are put back after each call. Raises TransactionBrokenError for a
    transaction that the handler broke, or ChangedError for an error that its settings may have
    caused.
    """
    known = _settings.get(conn)
    params = {"settings": None if known is None else known.watched}
    try:
        fetch_all(conn, "consume", "check_unit", params)
    except psycopg.Error as error:
        explain(error)
        if sets or not is_of_settings(error):
            raise
        raise ChangedError(str(error)) from error


def restore_settings(conn: Connection[Any]) -> None:
    """Put back the settings that the session had before any handler."""
    before = _settings.get(conn)
    if before is None:
        return
    for name in ("reset_statement_timeout", "reset_session_authorization", "reset_role"):
        later(conn, "consume", name)
    run(conn, "restore_settings", {"names": before.names, "vals": before.vals})


def is_of_settings(error: BaseException) -> bool:
    """Tell whether the handler's settings may have caused this error of a statement of ours."""
    if isinstance(error, psycopg.Error):
        return error.sqlstate in _BY_SETTINGS
    return isinstance(error, ChangedError)


def require_usable(conn: Connection[Any], error: BaseException | None = None) -> None:
    """Raise OperationalError unless the session can continue; `error`: raised by the handler."""
    if conn.broken:
        if isinstance(error, psycopg.OperationalError):
            raise error
        met = None if error is None else limit_met(error)
        raise psycopg.OperationalError(
            met or "the connection was lost while the handler ran"
        ) from error
    if conn.closed:
        raise psycopg.OperationalError("the handler closed the connection it was given") from error
    busy = conn.info.transaction_status == TransactionStatus.ACTIVE
    if busy or conn.pgconn.pipeline_status != PipelineStatus.OFF:
        conn.close()
        raise psycopg.OperationalError(
            "the handler left a command running on the connection it was given"
        ) from error


def _require_no_block(conn: Connection[Any]) -> None:
    if getattr(conn, "_num_transactions", 0):  # psycopg's own count; there is no public one
        conn.close()
        raise psycopg.OperationalError(_LEFT_OPEN)
