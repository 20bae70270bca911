"""Queue groups: take events, acknowledge or reject them; gapless.ops does both.

A client holds nothing but a receipt. If a receipt, or an answer, is lost, no event is: others can
take the events when their time is over.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from psycopg import Connection
from starlette.requests import Request
from starlette.responses import Response

from gapless.features.gateway.access import require_counts
from gapless.features.gateway.gateway import Gateway
from gapless.features.gateway.shape import (
    EVENT,
    OFFSET_MAX,
    Shape,
    listed,
    record,
    seconds,
    some_seconds,
    takes,
    text,
    whole,
)
from gapless.features.gateway.way import AnswerShape, Asked, Ways
from gapless.features.queue import ops
from gapless.features.queue.taken import take_texts, taken_json
from gapless.log.catch_up import sequence_if_alone
from gapless.log.ranges import bounds_of
from gapless.ops.text import json_text

WAIT_S_MAX = 30.0
LOOK_EVERY_S = 1.0  # events that become due again send no notification
EVENTS_MAX = 1_000
_LONG_S = 366 * 86_400
_FAILS = (404, 409)
_VISIBILITY = some_seconds(_LONG_S, default=60.0)
_HELD: dict[str, Shape] = {
    "topic": text(),
    "receipt": text(),
    "offset": whole(1, OFFSET_MAX, "Only this event of it."),
}
_COUNTED = {200: AnswerShape("So many events.", record("events", events={"type": "integer"}))}
_TAKEN = record(
    "receipt partition offset attempt payload",
    **EVENT,
    receipt={"type": "string", "minLength": 1},
    attempt={"type": "integer"},
    created={"type": "string"},
)
ways = Ways()


@ways.way(
    "POST /v1/groups/{group}/take",
    "consume:{group}",
    query=takes(wait=seconds(WAIT_S_MAX, "Seconds to wait for one.", default=0.0)),
    body=takes(
        "topic",
        topic=text(),
        max_events=whole(1, EVENTS_MAX, default=1),
        visibility_s=_VISIBILITY,
    ),
    answers={
        200: AnswerShape(
            "Events, each with the receipt that holds it.", record("events", events=listed(_TAKEN))
        ),
        204: AnswerShape("There is none."),
    },
    fails=_FAILS,
)
async def take(gateway: Gateway, request: Request, asked: Asked) -> Response:
    """Take events; with `wait` until there are some. 204: there are none."""
    topic, wait_s = asked["topic"], asked["wait"]
    wanted = {name: asked[name] for name in ("group", "topic", "max_events", "visibility_s")}
    work = partial(_taken, **wanted)
    loop = asyncio.get_running_loop()
    give_up_s = loop.time() + wait_s
    if wait_s:
        gateway.listen_to(topic, await gateway.sessions.run(lambda conn: bounds_of(conn, topic)))
    while True:
        news = gateway.news_of(topic)  # MUST be before the look
        taken = await gateway.sessions.run(work)
        left_s = give_up_s - loop.time()
        if taken or left_s <= 0 or gateway.is_draining or await request.is_disconnected():
            break
        await gateway.either(news, min(LOOK_EVERY_S, left_s))
        await require_counts(request)
    if not taken:
        return Response(None, 204)
    events = ", ".join(taken_json(each, "group", "topic") for each in taken)
    return Response(f'{{"events": [{events}]}}', media_type="application/json")


@ways.way(
    "POST /v1/groups/{group}/acknowledge",
    "consume:{group}",
    body=takes("topic receipt", **_HELD),
    answers=_COUNTED,
    fails=_FAILS,
)
async def acknowledge(gateway: Gateway, _request: Request, asked: Asked) -> Response:
    """Say that what a receipt holds, or one event of it, is handled."""
    return await _counted(gateway, lambda conn: ops.acknowledge(conn, _held(asked)))


@ways.way(
    "POST /v1/groups/{group}/release",
    "consume:{group}",
    body=takes("topic receipt", **_HELD, delay_s=seconds(_LONG_S, default=0.0), reason=text()),
    answers=_COUNTED,
    fails=_FAILS,
)
async def release(gateway: Gateway, _request: Request, asked: Asked) -> Response:
    """Give it back, at once or after some seconds."""
    how = {name: asked[name] for name in ("delay_s", "reason")}
    return await _counted(gateway, lambda conn: ops.release(conn, _held(asked), **how))


@ways.way(
    "POST /v1/groups/{group}/reject",
    "consume:{group}",
    body=takes("topic receipt reason", **_HELD, reason=text()),
    answers=_COUNTED,
    fails=_FAILS,
)
async def reject(gateway: Gateway, _request: Request, asked: Asked) -> Response:
    """Make it a dead letter."""
    return await _counted(gateway, lambda conn: ops.reject(conn, _held(asked), asked["reason"]))


@ways.way(
    "POST /v1/groups/{group}/extend",
    "consume:{group}",
    body=takes("topic receipt", **_HELD, visibility_s=_VISIBILITY),
    answers={200: AnswerShape("Until then.", record("until", until={"type": "string"}))},
    fails=_FAILS,
)
async def extend(gateway: Gateway, _request: Request, asked: Asked) -> Response:
    """Keep it longer."""
    held, visibility_s = _held(asked), asked["visibility_s"]
    until = await gateway.sessions.run(lambda conn: ops.extend(conn, held, visibility_s))
    return _answer({"until": until})


def _taken(conn: Connection[Any], *, group: str, topic: str, **how: Any) -> list[ops.TakenEvent]:
    sequence_if_alone(conn)
    return take_texts(conn, group, topic, **how)


def _held(asked: Asked) -> ops.Receipt:
    return ops.Receipt(**{name: asked[name] for name in ("group", *_HELD)})


async def _counted(gateway: Gateway, work: Any) -> Response:
    return _answer({"events": await gateway.sessions.run(work)})


def _answer(said: dict[str, Any]) -> Response:
    return Response(json_text(said), media_type="application/json")
