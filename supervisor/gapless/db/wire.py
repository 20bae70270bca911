"""Several small prepared statements in one round trip to the server, for the processing cycle.

A step is five of them. Through a cursor each is parsed, planned, awaited and adapted by itself, and
that takes more of both CPUs than its work does; libpq's pipeline mode sends them together
(docs/why/benchmarks.md). psycopg's types, errors and lock stay the same as for a cursor.

A prepared statement with a generic plan would lock every chunk; the server weighs that and plans
anew. Prepared statements may vanish: psycopg deallocates all when it rolls a savepoint back, and a
handler may do so as well. Outside a transaction that is noticed and repaired in passing.
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
    """A statement to be sent; `then` is called when it has succeeded."""

    statement: Statement
    params: Mapping[str, object]
    then: Callable[[], object] | None


class Form(NamedTuple):
    """The format of rows, sent and read."""

    adapters: AdaptersMap
    format: Format


_TEXT = Form(ADAPTERS, Format.TEXT)
_Values = Sequence[Buffer | None]
_Answer = list[PGresult]  # one result, except for the rows that follow a stream: single
_Packed = Sequence[tuple[_Call, _Values]]
_Sent = list[Callable[[], object] | None]  # the call for each good answer


@dataclass(slots=True)
class _Session:
    """The state of a session: its prepared statements, and the calls to send with the next one.

    trusted: prepared statements are used within a transaction, too. robbed: that failed once.
    losses: the number of lost statements. The remaining ones are left alone: names change.
    kept: adapters of binary values, without the connection: with it, they would live forever.
    """

    prepared: set[bytes] = field(default_factory=set)
    losses: int = 0
    waiting: list[_Call] = field(default_factory=list)
    trusted: bool = False
    robbed: bool = False
    kept: dict[AdaptersMap, protocols.Transformer] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Context:
    """The adapters of values (psycopg.abc.AdaptContext)."""

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
    """Send a named query along with the next one, in front of it; its rows are discarded.

    then: called when the query has run, even if later ones fail; it MUST NOT raise.
    trusted: for the query that begins a transaction: whether no code is expected to deallocate
    statements in it. If that happens all the same, a query of that transaction fails, and this
    flag is ignored from then on.
    """
    session = _sessions.get(conn) or _sessions.setdefault(conn, _Session())
    session.waiting.append(_Call(statement(stage, name), params, then))
    if trusted is not None:
        session.trusted = trusted and not session.robbed


def drop_later(conn: Connection[Any]) -> None:
    """Before a ROLLBACK: drop the queries that were to be sent with the next one.

    Expect, too, that statements were deallocated in the open transaction.
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
    """Run a named query, and in front of it those of later(); return its rows as tuples.

    Raises the errors of a psycopg cursor, for the first query that failed; later ones did not run.
    OperationalError, without SQLSTATE, if they failed for a deallocated statement: try once more.
    An exception during the wait (such as Ctrl-C) closes the connection.
    """
    if conn.pgconn.pipeline_status != PipelineStatus.OFF:
        with conn.pipeline():  # a handler's, while it reads its unit: its own statements go first
            pass
    session = _sessions.get(conn) or _sessions.setdefault(conn, _Session())
    calls = [*session.waiting, _Call(statement(stage, name), params, None)]
    session.waiting.clear()
    bare = conn.pgconn.parameter_status(b"client_encoding") == b"UTF8"
    bare = bare and form.format == Format.BINARY
    transformer = session.kept.get(form.adapters) if bare else None
    if transformer is None:  # creating its loaders takes a quarter of a claim's time
        transformer = Transformer(_Context(form.adapters, None if bare else conn))
        session.kept |= {form.adapters: transformer} if bare else {}
    packed: list[tuple[_Call, _Values]] = []
    for call in calls:  # as text: the server knows the types, and takes no others in binary
        values = [call.params[name] for name in call.statement.params]
        texts = transformer.dump_sequence(values, [PyFormat.TEXT] * len(values)) if values else ()
        packed.append((call, texts))
    with conn.lock:
        answer = _ask(conn, session, packed, form.format)
    rows: list[Any] = []
    for result in answer:
        transformer.set_pgresult(result)
        rows += transformer.load_rows(0, result.ntuples, tuple)
    transformer.set_pgresult(None)  # it may be kept
    return rows


def _ask(
    conn: Connection[Any],
    session: _Session,
    calls: _Packed,
    result_format: Format,
) -> _Answer:
    """Do as _exchange() with prepared statements, as long as they exist."""
    is_first = conn.pgconn.transaction_status == TransactionStatus.IDLE
    try:
        # If psycopg must not prepare, there is a pooler, and another session each time.
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

    kept: prepare the statements that are not prepared yet, and use them.
    """
    pgconn = conn.pgconn
    if pgconn.status != ConnStatus.OK:
        raise psycopg.OperationalError("the connection is closed")
    try:
        is_ours = pgconn.pipeline_status == PipelineStatus.OFF
        pgconn.enter_pipeline_mode()
        sent = _send(pgconn, session if kept else None, calls, result_format)
        pgconn.pipeline_sync()
        while pgconn.flush():
            writable(pgconn.socket)
        answers = _receive(pgconn)
        if is_ours and pgconn.status == ConnStatus.OK:
            pgconn.exit_pipeline_mode()
    except BaseException:
        conn.close()  # a late answer must not be taken for that of the next call
        raise
    return _last_of(conn, sent, answers)


def _last_of(conn: Connection[Any], sent: _Sent, answers: list[_Answer]) -> _Answer:
    """Return the answer to the last call; call the `then` of good ones before raising an error."""
    for then, answer in zip(sent, answers, strict=False):
        if answer[-1].status not in _GOOD:
            error = error_from_result(answer[-1], encoding=conn.info.encoding)
            raise psycopg.OperationalError(str(error)) if error.sqlstate is None else error
        if then is not None:
            then()
    if len(answers) < len(sent):
        raise psycopg.OperationalError(conn.pgconn.get_error_message())
    return answers[len(sent) - 1]  # a loss right behind it is an answer to nothing


def _send(pgconn: PGconn, session: _Session | None, calls: _Packed, result_format: Format) -> _Sent:
    """Send the calls, as prepared statements of a session if there is one."""
    sent: _Sent = []
    prepared = set() if session is None else set(session.prepared)
    for call, values in calls:
        if session is None:
            pgconn.send_query_params(call.statement.text, values, result_format=result_format)
            sent.append(call.then)
            continue
        name = call.statement.name + b"_%d" % session.losses
        if name not in prepared:
            prepared.add(name)
            pgconn.send_prepare(name, call.statement.text)
            sent.append(partial(session.prepared.add, name))
        pgconn.send_query_prepared(name, values, result_format=result_format)
        sent.append(call.then)
    return sent


def _receive(pgconn: PGconn) -> list[_Answer]:
    """Return the answers up to the sync, or up to the loss of the connection."""
    answers: list[_Answer] = []
    answer: _Answer = []
    while pgconn.status == ConnStatus.OK or answer:
        if pgconn.is_busy():
            _await(pgconn)
        result = pgconn.get_result()
        if result is None:
            if not answer:
                break  # lost while sending: libpq has an error for one answer, but keeps status OK
            answers.append(answer)
            answer = []
        elif result.status == ExecStatus.PIPELINE_SYNC:
            break
        else:
            answer.append(result)
    return answers


def _await(pgconn: PGconn) -> None:
    """Wait until get_result() would not: its own wait blocks signals and other threads.

    A notification, or half an answer, may end a wait early.
    """
    with suppress(psycopg.OperationalError):  # for a lost connection get_result() reports
        while pgconn.is_busy():
            poll = select.poll()
            poll.register(pgconn.socket, select.POLLIN)
            poll.poll()
            pgconn.consume_input()
