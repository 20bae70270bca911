"""Ask, and be answered: a request is an event with an id, its reply an event that is for no group.

The reply is found by its transaction_id, which follows from the request's: nothing is noted for who
waits, and any session that knows the id may wait. The server waits, in short calls (log.wait).
"""

from __future__ import annotations

from collections.abc import Awaitable
from time import monotonic
from typing import Any, overload

import psycopg
from psycopg import AsyncConnection, AsyncCursor, Connection, Cursor
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from gapless.db.queries import query
from gapless.errors import PublishError, ReplyError, UsageError
from gapless.features.schemas.stored import checked_by, checked_by_async, may_prepare
from gapless.log.codec import decode
from gapless.log.event import GIVEN, Event, NewEvent
from gapless.log.keyed import group_text, subscription_text
from gapless.log.record import record

TIMEOUT_S_MAX = 86_400.0
_CALL_S_MAX = 0.5
_REFUSED = ("GL400", "GL404", "GL409")
_FIELDS = ("key", "event_type", "headers", "host_id", "user_id", "to_group", "to_subscription")

Ask = tuple[str, dict[str, Any]]
"""A named query with its parameters."""


@overload
def request(
    conn: Connection[Any], topic: str, payload: object, /, timeout_s: float = ..., **fields: Any
) -> Any: ...
@overload
def request(
    conn: AsyncConnection[Any],
    topic: str,
    payload: object,
    /,
    timeout_s: float = ...,
    **fields: Any,
) -> Awaitable[Any]: ...
def request(
    conn: Connection[Any] | AsyncConnection[Any],
    topic: str,
    payload: object,
    /,
    timeout_s: float = 30.0,
    **fields: Any,
) -> Any:
    """Publish a request, wait for its reply, and return the decoded payload of that.

    conn: of psycopg, in autocommit and outside a transaction, for nobody handles what is not
    committed; an AsyncConnection is to be awaited. timeout_s: above 0, at most a day; a reply that
    comes later is not published. fields: to_group, to_subscription, key, event_type, headers,
    host_id, user_id, as of publish(). The topic has to take direct messages.
    Raises ReplyError when nobody has replied in time (the request may be handled all the same),
    PublishError for what cannot be stored or does not fit the schema, UsageError for a connection
    that is in a transaction.
    """
    if not isinstance(conn, Connection | AsyncConnection):
        raise UsageError(f"request() needs a connection of psycopg, not {type(conn).__name__}")
    if not conn.autocommit or conn.info.transaction_status != TransactionStatus.IDLE:
        raise UsageError(
            "request() needs a connection in autocommit, outside a transaction: nobody handles "
            "what is not committed"
        )
    first = _asked(topic, payload, timeout_s, fields)
    give_up_s = monotonic() + timeout_s
    if isinstance(conn, AsyncConnection):
        return _request_async(conn, topic, first, give_up_s)
    return _request_sync(conn, topic, first, give_up_s)


@overload
def reply(conn: Connection[Any], event: Event[Any], payload: object, /) -> bool: ...
@overload
def reply(conn: AsyncConnection[Any], event: Event[Any], payload: object, /) -> Awaitable[bool]: ...
def reply(
    conn: Connection[Any] | AsyncConnection[Any], event: Event[Any], payload: object, /
) -> bool | Awaitable[bool]:
    """Reply to a request, in the transaction that handles it.

    Returns False, and publishes nothing, when the time of the request is over.
    Raises PublishError for an event that is no request, and for a payload that cannot be stored.
    """
    (text, *_) = record(NewEvent(payload=payload))
    headers = event.headers
    (_, _, _, header_text, *_) = record(NewEvent(payload=None, headers=headers))
    ask: Ask = ("reply", {"topic": event.topic, "headers": header_text, "payload": text})
    if isinstance(conn, AsyncConnection):
        return _reply_async(conn, ask)
    return bool(_one(conn, ask))


def _asked(topic: str, payload: object, timeout_s: float, fields: dict[str, Any]) -> Ask:
    if unknown := sorted(set(fields) - set(_FIELDS)):
        raise PublishError(
            f"request() does not know {', '.join(unknown)}; it takes {', '.join(_FIELDS)}"
        )
    if isinstance(timeout_s, bool) or not 0 < timeout_s <= TIMEOUT_S_MAX:
        raise UsageError(f"timeout_s={timeout_s!r}: above 0, at most {TIMEOUT_S_MAX:.0f} seconds")
    stored = record(NewEvent(payload=payload, **fields))
    params = dict(zip(GIVEN, stored, strict=True))
    del params["transaction_id"]
    params["to_group"] = to_group = group_text(fields.get("to_group"))
    params["to_subscription"] = subscription_text(fields.get("to_subscription"), to_group)
    return "request", {"topic": topic, **params, "timeout_s": timeout_s}


def _request_sync(conn: Connection[Any], topic: str, first: Ask, give_up_s: float) -> Any:
    with Cursor(conn, row_factory=tuple_row) as cursor:
        checked_by(cursor, topic, [_event_of(first)])
    request_id = _one(conn, first)
    while True:
        found = _one(conn, _waited(topic, request_id, give_up_s))
        if found is not None:
            return decode(found)
        _require_time(request_id, give_up_s)


async def _request_async(
    conn: AsyncConnection[Any], topic: str, first: Ask, give_up_s: float
) -> Any:
    async with AsyncCursor(conn, row_factory=tuple_row) as cursor:
        await checked_by_async(cursor, topic, [_event_of(first)])
    request_id = await _one_async(conn, first)
    while True:
        found = await _one_async(conn, _waited(topic, request_id, give_up_s))
        if found is not None:
            return decode(found)
        _require_time(request_id, give_up_s)


def _event_of(first: Ask) -> NewEvent:
    """Return what the schema of the topic has to take."""
    _, params = first
    return NewEvent(payload=params["payload"].encode(), event_type=params["event_type"])


async def _reply_async(conn: AsyncConnection[Any], ask: Ask) -> bool:
    return bool(await _one_async(conn, ask))


def _waited(topic: str, request_id: object, give_up_s: float) -> Ask:
    wait_s = min(_CALL_S_MAX, max(0.0, give_up_s - monotonic()))
    return "wait_reply", {"topic": topic, "request_id": str(request_id), "wait_s": wait_s}


def _require_time(request_id: object, give_up_s: float) -> None:
    if monotonic() >= give_up_s:
        raise ReplyError(f"nobody has replied to request {request_id} in time")


def _one(conn: Connection[Any], ask: Ask) -> Any:
    """Return the one value of a query; None without a row."""
    name, params = ask
    prepare = may_prepare(conn, params["topic"])
    try:
        with Cursor(conn, row_factory=tuple_row) as cursor:
            row = cursor.execute(query("log", name), params, prepare=prepare).fetchone()
    except psycopg.Error as error:
        raise _explain(error) from error
    return None if row is None else row[0]


async def _one_async(conn: AsyncConnection[Any], ask: Ask) -> Any:
    name, params = ask
    prepare = may_prepare(conn, params["topic"])
    try:
        async with AsyncCursor(conn, row_factory=tuple_row) as cursor:
            await cursor.execute(query("log", name), params, prepare=prepare)
            row = await cursor.fetchone()
    except psycopg.Error as error:
        raise _explain(error) from error
    return None if row is None else row[0]


def _explain(error: psycopg.Error) -> Exception:
    if error.sqlstate in _REFUSED or (error.sqlstate or "").startswith("22"):
        return PublishError(error.diag.message_primary or str(error))
    return error
