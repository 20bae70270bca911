"""Publish events in the caller's own transaction, through sync or async psycopg connections.

A convenience over a plain INSERT into gapless.outbox_message_t: no lock, no offset, and no NOTIFY
but the wake handshake. One event is one call of the SQL function gapless.publish(), some are one
statement, many are a COPY. What a handler publishes is published for the unit at hand (log.cause).
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Iterator
from contextlib import nullcontext
from functools import partial
from itertools import chain, islice
from typing import Any, overload
from uuid import UUID

import psycopg
from psycopg import AsyncConnection, AsyncCursor, Connection, Cursor
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from gapless.db.queries import query
from gapless.errors import PublishError
from gapless.failpoints import hit
from gapless.log import keyed
from gapless.log.cause import Origin, Told, current_origin, told_of
from gapless.log.codec import is_record
from gapless.log.event import GIVEN, NewEvent
from gapless.log.outgoing import Events, outgoing, sent
from gapless.log.record import columns, record

_COPY_ABOVE = 200  # events: up to here one statement is faster than the round trips of a COPY


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
    conn: AsyncConnection[Any],
    topic: str,
    what: object,
    /,
    *,
    cause: Origin | None = None,
    **fields: Any,
) -> Awaitable[UUID]: ...
def publish(
    conn: Connection[Any] | AsyncConnection[Any],
    topic: str,
    what: object,
    /,
    *,
    cause: Origin | None = None,
    **fields: Any,
) -> UUID | Awaitable[UUID]:
    """Publish one event, or many, to `topic`; they exist when the caller's transaction commits.

    what: a payload (see NewEvent.payload; `bytes` are JSON text already), a NewEvent, or an
        iterable of NewEvents (list, tuple, generator). A list of anything else is one payload.
    fields: for a plain payload, those of a NewEvent: key, event_type, … dedupe_key (once a window),
        deliver_at or deliver_in (not before that time).
    cause: the Unit (or Batch) that this comes of (I10). Left out: what the handler around this call
        is handling, if any. A handler with batch=True that does not loop over its batch says it.
    Returns the transaction_id under which the events can be found; with a dedupe_key as Published,
    which tells duplicates, and for later, too: its scheduled_ids are for cancel(). For a unit it
    follows from the unit, the same at every attempt. With an async connection, `await` it. On an
    autocommit connection outside a transaction, all of `what` is one transaction.
    Raises PublishError for what cannot be stored and for an unknown topic (nothing was written);
    psycopg.Error for what is the database's trouble. What the server refused has aborted the
    caller's transaction, as any failed statement does.
    """
    events = outgoing(_events(what, fields))
    told = told_of(cause or current_origin())
    if isinstance(conn, AsyncConnection):
        return _publish_async(conn, topic, events, told)
    return _publish_sync(conn, topic, events, told)


def _publish_sync(conn: Connection[Any], topic: str, events: Events, told: Told) -> UUID:
    hit("publish.before")
    try:
        # Not conn.cursor(): the caller's connection may make cursors and rows of another kind.
        with sent(topic, events), Cursor(conn, row_factory=tuple_row) as cursor:
            published = _store(cursor, topic, events, told)
    except (psycopg.Error, UnicodeEncodeError) as error:
        raise _explain(error) from error
    hit("publish.after")
    return published


def _store(cursor: Cursor[Any], topic: str, events: Events, told: Told) -> UUID:
    name, params, rest = _statement(topic, events, told)
    if name in _AT_ONCE:
        return _transaction_id(cursor.execute(query("log", name), params).fetchone())
    conn = cursor.connection
    with conn.transaction() if _is_alone(conn) else nullcontext():
        before = _row(cursor.execute(query("log", "tell"), told).fetchone()) if told else None
        row = _row(cursor.execute(query("log", name), params).fetchone())
        if name in keyed.NAMES:
            published: UUID = keyed.told(row)
        else:
            split = keyed.Split(rest)
            with cursor.copy(query("log", "copy_events")) as copy:
                for copied in split.unkeyed(partial(_copied, *row[1:])):
                    copy.write_row(copied)
            tally = keyed.Tally(_transaction_id(row), cursor.rowcount)
            with keyed.all_or_none(cursor):
                for block in split.blocks(topic, columns):
                    tally.add(cursor.execute(query("log", "publish_each"), block).fetchone())
            published = tally.told()
        if before is not None:
            cursor.execute(query("log", "tell"), _told_before(before))
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
        raise _explain(error) from error
    hit("publish.after")
    return published


async def _store_async(cursor: AsyncCursor[Any], topic: str, events: Events, told: Told) -> UUID:
    async def ask(name: str, params: dict[str, Any]) -> tuple[Any, ...]:
        await cursor.execute(query("log", name), params)
        return _row(await cursor.fetchone())

    name, params, rest = _statement(topic, events, told)
    if name in _AT_ONCE:
        return _transaction_id(await ask(name, params))
    conn = cursor.connection
    async with conn.transaction() if _is_alone(conn) else nullcontext():
        before = await ask("tell", told) if told else None
        row = await ask(name, params)
        if name in keyed.NAMES:
            published: UUID = keyed.told(row)
        else:
            split = keyed.Split(rest)
            async with cursor.copy(query("log", "copy_events")) as copy:
                for copied in split.unkeyed(partial(_copied, *row[1:])):
                    await copy.write_row(copied)
            tally = keyed.Tally(_transaction_id(row), cursor.rowcount)
            async with keyed.all_or_none_async(cursor):
                for block in split.blocks(topic, columns):
                    tally.add(await ask("publish_each", block))
            published = tally.told()
        if before is not None:
            await ask("tell", _told_before(before))
    return published


def _is_alone(conn: Connection[Any] | AsyncConnection[Any]) -> bool:
    """Tell whether there is no transaction of the caller, and none begins with the first statement.

    Only then may publish() begin and commit one. In the caller's it MUST NOT use a savepoint: an
    error has to abort it all, or the rest would commit without the events that belong to it.
    """
    return conn.autocommit and conn.info.transaction_status == TransactionStatus.IDLE


_AT_ONCE = ("publish_one", "publish_some", "publish_one_from", "publish_some_from")
"""The queries that are all there is to do; around the others a cause is told, and untold."""


def _statement(topic: str, events: Events, told: Told) -> tuple[str, dict[str, Any], Iterator[Any]]:
    """Return the query that stores the events, with its parameters, and what it leaves to a COPY.

    Its row begins with the transaction_id; that of publish_many, before a COPY, has what _copied()
    begins with.
    """
    end = "_from" if told else ""
    if isinstance(events, list):
        one = {"topic": topic, **dict(zip(GIVEN, record(events[0]), strict=True))}
        if keyed.is_later(events[0]):
            return "publish_each", keyed.block_of(topic, events, columns(events)), iter(())
        if (key := keyed.key_text(events[0].dedupe_key)) is not None:
            return "publish_once", {**one, "dedupe_key": key}, iter(())
        return f"publish_one{end}", {**one, **told}, iter(())
    head: list[Any] = list(islice(events, _COPY_ABOVE + 1))
    if len(head) > _COPY_ABOVE:  # as they are: the server is not to wait until their JSON is made
        return "publish_many", {"topic": topic}, chain(head, events)
    some = columns(head)
    if any(map(keyed.is_special, head)):
        return "publish_each", keyed.block_of(topic, head, some), iter(())
    return f"publish_some{end}", {"topic": topic, **some, **told}, iter(())


def _copied(topic_id: Any, caused: Any, event: object) -> tuple[Any, ...]:
    """Return what a COPY writes of an event; a COPY that names a column leaves its default out."""
    made = record(event)
    if caused is None or made[-1] is not None:
        return (topic_id, *made)
    return (topic_id, *made[:-1], caused)


def _events(what: object, fields: dict[str, Any]) -> Events:
    """Return a list of one event, or an iterator over many."""
    many = _as_many(what)
    if many is None:
        return [what if isinstance(what, NewEvent) and not fields else _new_event(what, fields)]
    if fields:
        raise PublishError(f"{', '.join(fields)}: with many events, set it on each NewEvent")
    return iter(many)


def _as_many(what: object) -> Iterable[object] | None:
    if isinstance(what, list | tuple):
        return what if what and all(isinstance(item, NewEvent) for item in what) else None
    if isinstance(what, str | bytes | bytearray | dict) or not isinstance(what, Iterable):
        return None
    if is_record(what):  # a model of pydantic can be iterated over: over its fields
        return None
    return what


def _new_event(payload: object, fields: dict[str, Any]) -> NewEvent:
    if isinstance(payload, NewEvent):
        raise PublishError(f"{', '.join(fields)}: set it on the NewEvent")
    try:
        return NewEvent(payload=payload, **fields)
    except TypeError:
        known = [name for name in NewEvent.__slots__ if name != "payload"]
        unknown = [name for name in fields if name not in known]
        raise PublishError(
            f"publish() does not know {', '.join(unknown)}; it takes {', '.join(known)}"
        ) from None


def _explain(error: psycopg.Error | UnicodeEncodeError) -> Exception:
    """Turn what the event caused into a PublishError; leave everything else as it is."""
    if isinstance(error, UnicodeEncodeError):
        if error.encoding.startswith("utf"):
            return PublishError(f"text that is not valid Unicode cannot be stored: {error.reason}")
        character = error.object[error.start : error.end]
        return PublishError(
            f"the session's client_encoding ({error.encoding}) lacks {character!a}: set it to UTF8"
        )
    state = error.sqlstate or ""
    if state == "GL404" or state.startswith("22"):
        detail = error.diag.message_detail
        return PublishError(f"{error.diag.message_primary}{f' ({detail})' if detail else ''}")
    if isinstance(error, psycopg.errors.NoDataFound | psycopg.DataError):
        return PublishError(str(error).splitlines()[0])
    return error


def _transaction_id(row: tuple[Any, ...] | None) -> UUID:
    # Whether a UUID arrives as one is up to the adapters of the caller's connection.
    return UUID(str(_row(row)[0]))


def _row(row: tuple[Any, ...] | None) -> tuple[Any, ...]:
    assert row is not None
    return row


def _told_before(row: tuple[Any, ...]) -> Told:
    return {"cause": row[0], "correlation": row[1]}
