"""Requests and replies: a request is an event with an id, its reply an event that is for no group.

The reply is found by its transaction_id, which follows from the request's: the database notes
nothing for a waiting session, and any session that knows the id may wait. The server waits, in
short calls (log.wait).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from time import monotonic
from typing import Any, overload

from psycopg import AsyncConnection, Connection
from psycopg.pq import TransactionStatus

from gapless.errors import PublishError, ReplyError, UsageError
from gapless.log.codec import decode
from gapless.log.event import GIVEN, Event, NewEvent
from gapless.log.known import known_topic
from gapless.log.play import Explaining, play
from gapless.log.record import group_text, record, subscription_text
from gapless.log.script import Script, Trouble

TIMEOUT_S_MAX = 86_400.0
_CALL_S_MAX = 0.5
_REFUSED = ("GL400", "GL404", "GL409")
_FIELDS = ("key", "event_type", "headers", "host_id", "user_id", "to_group", "to_subscription")


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
    """Publish a request, wait for its reply, and return the decoded payload of the reply.

    conn: of psycopg, in autocommit and outside a transaction, for no group handles an event before
    its commit; await the result with an AsyncConnection. timeout_s: seconds, above 0, at most a
    day; a later reply is not published. fields: to_group, to_subscription, key, event_type,
    headers, host_id, user_id, as of publish(). The topic has to take direct messages.
    Raises ReplyError when no reply came in time (the request may be handled all the same),
    PublishError for a payload that cannot be stored or does not fit the schema, UsageError for a
    connection that is in a transaction.
    """
    if not isinstance(conn, Connection | AsyncConnection):
        raise UsageError(f"request() needs a connection of psycopg, not {type(conn).__name__}")
    if not conn.autocommit or conn.info.transaction_status != TransactionStatus.IDLE:
        raise UsageError(
            "request() needs a connection in autocommit, outside a transaction: no handler gets "
            "an uncommitted event"
        )
    script = requesting(topic, payload, timeout_s, fields)
    return play(conn, script, Explaining(request_error))


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
    params = {"topic": event.topic, "headers": header_text, "payload": text}
    return play(conn, partial(_replied, params), Explaining(request_error))


def requesting(
    topic: str, payload: object, timeout_s: float, fields: dict[str, Any]
) -> Callable[[object], Script[Any]]:
    """Return a function that makes the script of request(); it raises as request() does."""
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
    asked = {"topic": topic, **params, "timeout_s": timeout_s}
    return partial(_requested, asked, monotonic() + timeout_s)


def _requested(params: dict[str, Any], give_up_s: float, conn: object) -> Script[Any]:
    topic = params["topic"]
    known = yield from known_topic(conn, topic)
    payload = params["payload"].encode()
    known.checked(topic, [NewEvent(payload=payload, event_type=params["event_type"])])
    (request_id,) = yield "request", params, known.prepare
    while True:
        wait_s = min(_CALL_S_MAX, max(0.0, give_up_s - monotonic()))
        slice_ = {"topic": topic, "request_id": str(request_id), "wait_s": wait_s}
        row = yield "wait_reply", slice_, known.prepare
        if row is not None and row[0] is not None:
            return decode(row[0])
        if monotonic() >= give_up_s:
            raise ReplyError(f"no handler has replied to request {request_id} in time")


def _replied(params: dict[str, Any], _: object) -> Script[bool]:
    (is_published,) = yield "reply", params, False
    return bool(is_published)


def request_error(trouble: Trouble) -> Exception:
    """Turn a database's refusal into a PublishError; leave every other error as it is."""
    if trouble.state in _REFUSED or trouble.state.startswith("22"):
        return PublishError(trouble.message)
    return trouble.error
