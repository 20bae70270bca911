"""Publish events in the caller's own transaction, through whatever connection it has.

A convenience over a plain INSERT into gapless.outbox_message_t: no lock, no offset, and no NOTIFY
but the wake handshake. One event is one call of the SQL function gapless.publish(), some are one
statement, many are a COPY. What a handler publishes is published for the unit at hand (log.cause).
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from contextlib import nullcontext
from functools import partial
from inspect import isawaitable
from typing import Any, overload
from uuid import UUID

import psycopg
from psycopg import AsyncConnection, AsyncCursor, Connection, Cursor
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from gapless.db.queries import query
from gapless.errors import PublishError
from gapless.failpoints import hit
from gapless.features.schemas import stored as schemas
from gapless.log import keyed
from gapless.log.borrowed import AsyncHost, borrow
from gapless.log.cause import Origin, Told, current_origin, told_of
from gapless.log.foreign import Trouble, play, play_async
from gapless.log.given import Events, given
from gapless.log.outgoing import outgoing, sent
from gapless.log.record import columns
from gapless.log.statements import (
    AT_ONCE,
    copied,
    row_of,
    script_of,
    statement_of,
    told_before,
    transaction_id,
)


@overload
def publish(
    conn: Connection[Any],
    topic: str,
    what: object,
    /,
    *,
    cause: Origin | None = None,
    **fields: Any,
) -> UUID: ...
@overload
def publish(
    conn: AsyncHost,
    topic: str,
    what: object,
    /,
    *,
    cause: Origin | None = None,
    **fields: Any,
) -> Awaitable[UUID]: ...
@overload
def publish(
    conn: object,
    topic: str,
    what: object,
    /,
    *,
    cause: Origin | None = None,
    **fields: Any,
) -> UUID: ...
def publish(
    conn: object,
    topic: str,
    what: object,
    /,
    *,
    cause: Origin | None = None,
    **fields: Any,
) -> UUID | Awaitable[UUID]:
    """Publish one event, or many, to `topic`; they exist when the caller's transaction commits.

    conn: of psycopg, psycopg2 or asyncpg; of SQLAlchemy 2, or a session; of Django. One that is
        async (AsyncConnection, AsyncSession, async_scoped_session, asyncpg's) is to be awaited:
        `await publish(…)`.
    what: a payload (see NewEvent.payload; `bytes` are JSON text already), a NewEvent, or an
        iterable of NewEvents (list, tuple, generator). A list of anything else is one payload.
    fields: for a plain payload, those of a NewEvent: key, event_type, … dedupe_key (once a window),
        deliver_at or deliver_in (not before that time), to_group (for that group only),
        to_subscription (for that subscription of it only).
    cause: the Unit (or Batch) that this comes of (I10). Left out: what the handler around this call
        is handling, if any. A handler with batch=True that does not loop over its batch says it.
    Returns the transaction_id under which the events can be found; with a dedupe_key as Published,
    which tells duplicates, and for later, too: its scheduled_ids are for cancel(). For a unit it
    follows from the unit, the same at every attempt. On an autocommit connection outside a
    transaction, all of `what` is one transaction.
    Raises PublishError for what cannot be stored, for an unknown topic, to_group or
    to_subscription (nothing was written), and as InvalidPayloadError for a payload that the topic's
    schema does not take (docs/use/schemas.md); UsageError for what is no connection; the driver's
    own error for what is the database's trouble. What the server refused has aborted the caller's
    transaction, as any failed statement does.
    """
    if not isinstance(topic, str):
        raise PublishError(f"publish(conn, topic, …): a topic is text, not {topic!r}")
    events = outgoing(given(what, fields))
    told = told_of(cause or current_origin())
    if isinstance(conn, Connection):
        return _publish_sync(conn, topic, events, told)
    if isinstance(conn, AsyncConnection):
        return _publish_async(conn, topic, events, told)
    found = borrow(conn)
    if isawaitable(found):
        return _publish_awaited(found, topic, events, told)
    if isinstance(found, Connection):
        return _publish_sync(found, topic, events, told)
    return _publish_foreign(found, topic, events, told)


def _publish_sync(conn: Connection[Any], topic: str, events: Events, told: Told) -> UUID:
    hit("publish.before")
    try:
        # Not conn.cursor(): the caller's connection may make cursors and rows of another kind.
        with sent(topic, events), Cursor(conn, row_factory=tuple_row) as cursor:
            published = _store(cursor, topic, events, told)
    except (psycopg.Error, UnicodeEncodeError) as error:
        raise publish_error(error) from error
    hit("publish.after")
    return published


def _store(cursor: Cursor[Any], topic: str, events: Events, told: Told) -> UUID:
    def ask(name: str, params: Mapping[str, Any]) -> tuple[Any, ...]:
        return row_of(cursor.execute(query("log", name), params, prepare=prepare).fetchone())

    conn = cursor.connection
    events = schemas.checked_by(cursor, topic, events)
    prepare = schemas.may_prepare(conn, topic)
    name, params, rest = statement_of(topic, events, told)
    if name in AT_ONCE:
        return transaction_id(ask(name, params))
    with conn.transaction() if _is_alone(conn) else nullcontext():
        before = ask("tell", told) if told else None
        row = ask(name, params)
        if name in keyed.NAMES:
            published: UUID = keyed.told(row)
        else:
            split = keyed.Split(rest)
            with cursor.copy(query("log", "copy_events")) as copy:
                for line in split.unkeyed(partial(copied, *row[1:])):
                    copy.write_row(line)
            tally = keyed.Tally(transaction_id(row), cursor.rowcount)
            with keyed.all_or_none(cursor):
                for block in split.blocks(topic, columns):
                    tally.add(ask("publish_each", block))
            published = tally.told()
        if before is not None:
            ask("tell", told_before(before))
    return published


async def _publish_async(
    conn: AsyncConnection[Any], topic: str, events: Events, told: Told
) -> UUID:
    hit("publish.before")
    try:
        async with AsyncCursor(conn, row_factory=tuple_row) as cursor:
            with sent(topic, events):
                published = await _store_async(cursor, topic, events, told)
    except (psycopg.Error, UnicodeEncodeError) as error:
        raise publish_error(error) from error
    hit("publish.after")
    return published


async def _store_async(cursor: AsyncCursor[Any], topic: str, events: Events, told: Told) -> UUID:
    async def ask(name: str, params: Mapping[str, Any]) -> tuple[Any, ...]:
        await cursor.execute(query("log", name), params, prepare=prepare)
        return row_of(await cursor.fetchone())

    conn = cursor.connection
    events = await schemas.checked_by_async(cursor, topic, events)
    prepare = schemas.may_prepare(conn, topic)
    name, params, rest = statement_of(topic, events, told)
    if name in AT_ONCE:
        return transaction_id(await ask(name, params))
    async with conn.transaction() if _is_alone(conn) else nullcontext():
        before = await ask("tell", told) if told else None
        row = await ask(name, params)
        if name in keyed.NAMES:
            published: UUID = keyed.told(row)
        else:
            split = keyed.Split(rest)
            async with cursor.copy(query("log", "copy_events")) as copy:
                for line in split.unkeyed(partial(copied, *row[1:])):
                    await copy.write_row(line)
            tally = keyed.Tally(transaction_id(row), cursor.rowcount)
            async with keyed.all_or_none_async(cursor):
                for block in split.blocks(topic, columns):
                    tally.add(await ask("publish_each", block))
            published = tally.told()
        if before is not None:
            await ask("tell", told_before(before))
    return published


def _publish_foreign(conn: Any, topic: str, events: Events, told: Told) -> UUID:
    hit("publish.before")
    try:
        with sent(topic, events):
            script = script_of(conn, topic, events, told)
            published = play(conn, script, whole=not isinstance(events, list))
    except (Trouble, UnicodeEncodeError) as error:
        raise publish_error(error) from error.__cause__
    hit("publish.after")
    return published


async def _publish_awaited(found: Awaitable[Any], topic: str, events: Events, told: Told) -> UUID:
    conn = await found
    if isinstance(conn, AsyncConnection):
        return await _publish_async(conn, topic, events, told)
    hit("publish.before")
    try:
        with sent(topic, events):
            script = script_of(conn, topic, events, told)
            published = await play_async(conn, script, whole=not isinstance(events, list))
    except (Trouble, UnicodeEncodeError) as error:
        raise publish_error(error) from error.__cause__
    hit("publish.after")
    return published


def _is_alone(conn: Connection[Any] | AsyncConnection[Any]) -> bool:
    """Tell whether there is no transaction of the caller, and none begins with the first statement.

    Only then may publish() begin and commit one. In the caller's it MUST NOT use a savepoint: an
    error has to abort it all, or the rest would commit without the events that belong to it.
    """
    return conn.autocommit and conn.info.transaction_status == TransactionStatus.IDLE


def publish_error(error: psycopg.Error | Trouble | UnicodeEncodeError) -> Exception:
    """Turn what the event caused into a PublishError; leave everything else as it is."""
    if isinstance(error, Trouble):
        return _explain_trouble(error)
    if isinstance(error, UnicodeEncodeError):
        if error.encoding.startswith("utf"):
            return PublishError(f"text that is not valid Unicode cannot be stored: {error.reason}")
        character = error.object[error.start : error.end]
        return PublishError(
            f"the session's client_encoding ({error.encoding}) lacks {character!a}: set it to UTF8"
        )
    state = error.sqlstate or ""
    if state in ("GL404", "GL409", "GL422") or state.startswith("22"):
        detail = error.diag.message_detail
        return PublishError(f"{error.diag.message_primary}{f' ({detail})' if detail else ''}")
    if isinstance(error, psycopg.errors.NoDataFound | psycopg.DataError):
        return PublishError(str(error).splitlines()[0])
    return error


def _explain_trouble(trouble: Trouble) -> Exception:
    if trouble.state in ("GL404", "GL409", "GL422", "P0002") or trouble.state.startswith("22"):
        detail = f" ({trouble.detail})" if trouble.detail else ""
        return PublishError(f"{trouble.message}{detail}")
    return trouble.error
