"""The published events of a topic, for the assertions of a test."""

from __future__ import annotations

import inspect
from typing import Any
from uuid import UUID

from psycopg import Connection, Cursor
from psycopg.rows import tuple_row

from gapless.db.connect import connect_shared
from gapless.db.queries import query
from gapless.db.refused import refused
from gapless.errors import UsageError
from gapless.log.borrowed import borrow
from gapless.log.codec import decode, encode
from gapless.log.event import NewEvent

_SHOWN_MAX = 20
_ANY: Any = ...  # no value of JSON


def published(where: object, topic: str) -> list[NewEvent]:
    """Return the events of a topic, in the order of insertion, with or without an offset.

    where: a DSN, or a connection as publish() takes it, but not async: it also sees the events of
    its own open transaction. Payloads are decoded JSON.
    Raises UsageError for an unknown topic, psycopg.Error for errors of the database.
    """
    if isinstance(where, str):
        with connect_shared(where, role="testing") as conn:
            return _published(conn, topic)
    return _published(_psycopg(where), topic)


def assert_published(
    where: object,
    topic: str,
    payload: object = _ANY,
    *,
    times: int = 1,
    **fields: object,
) -> list[NewEvent]:
    """Assert that exactly `times` events of a topic match; return them.

    payload: as publish() takes it; an object may have more fields than those given here.
    fields: of a NewEvent: key, event_type, headers (which may have more fields, too), …
    times: how many events; 0: none.
    Raises AssertionError with the published events, and the errors of published().
    """
    there = published(where, topic)
    found = [event for event in there if _is_so(event, payload, fields)]
    if len(found) != times:
        wanted = {**({} if payload is _ANY else {"payload": payload}), **fields}
        shown = "".join(f"\n  {_shown(event)}" for event in there[:_SHOWN_MAX])
        more = f"\n  and {len(there) - _SHOWN_MAX} more" if len(there) > _SHOWN_MAX else ""
        raise AssertionError(
            f"{len(found)} events of {topic} instead of {times} have {wanted}; "
            f"published were {len(there)}:{shown}{more}"
        )
    return found


def _psycopg(where: object) -> Connection[Any]:
    conn = borrow(where)
    if isinstance(conn, Connection):
        return conn
    if inspect.iscoroutine(conn):
        conn.close()
    raise UsageError("published() takes a DSN, or a connection by psycopg that is not async")


def _published(conn: Connection[Any], topic: str) -> list[NewEvent]:
    with refused(), Cursor(conn, row_factory=tuple_row) as cursor:
        return [
            _event(row) for row in cursor.execute(query("testing", "published"), {"topic": topic})
        ]


def _event(row: tuple[Any, ...]) -> NewEvent:
    payload, key, event_type, headers, host_id, user_id, transaction_id = row
    return NewEvent(
        payload=None if payload is None else decode(payload),
        key=key,
        event_type=event_type,
        headers=None if headers is None else decode(headers),
        host_id=host_id,
        user_id=user_id,
        transaction_id=None if transaction_id is None else UUID(transaction_id),
    )


def _is_so(event: NewEvent, payload: object, fields: dict[str, object]) -> bool:
    if payload is not _ANY and not _has(event.payload, decode(encode(payload))):
        return False
    return all(_has(getattr(event, name), wanted) for name, wanted in fields.items())


def _has(value: object, wanted: object) -> bool:
    if isinstance(value, dict) and isinstance(wanted, dict):
        return all(name in value and _has(value[name], each) for name, each in wanted.items())
    return value == wanted


def _shown(event: NewEvent) -> str:
    parts = {name: getattr(event, name) for name in ("key", "event_type", "headers")}
    said = "".join(f" {name}={value!r}" for name, value in parts.items() if value is not None)
    return f"{encode(event.payload)}{said}"
