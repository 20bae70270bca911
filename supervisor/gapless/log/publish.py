"""Publish events in the caller's own transaction, through sync or async psycopg connections.

A convenience over a plain INSERT into gapless.outbox_message_t: no lock, no offset, and no NOTIFY
but the wake handshake. One event is one call of the SQL function gapless.publish(), some are one
statement, many are a COPY. Those with a dedupe_key, and they alone, go other ways (keyed.py).
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
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
from gapless.log.event import NewEvent

_COPY_ABOVE = 200  # events: up to here one statement is faster than the round trips of a COPY
_COLUMNS = ("payload", "key", "event_type", "headers", "host_id", "user_id", "transaction_id")
_Record = tuple[str | None, ...]  # the columns' values as text, in that order
_Events = list[NewEvent] | Iterator[object]  # one, or many, which are looked at as they go
_TEXT = (str, UUID)
_JSON_TEXT = (bytes, bytearray)


def _encoder() -> Callable[[object], str]:
    """Return what json.dumps() does, made once.

    It makes an encoder for each call, and encode() one of C for each: as dear as 500 bytes of text.
    What contains itself ends in a RecursionError instead of a ValueError.
    """
    encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    make: Any = getattr(json.encoder, "c_make_encoder", None)  # as in iterencode()
    try:
        chunks = make(
            None, encoder.default, json.encoder.encode_basestring, None, ":", ",", *(False,) * 3
        )
    except TypeError:  # no such thing on this Python, or another
        return encoder.encode
    return lambda value: "".join(chunks(value, 0))


_encode = _encoder()


@overload
def publish(
    conn: Connection[Any],
    topic: str,
    what: object,
    /,
    **fields: Any,
) -> UUID: ...
@overload
def publish(
    conn: AsyncConnection[Any],
    topic: str,
    what: object,
    /,
    **fields: Any,
) -> Awaitable[UUID]: ...
def publish(
    conn: Connection[Any] | AsyncConnection[Any], topic: str, what: object, /, **fields: Any
) -> UUID | Awaitable[UUID]:
    """Publish one event, or many, to `topic`; they exist when the caller's transaction commits.

    what: a payload (anything json.dumps takes; `bytes` are JSON text already), a NewEvent, or an
        iterable of NewEvents (list, tuple, generator). A list of anything else is one payload.
    fields: for a plain payload, those of a NewEvent: key, event_type, … dedupe_key (once a window).
    Returns the transaction_id under which the events can be found; with a dedupe_key as Published,
    which tells duplicates. With an async connection, `await` it. On an autocommit connection
    outside a transaction, all of `what` is one transaction.
    Raises PublishError for what cannot be stored (nothing was written), UsageError for an unknown
    topic. The caller's transaction is then aborted, as by any failed statement.
    """
    events = _events(what, fields)
    if isinstance(conn, AsyncConnection):
        return _publish_async(conn, topic, events)
    return _publish_sync(conn, topic, events)


def _publish_sync(conn: Connection[Any], topic: str, events: _Events) -> UUID:
    hit("publish.before")
    try:
        published = _store(conn, topic, events)
    except (psycopg.Error, UnicodeEncodeError) as error:
        raise _explain(error) from error
    hit("publish.after")
    return published


def _store(conn: Connection[Any], topic: str, events: _Events) -> UUID:
    # Not conn.cursor(): the caller's connection may make cursors and rows of another kind.
    with Cursor(conn, row_factory=tuple_row) as cursor:
        name, params, rest = _statement(topic, events)
        if name != "publish_many":
            row = cursor.execute(query("log", name), params).fetchone()
            return keyed.told(row) if name in keyed.NAMES else _transaction_id(row)
        with conn.transaction() if _is_alone(conn) else nullcontext():
            row = cursor.execute(query("log", name), params).fetchone()
            topic_id = _topic_id(row)
            split = keyed.Split(rest)
            with cursor.copy(query("log", "copy_events")) as copy:
                for record in split.unkeyed(_record):
                    copy.write_row((topic_id, *record))
            tally = keyed.Tally(_transaction_id(row), cursor.rowcount)
            with keyed.all_or_none(cursor):
                for block in split.blocks(topic, _columns):
                    tally.add(cursor.execute(query("log", "publish_each"), block).fetchone())
        return tally.told()


async def _publish_async(conn: AsyncConnection[Any], topic: str, events: _Events) -> UUID:
    hit("publish.before")
    try:
        published = await _store_async(conn, topic, events)
    except (psycopg.Error, UnicodeEncodeError) as error:
        raise _explain(error) from error
    hit("publish.after")
    return published


async def _store_async(conn: AsyncConnection[Any], topic: str, events: _Events) -> UUID:
    async with AsyncCursor(conn, row_factory=tuple_row) as cursor:
        name, params, rest = _statement(topic, events)
        if name != "publish_many":
            await cursor.execute(query("log", name), params)
            row = await cursor.fetchone()
            return keyed.told(row) if name in keyed.NAMES else _transaction_id(row)
        async with conn.transaction() if _is_alone(conn) else nullcontext():
            await cursor.execute(query("log", name), params)
            row = await cursor.fetchone()
            topic_id = _topic_id(row)
            split = keyed.Split(rest)
            async with cursor.copy(query("log", "copy_events")) as copy:
                for record in split.unkeyed(_record):
                    await copy.write_row((topic_id, *record))
            tally = keyed.Tally(_transaction_id(row), cursor.rowcount)
            async with keyed.all_or_none_async(cursor):
                for block in split.blocks(topic, _columns):
                    await cursor.execute(query("log", "publish_each"), block)
                    tally.add(await cursor.fetchone())
        return tally.told()


def _is_alone(conn: Connection[Any] | AsyncConnection[Any]) -> bool:
    """Tell whether there is no transaction of the caller, and none begins with the first statement.

    Only then may publish() begin and commit one. In the caller's it MUST NOT use a savepoint: an
    error has to abort it all, or the rest would commit without the events that belong to it.
    """
    return conn.autocommit and conn.info.transaction_status == TransactionStatus.IDLE


def _statement(topic: str, events: _Events) -> tuple[str, dict[str, Any], Iterator[Any]]:
    """Return the query that stores the events, with its parameters, and what it leaves to a COPY.

    Its row begins with the transaction_id; that of publish_many, before a COPY, has the topic's id.
    """
    if isinstance(events, list):
        one = dict(zip(_COLUMNS, _record(events[0]), strict=True))
        if (key := keyed.key_text(events[0].dedupe_key)) is not None:
            return "publish_once", {"topic": topic, **one, "dedupe_key": key}, iter(())
        return "publish_one", {"topic": topic, **one}, iter(())
    head: list[Any] = list(islice(events, _COPY_ABOVE + 1))
    if len(head) > _COPY_ABOVE:  # as they are: the server is not to wait until their JSON is made
        return "publish_many", {"topic": topic}, chain(head, events)
    columns = _columns(head)
    if [event.dedupe_key for event in head].count(None) < len(head):
        return "publish_each", keyed.block_of(topic, head, columns), iter(())
    return "publish_some", {"topic": topic, **columns}, iter(())


def _columns(events: Sequence[object]) -> dict[str, list[str | None] | None]:
    records = [_record(event) for event in events]
    return {name: _column(records, n) for n, name in enumerate(_COLUMNS)}


def _column(records: Sequence[_Record], n: int) -> list[str | None] | None:
    """Return what the records have in a column; None when nobody has anything."""
    column = [record[n] for record in records]
    return column if any(value is not None for value in column) else None


def _events(what: object, fields: dict[str, Any]) -> _Events:
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


def _record(event: object) -> _Record:
    """Return what an event has for _COLUMNS. MUST be quick: a COPY calls it for each event."""
    if not isinstance(event, NewEvent):
        raise PublishError(f"many events must all be NewEvents, not {type(event).__name__}")
    return (
        _json(event.payload, "payload"),
        _text(event.key, "key"),
        _text(event.event_type, "event_type"),
        None if event.headers is None else _json(event.headers, "headers"),
        _text(event.host_id, "host_id"),
        _text(event.user_id, "user_id"),
        _uuid(event.transaction_id),
    )


def _text(value: object, name: str) -> str | None:
    if value is None:
        return None
    if not isinstance(value, _TEXT):
        raise PublishError(f"{name} must be text, not {type(value).__name__}")
    text = str(value)
    if "\0" in text:
        raise PublishError(f"{name} {text!r} has a NUL character, which PostgreSQL cannot store")
    return text


def _json(value: object, name: str) -> str:
    if isinstance(value, _JSON_TEXT):
        try:
            return value.decode()
        except UnicodeDecodeError as error:
            raise PublishError(f"{name}: JSON text must be UTF-8: {error}") from error
    try:
        return _encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise PublishError(f"{name} is not JSON: {error}") from error


def _uuid(value: UUID | str | None) -> str | None:
    if value is None:
        return None
    try:
        return str(value if isinstance(value, UUID) else UUID(value))
    except (ValueError, AttributeError, TypeError) as error:
        raise PublishError(f"transaction_id {value!r} is not a UUID") from error


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
    assert row is not None
    # Whether a UUID arrives as one is up to the adapters of the caller's connection.
    return UUID(str(row[0]))


def _topic_id(row: tuple[Any, ...] | None) -> Any:
    assert row is not None
    return row[1]
