"""Open a connection as gapless needs it, or say in one line why there is none."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import psycopg
from psycopg import Connection, Pipeline
from psycopg.conninfo import conninfo_to_dict

from gapless.db.queries import query
from gapless.db.schema import schema
from gapless.errors import ConnectError, ReceiverError, UnreachableError, limit_met, one_line

MIN_SERVER_VERSION = 140000
_ROUNDS = 2  # looks at the sessions of two clients

# SQLSTATEs of the environment, not of the event: retried, and never dead-lettered.
# 40 rollback (serialization, deadlock), 53 resources, 57 operator intervention, 58 system error,
# 08 connection, 55P03 lock timeout, 55006 in use, 25P03 idle in transaction, 25006 read-only.
_TRANSIENT_CLASSES = ("40", "53", "57", "58", "08")
_TRANSIENT_STATES = frozenset({"55P03", "55006", "25P03", "25P04", "25006"})
_UNREADY_CLASSES = ("28", "53")
_UNREADY_STATES = frozenset({"42501", "42P01", "42703", "42883", "3F000"})

# Libpq gives no SQLSTATE for a refused connection. The server's own message comes as "FATAL:  …",
# in any language. Such an error is permanent, except for those of _PASSES.
_NEARLY_URI = re.compile(r"[a-z]\w*:?/+|postgres\w*:", re.IGNORECASE)
_NO_DATABASE = re.compile(r'FATAL:  database ".*" does not exist$')  # where it speaks English
_SERVER_SAYS = re.compile(r"\w+:  \S")
_PASSES = re.compile(
    r"FATAL:  (the database system is |sorry, too many |too many connections|"
    r"remaining connection slots |terminating connection |"
    r"database .* is not currently accepting connections)"
)
# Messages of libpq without an answer from a server, for causes that time does not cure.
_STANDS = re.compile(
    r"invalid |certificate|does not support|Permission denied|no password supplied|"
    r"authentication method|definition of service|service file|could not match|Servname not"
)


def connect(
    dsn: str, *, role: str, connect_timeout_s: int = 10, standby: bool = False
) -> Connection:
    """Open a direct session in autocommit; `role` becomes its application_name.

    standby: accept one, too. Raises ConnectError with one line: refused, too old, or behind a
    pooler that gives each transaction another session (advisory locks and LISTEN would silently
    fail there); and its subclass UnreachableError for a failure that may pass by waiting.
    """
    if not Pipeline.is_supported():
        raise ConnectError(
            'libpq is older than 14: install "psycopg[binary]", which brings its own'
        )
    with opening(dsn, partial(_open, dsn, role, connect_timeout_s)) as conn:
        if _check(conn, standby=standby):
            _refuse_shared_sessions(conn, dsn, connect_timeout_s)
            conn.execute(query("connect", "begin_anew"))
        conn.execute(query("connect", "guard_session"))
    return conn


def connect_shared(
    dsn: str, *, role: str, connect_timeout_s: int = 10, standby: bool = False
) -> Connection:
    """Open a session that may be a pooler's, in autocommit: for statements that need no session.

    It must not rely on advisory locks, LISTEN and settings of the session. standby: accept one,
    too. Raises as connect(), except for a pooler in transaction mode.
    """
    with opening(dsn, partial(_open, dsn, role, connect_timeout_s)) as conn:
        if _check(conn, standby=standby):
            share(conn)
            _require_defaults(conn)
        else:
            conn.execute(query("connect", "guard_session"))
    return conn


@contextmanager
def opening(dsn: str, make: Callable[[], Connection]) -> Iterator[Connection]:
    """Open a connection, which stays open unless the block fails. Raises ConnectError."""
    conn = None
    try:
        conn = make()
        yield conn
    except BaseException as error:
        if conn is not None:
            conn.close()
        if isinstance(error, psycopg.Error):
            raise cannot_connect(dsn, error) from error
        raise


def share(conn: Connection[Any]) -> None:
    """Let no statement rely on the session of another: `conn` is a pooler's, in autocommit.

    Raises ConnectError for a pooler without transactions.
    """
    conn.prepare_threshold = None  # the next transaction may get another session
    try:
        with conn.transaction():
            pass
    except psycopg.Error as error:
        raise ConnectError(
            f"{conn.info.host}:{conn.info.port} is a pooler in statement mode: it has no "
            "transactions; name the server itself, or a pool in transaction mode"
        ) from error


def is_pooled(conn: Connection[Any]) -> bool:
    """Tell whether a pooler, in any mode, stands between: its backend pid is invented."""
    return _backend_pid(conn) != conn.info.backend_pid


def shares_sessions(first: Connection[Any], second: Connection[Any]) -> bool:
    """Tell whether a pooler shares the sessions of two clients: they change, or are the same.

    In session mode neither happens. In other modes one look may miss it while other clients are
    busy; and clients that took turns would always get the same two of a pool's two sessions.
    """
    looks = [(conn, _backend_pid(conn)) for conn in (first, second, second, first) * _ROUNDS]
    ours = {pid for conn, pid in looks if conn is first}
    theirs = {pid for conn, pid in looks if conn is second}
    return len(ours) > 1 or len(theirs) > 1 or ours == theirs


def complaint_about(dsn: str) -> str | None:
    """Return the error in the text of a DSN, without its password; None if it is sound."""
    try:
        conninfo_to_dict(dsn)
    except psycopg.ProgrammingError as error:
        nearly = _NEARLY_URI.match(dsn)
        write = "write host=... dbname=... or postgresql://user@host/dbname"
        if nearly is None:
            wrong = _without_secrets(str(error))
        elif nearly[0].lower() in ("postgresql://", "postgres://"):
            # Without its quotation, which may be of the password.
            wrong = str(error).split('"')[0].strip(" :\n").removesuffix(" in")
            write = "write % : / ? # [ ] @ and spaces in a password as %25, %3A, %2F, …"
        else:
            wrong = f'it begins with "{nearly[0]}"'
        return f"the DSN is not a connection string: {wrong}; {write}"
    return None


def is_transient(error: BaseException) -> bool:
    """Tell whether an error is the environment's: retried, never counted against an event."""
    if not isinstance(error, psycopg.Error):
        return isinstance(error, ConnectError | ReceiverError)
    if error.sqlstate is None:
        # An error without SQLSTATE never reached the server, or broke on the way. So does a
        # statement with more than 65 535 parameters, and no retry helps it.
        misuse = "number of parameters must be" in str(error)
        return isinstance(error, psycopg.OperationalError) and not misuse
    return error.sqlstate[:2] in _TRANSIENT_CLASSES or error.sqlstate in _TRANSIENT_STATES


def is_passing(error: BaseException) -> bool:
    """Tell whether an error of a handler's work is the environment's, as is_transient() does.

    A cancelled statement counts as the handler's fault in the end: it exceeded a time limit.
    """
    return is_transient(error) and not is_cancelled(error)


def is_cancelled(error: BaseException) -> bool:
    """Tell whether a statement was cancelled (57014), whether by a timeout or by a person."""
    return isinstance(error, psycopg.errors.QueryCanceled)


def is_unready(error: BaseException) -> bool:
    """Tell whether an error says that the database is not in the state a handler expects.

    42501: no right; 42P01, 42703, 42883, 3F000: no such table, column, function, schema (a
    migration comes later, or was reverted); 28: refused; 53: out of resources.
    """
    state = (error.sqlstate or "") if isinstance(error, psycopg.Error) else ""
    return state in _UNREADY_STATES or state[:2] in _UNREADY_CLASSES


def is_revoked(error: BaseException) -> bool:
    """Tell whether a statement of ours was not permitted: a grant was revoked."""
    return isinstance(error, psycopg.errors.InsufficientPrivilege)


def why_of(error: BaseException) -> str:
    """Describe in one line the failure of a statement of ours, and the remedy if it is known."""
    why = limit_met(error) or one_line(error)
    if not is_revoked(error):
        return why
    if isinstance(error, psycopg.Error) and error.diag.source_function == "check_enable_rls":
        return f"{why}: gapless doctor says how to switch it off"
    return f"{why}: grant this role gapless_consumer again"


def end_of(error: BaseException) -> str:
    """Say in one line why the session has ended."""
    return limit_met(error) or f"connection lost: {one_line(error)}"


def _open(dsn: str, role: str, connect_timeout_s: int) -> Connection:
    return Connection.connect(
        dsn,
        autocommit=True,
        client_encoding="utf8",  # as in JSON, not as in the database or PGCLIENTENCODING
        application_name=f"{schema()}/{role}"[:63],
        connect_timeout=connect_timeout_s,
        keepalives_idle=5,
        keepalives_interval=2,
        keepalives_count=3,
        tcp_user_timeout=10000,
    )


def _check(conn: Connection, *, standby: bool = False) -> bool:
    """Refuse one too old, or a standby that is not wanted; tell whether it is_pooled()."""
    row = conn.execute(query("connect", "who")).fetchone()
    assert row is not None
    in_recovery, version, backend_pid = row
    where = f"the server at {conn.info.host}:{conn.info.port}"
    if version < MIN_SERVER_VERSION:
        raise ConnectError(f"{where} is PostgreSQL {version // 10000}: gapless needs 14 or newer")
    if in_recovery and not standby:
        raise UnreachableError(f"{where} is a read-only standby: connect to the primary")
    return bool(backend_pid != conn.info.backend_pid)


def _require_defaults(conn: Connection) -> None:
    """Refuse settings that a session of ours would have to change for itself."""
    unfit = conn.execute(query("connect", "unfit")).fetchone()
    if unfit is not None:
        name, setting, wanted = unfit
        raise ConnectError(
            f"{conn.info.host}:{conn.info.port} is a pooler, where nothing is set for a session, "
            f"and {name} is {setting}: alter role {conn.info.user} set {name} = '{wanted}', or "
            "name the server itself"
        )


def _refuse_shared_sessions(conn: Connection, dsn: str, connect_timeout_s: int) -> None:
    """Refuse a pooler in which two clients get the same lock, and LISTEN receives nothing."""
    with _open(dsn, "self-test", connect_timeout_s) as other:
        if not shares_sessions(conn, other):
            return
    raise ConnectError(
        f"{conn.info.host}:{conn.info.port} is a pooler in transaction mode: advisory locks "
        "and LISTEN do not work there; name the server itself, or a pool in session mode"
    )


def _backend_pid(conn: Connection) -> int:
    row = conn.execute(query("connect", "backend_pid")).fetchone()
    assert row is not None
    return int(row[0])


def cannot_connect(dsn: str, error: psycopg.Error) -> ConnectError:
    """Return the error that says in one line why there is no session, and whether it may pass."""
    complaint = complaint_about(dsn)
    if complaint is not None:
        return ConnectError(complaint)
    lines = str(error).strip().splitlines() or [type(error).__name__]
    text = f"cannot connect to PostgreSQL: {' '.join(line.strip() for line in lines)}"
    if "unsupported startup parameter" in text:
        text += "; leave it out of the DSN and PGOPTIONS, or have the pooler ignore it"
    elif _NO_DATABASE.search(text):
        text += "; create it with createdb, or name another one"
    return UnreachableError(text) if _may_pass(error) else ConnectError(text)


def _may_pass(error: psycopg.Error) -> bool:
    if error.sqlstate is not None:
        return is_transient(error)
    if not isinstance(error, psycopg.OperationalError):
        return False
    # One line for each address that was tried: one that may accept us later is enough.
    tries = [line for line in str(error).splitlines() if "failed: " in line] or [str(error)]
    return any(
        _PASSES.search(line) if _SERVER_SAYS.search(line) else not _STANDS.search(line)
        for line in tries
    )


def _without_secrets(complaint: str) -> str:
    """Remove libpq's quotations from the DSN, unless they are the name of an option."""
    text = " ".join(complaint.split())
    if text.startswith(("invalid connection option", "invalid URI query parameter")):
        return text
    before = text.split('"')[0].rstrip(" :")
    return 'a word without "="' if before == "missing" else before
