"""POST events: one request is one unit, all of it or nothing; 202 after its commit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from hashlib import sha256
from typing import Any, NamedTuple
from uuid import UUID

from msgspec.json import encode
from psycopg import Connection
from starlette.requests import Request
from starlette.responses import Response

from gapless.errors import UsageError, WaitError
from gapless.features.gateway.body import Body, content_type, read_body
from gapless.features.gateway.cloudevents import CLOUD_EVENT
from gapless.features.gateway.events_in import (
    CLOUDEVENT,
    CLOUDEVENTS,
    JSON,
    LINES,
    events_in,
)
from gapless.features.gateway.gateway import Gateway
from gapless.features.gateway.problem import Problem
from gapless.features.gateway.shape import (
    NEW_EVENT,
    UUID_TEXT,
    listed,
    nullable,
    record,
    seconds,
    takes,
    text,
)
from gapless.features.gateway.waiting import look_until
from gapless.features.gateway.way import AnswerShape, Asked, Ways
from gapless.log.catch_up import sequence_if_alone
from gapless.log.event import NewEvent
from gapless.log.keyed import Published
from gapless.log.located import Located, locate
from gapless.log.publish import publish
from gapless.log.publish_request import publish_request
from gapless.log.record import KEY_LENGTH_MAX, is_special
from gapless.log.topics import require_topic
from gapless.log.wait import wait_for
from gapless.ops.groups import show_group
from gapless.ops.place import GroupPlace

WAIT_S = 10.0
WAIT_S_MAX = 30.0
SPOKEN_BYTES_MAX = 256 * 1024  # a larger body would block the loop for more than some ms
SPOKEN_EVENTS_MAX = 500  # as would more events
PLAIN_BYTES_MAX = 16 * 1024  # a body of which the event shares a transaction with others
AT_ONCE_BYTES_MAX = 8 * 1024  # a body that is parsed in one step, while other requests wait
_DONE = ("handled", "dead")
_NO_USE = (*_DONE, "skipped", "elsewhere", "rolled-back")
_Look = Callable[[], Awaitable[tuple[bool, dict[str, Any]]]]
_INTEGER = {"type": "integer"}
_PUBLISHED = record(
    "transaction_id events duplicate duplicates scheduled_ids",
    transaction_id={**nullable(UUID_TEXT), "description": "null of an empty batch."},
    events=_INTEGER,
    duplicate={"type": "boolean"},
    duplicates=_INTEGER,
    scheduled_ids=listed(_INTEGER),
    places=listed(
        record("", partition=_INTEGER, first_offset=_INTEGER, last_offset=_INTEGER, events=_INTEGER)
    ),
    group={"type": "string"},
    state={
        "enum": [
            "handled", "dead", "skipped", "waiting", "pending", "scheduled", "unsequenced", "open",
            "rolled-back", "elsewhere", "unknown",
        ]
    },
)  # fmt: skip
ways = Ways()


@ways.way(
    "POST /v1/topics/{topic}/events publish",
    "publish:{topic}",
    query=takes(
        wait=text(
            "Wait for offsets (offset), or until a group has handled the events (group:NAME).",
            pattern="^(offset|group:.+)?$",
        ),
        timeout=seconds(WAIT_S_MAX, "Seconds to wait, at most.", default=WAIT_S),
    ),
    headers=takes(
        **{
            "Idempotency-Key": {
                "type": "string",
                "minLength": 1,
                "maxLength": KEY_LENGTH_MAX,
                "description": "A repetition with it stores nothing and gets the first answer.",
            }
        }
    ),
    body={
        JSON[0]: {"oneOf": [NEW_EVENT, listed(NEW_EVENT, minItems=1)]},
        LINES[0]: {"type": "string", "description": "An event a line."},
        CLOUDEVENT: CLOUD_EVENT,
        CLOUDEVENTS: listed(CLOUD_EVENT),
    },
    answers={
        200: AnswerShape("Published, and the awaited state was reached.", _PUBLISHED),
        202: AnswerShape("Published: the transaction has committed.", _PUBLISHED),
    },
)
async def publish_events(gateway: Gateway, request: Request, asked: Asked) -> Response:
    """Publish events: one request is one unit; with `wait`, say what became of it."""
    wait, wait_s = asked["wait"] or "", asked["timeout"]
    if wait not in ("", "offset"):
        wait = _group_in(wait)
        # Other groups are not the producer's concern.
        gateway.access.require_any(request, f"consume:{wait}", "read:*")
    said = await _published(gateway, request, asked["topic"], wait)  # a wait holds no body
    gateway.stand_in.ring()
    is_done = False
    if wait and said["events"]:
        look = _offsets(gateway, said) if wait == "offset" else _group(gateway, said, wait)
        is_done, more = await look_until(gateway, request, look, wait_s)
        said |= more
    is_again = said["duplicate"] and "idempotency-key" in request.headers
    headers = {"Idempotency-Replayed": "true"} if is_again else {}
    status = 200 if is_done else 202
    return Response(encode(said), status, headers, media_type="application/json")


async def _published(gateway: Gateway, request: Request, topic: str, wait: str) -> dict[str, Any]:
    with gateway.budget.hold(request.scope["state"].get("caller", "")) as grown:
        read = await _read(gateway, request, grown)
        events, key, digest = read.events, read.key, read.digest
        if not events:
            await gateway.sessions.run(lambda conn: require_topic(conn, topic))  # or 404
            return _said(None, 0)
        if wait not in ("", "offset"):
            place = GroupPlace(group=wait)
            await gateway.sessions.run(lambda conn: show_group(conn, place))  # or 404, before

        def store(conn: Connection[Any]) -> UUID:
            if key is None:
                return publish(conn, topic, events)
            return publish_request(conn, topic, events, key=key, digest=digest)

        if key is None and read.is_plain:
            published: UUID = await gateway.together.publish(topic, events[0])
        elif key is None and read.is_short:
            published = await gateway.sessions.speak(lambda conn: publish(conn, topic, events))
        else:
            published = await gateway.sessions.run(store)
        return _said(published, len(events))


class _Read(NamedTuple):
    """The events of a request; its body is no longer needed.

    is_plain: one small event, which may share a transaction with other requests. is_short: it takes
    some ms.
    """

    events: list[NewEvent]
    is_plain: bool
    is_short: bool
    key: str | None
    digest: bytes


async def _read(gateway: Gateway, request: Request, grown: Callable[[int], None]) -> _Read:
    kind = content_type(request)
    body = await read_body(request, gateway.limits.batch_bytes_max, grown)
    size, found = len(body), events_in(kind, request.headers, body, gateway.limits)
    events = list(found) if size <= AT_ONCE_BYTES_MAX else await gateway.slices.collect(found)
    is_short = size <= SPOKEN_BYTES_MAX and len(events) <= SPOKEN_EVENTS_MAX
    key, digest = None, b""
    if "idempotency-key" in request.headers:
        key = _key_in(request, events)
        digest = await asyncio.to_thread(_digest, request, body)
    is_plain = size <= PLAIN_BYTES_MAX and len(events) == 1 and not is_special(events[0])
    return _Read(events, is_plain, is_short, key, digest)


def _said(published: UUID | None, events: int) -> dict[str, Any]:
    id_text = None if published is None else str(published)
    said: dict[str, Any] = {"transaction_id": id_text, "events": events}
    if not isinstance(published, Published):
        return {**said, "duplicate": False, "duplicates": 0, "scheduled_ids": []}
    return {
        **said,
        "duplicate": published.duplicate,
        "duplicates": published.duplicates,
        "scheduled_ids": list(published.scheduled_ids),
    }


def _key_in(request: Request, events: list[NewEvent]) -> str:
    """Return the request's key, without the quotes of a structured header."""
    given = request.headers.getlist("idempotency-key")
    key = given[0].strip()
    if len(key) > 1 and key[0] == key[-1] == '"':
        key = key[1:-1]
    if len(given) > 1 or not 0 < len(key) <= KEY_LENGTH_MAX:
        raise Problem(400, f"Idempotency-Key: one, of 1 to {KEY_LENGTH_MAX} characters")
    if any(event.dedupe_key is not None for event in events):
        raise Problem(
            400,
            "Idempotency-Key: the events have keys of their own (dedupe_key, a CloudEvent's id), "
            "so leave it out",
        )
    return key


def _digest(request: Request, body: Body) -> bytes:
    """Return a digest that tells requests with the same key apart."""
    digest = sha256(f"{content_type(request)}\n{request.headers.get('ce-id', '')}\n".encode())
    digest.update(body)
    return digest.digest()


def _group_in(wait: str) -> str:
    """Return the name of the group to wait for. Raises Problem (400)."""
    kind, _, group = wait.partition(":")
    if kind != "group" or not group:
        raise Problem(400, f"wait={wait[:100]!r}: it is offset, or group:NAME")
    return group


def _offsets(gateway: Gateway, said: dict[str, Any]) -> _Look:
    """Look up the places of the events; events for later have no offset yet."""
    wanted = said["events"] - len(said["scheduled_ids"])

    async def look() -> tuple[bool, dict[str, Any]]:
        found = await gateway.sessions.run(lambda conn: locate(conn, said["transaction_id"]))
        placed = [each for each in found if each.partition is not None]
        total = sum(each.events for each in placed)
        is_done = total >= wanted or (said["duplicate"] and len(placed) == len(found) > 0)
        return is_done, {"places": [_place(each) for each in placed]}

    return look


def _place(each: Located) -> dict[str, Any]:
    return {name: value for name, value in asdict(each).items() if name != "topic"}


def _group(gateway: Gateway, said: dict[str, Any], group: str) -> _Look:
    """Look up how far the group is with the events."""

    def ask(conn: Connection[Any]) -> str:
        sequence_if_alone(conn)
        try:
            return wait_for(conn, group, said["transaction_id"], 0)
        except WaitError as error:
            return error.state

    async def look() -> tuple[bool, dict[str, Any]]:
        try:
            state = await gateway.sessions.run(ask)
        except UsageError as error:  # the group was removed in the meantime
            raise Problem(404, str(error)) from error
        return state in _NO_USE, {"group": group, "state": state}

    return look
