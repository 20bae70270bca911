"""Several small statements in one round trip to the server, kept prepared: the processing cycle's.

A step is five of them. Through a cursor each is parsed, planned, waited for and adapted by itself,
and that takes more of both CPUs than its work does; libpq's pipeline mode sends them together
(docs/why/benchmarks.md). What psycopg does for a cursor stays: its types, its errors, its lock.

A statement that is prepared with a generic plan would lock every chunk; the server weighs that and
plans anew. What is prepared may be gone: psycopg deallocates all when it rolls a savepoint back,
and a handler may do so as well. Outside a transaction that is noticed and mended in passing.
"""

from __future__ import annotations

import select
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import psycopg
from psycopg import Connection
from psycopg import abc as protocols
from psycopg.abc import Buffer
from psycopg.adapt import AdaptersMap, PyFormat, Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ConnStatus, ExecStatus, Format, PipelineStatus, TransactionStatus
from psycopg.pq.abc import PGconn, PGresult

from gapless.db.listen import writable
from gapless.db.queries import Statement, statement

ADAPTERS = AdaptersMap(psycopg.adapters)  # a handler may change those of its connection

_GOOD = (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK)
_NONE: Mapping[str, object] = MappingProxyType({})


class _Call(NamedTuple):
    """A statement to be sent; `then` is called when its answer has come, and is good."""

    statement: Statement
    params: Mapping[str, object]
    then: Callable[[], object] | None


class Form(NamedTuple):
    """How rows are sent and read."""

    adapters: AdaptersMap
    format: Format


_TEXT = Form(ADAPTERS, Format.TEXT)
_Values = Sequence[Buffer | None]
_Answer = list[PGresult]  # one, but for the rows that follow a stream: single
_Packed = Sequence[tuple[_Call, _Values]]
_Sent = list[Callable[[], object] | None]  # what is to be done for each good answer


@dataclass(slots=True)
class _Session:
    """What is known of a session: what it has prepared, and what is to be sent with the next call.

    trusted: what is prepared is used within a transaction, too. robbed: that went wrong once.
    losses: how often something was gone. What was not is left alone: the next names are others.
    kept: what adapts binary values, of itself: with the connection, that would live forever.
    """

    prepared: set[bytes] = field(default_factory=set)
    losses: int = 0
    waiting: list[_Call] = field(default_factory=list)
    trusted: bool = False
    robbed: bool = False
    kept: dict[AdaptersMap, protocols.Transformer] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Context:
    """How values are adapted (psycopg.abc.AdaptContext)."""

    adapters: AdaptersMap
    connection: Connection[Any] | None


_sessions: WeakKeyDictionary[Connection[Any], _Session] = WeakKeyDictionary()


def later(
    conn: Connection[Any],
    stage: str,
    name: str,
    params: Mapping[str, object] = _NONE,
    *,
    then: Callable[[], object] | None = None,
    trusted: bool | None = None,
) -> None:
    """Send a named query along with the next one, in front of it; nobody asks for its rows.

    then: called when it was run, whatever becomes of those behind it; it MUST NOT raise.
    trusted: said of the one that begins a transaction: whether nobody is expected to deallocate
    anything in it. If it happens all the same, a query of that transaction fails, and this is not
    believed again.
    """
    session = _sessions.get(conn) or _sessions.setdefault(conn, _Session())
    session.waiting.append(_Call(statement(stage, name), params, then))
    if trusted is not None:
        session.trusted = trusted and not session.robbed


def drop_later(conn: Connection[Any]) -> None:
    """Before a ROLLBACK: do not send what was to be sent with the next query.

    And expect that something was deallocated in the transaction that is open.
    """
    session = _sessions.setdefault(conn, _Session())
    session.waiting.clear()
    session.trusted = False


def fetch_all(
    conn: Connection[Any],
    stage: str,
    name: str,
    params: Mapping[str, object] = _NONE,
    *,
    form: Form = _TEXT,
) -> list[Any]:
    """Run a named query, and in front of it what was said later(); return its rows as tuples.

    Raises what a cursor of psycopg raises, for the first that failed; those behind it were not run.
    OperationalError, without SQLSTATE, when they failed for what was deallocated: try once more.
    What interrupts the wait (Ctrl-C), or is raised in it, closes the connection.
    """
    if conn.pgconn.pipeline_status != PipelineStatus.OFF:
        with conn.pipeline():  # a handler's, while it reads its unit: what it has sent goes first
            pass
    session = _sessions.get(conn) or _sessions.setdefault(conn, _Session())
    calls = [*session.waiting, _Call(statement(stage, name), params, None)]
    session.waiting.clear()
    bare = conn.pgconn.parameter_status(b"client_encoding") == b"UTF8"
    bare = bare and form.format == Format.BINARY
    transformer = session.kept.get(form.adapters) if bare else None
    if transformer is None:  # to make its loaders takes a quarter of the time that a claim does
        transformer = Transformer(_Context(form.adapters, None if bare else conn))
        session.kept |= {form.adapters: transformer} if bare else {}
    packed = [(call, _pack(transformer, call)) for call in calls]
    with conn.lock:
        answer = _ask(conn, session, packed, form.format)
    rows: list[Any] = []
    for result in answer:
        transformer.set_pgresult(result)
        rows += transformer.load_rows(0, result.ntuples, tuple)
    transformer.set_pgresult(None)  # it is kept, perhaps
    return rows


def _pack(transformer: protocols.Transformer, call: _Call) -> _Values:
    """Return the values as text: the server knows their types, and takes no others in binary."""
    if not call.statement.params:
        return ()
    values = [call.params[name] for name in call.statement.params]
    return transformer.dump_sequence(values, [PyFormat.TEXT] * len(values))


def _ask(
    conn: Connection[Any],
    session: _Session,
    calls: _Packed,
    result_format: Format,
) -> _Answer:
    """Do as _exchange() with what is prepared, as long as that is there."""
    is_first = conn.pgconn.transaction_status == TransactionStatus.IDLE
    try:
        # Where psycopg may prepare nothing there is a pooler, and another session each time.
        kept = conn.prepare_threshold is not None and (is_first or session.trusted)
        return _exchange(conn, session, calls, result_format, kept=kept)
    except psycopg.errors.InvalidSqlStatementName as error:
        session.prepared.clear()
        session.losses += 1
        if is_first and conn.pgconn.transaction_status == TransactionStatus.IDLE:
            return _exchange(conn, session, calls, result_format, kept=True)
        session.robbed = True
        session.trusted = False
        raise psycopg.OperationalError(f"a handler deallocated our statements: {error}") from error


def _exchange(
    conn: Connection[Any],
    session: _Session,
    calls: _Packed,
    result_format: Format,
    *,
    kept: bool,
) -> _Answer:
    """Send the calls and wait; return the answer to the last one. Raises the first error.

    kept: prepare what is not prepared yet, and use it.
    """
    pgconn = conn.pgconn
    if pgconn.status != ConnStatus.OK:
        raise psycopg.OperationalError("the connection is closed")
    try:
        is_ours = pgconn.pipeline_status == PipelineStatus.OFF
        pgconn.enter_pipeline_mode()
        if kept:
            sent = _send_kept(pgconn, session, calls, result_format)
        else:
            sent = _send(pgconn, calls, result_format)
        pgconn.pipeline_sync()
        while pgconn.flush():
            writable(pgconn.socket)
        answers = _receive(pgconn)
        if is_ours and pgconn.status == ConnStatus.OK:
            pgconn.exit_pipeline_mode()
    except BaseException:
        conn.close()  # an answer that is on its way must not be taken for the next one's
        raise
    return _last_of(conn, sent, answers)


def _last_of(conn: Connection[Any], sent: _Sent, answers: list[_Answer]) -> _Answer:
    """Return the answer to the last call; `then` of each good one is called before an error."""
    for then, answer in zip(sent, answers, strict=False):
        if answer[-1].status not in _GOOD:
            raise _error(conn, answer[-1])
        if then is not None:
            then()
    if len(answers) < len(sent):
        raise psycopg.OperationalError(conn.pgconn.get_error_message())
    return answers[len(sent) - 1]  # a loss right behind it is an answer to nothing


def _send(pgconn: PGconn, calls: _Packed, result_format: Format) -> _Sent:
    for call, values in calls:
        pgconn.send_query_params(call.statement.text, values, result_format=result_format)
    return [call.then for call, _ in calls]


def _send_kept(pgconn: PGconn, session: _Session, calls: _Packed, result_format: Format) -> _Sent:
    sent: _Sent = []
    prepared = set(session.prepared)
    for call, values in calls:
        name = call.statement.name + b"_%d" % session.losses
        if name not in prepared:
            prepared.add(name)
            pgconn.send_prepare(name, call.statement.text)
            sent.append(partial(session.prepared.add, name))
        pgconn.send_query_prepared(name, values, result_format=result_format)
        sent.append(call.then)
    return sent


def _receive(pgconn: PGconn) -> list[_Answer]:
    """Return the answers up to the sync, or those there were before the connection was lost."""
    answers: list[_Answer] = []
    answer: _Answer = []
    while pgconn.status == ConnStatus.OK or answer:
        if pgconn.is_busy():
            _await(pgconn)
        result = pgconn.get_result()
        if result is None:
            if not answer:
                break  # lost in sending: libpq has an error for one answer, but keeps status OK
            answers.append(answer)
            answer = []
        elif result.status == ExecStatus.PIPELINE_SYNC:
            break
        else:
            answer.append(result)
    return answers


def _await(pgconn: PGconn) -> None:
    """Wait until get_result() does not: until then it lets no signal through, and no other thread.

    What wakes up may be a notification, or half an answer.
    """
    with suppress(psycopg.OperationalError):  # of a connection that is lost get_result() tells
        while pgconn.is_busy():
            poll = select.poll()
            poll.register(pgconn.socket, select.POLLIN)
            poll.poll()
            pgconn.consume_input()


def _error(conn: Connection[Any], result: PGresult) -> psycopg.Error:
    error = error_from_result(result, encoding=conn.info.encoding)
    if error.sqlstate is None:
        return psycopg.OperationalError(str(error))
    return error
