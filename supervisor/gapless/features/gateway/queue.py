"""Queue groups: take events, say what became of them; gapless.ops does both.

A receipt is all that a client has in hand. Whoever loses it, or an answer, loses nothing: the
events are anybody's again when their time is over.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from psycopg import Connection
from starlette.requests import Request
from starlette.responses import Response

from gapless.features.gateway.access import require_counts
from gapless.features.gateway.fields import Fields, fields_in
from gapless.features.gateway.gateway import Gateway
from gapless.features.gateway.params import seconds_in, text_in
from gapless.features.queue import ops
from gapless.features.queue.taken import take_texts, taken_json
from gapless.log.catch_up import sequence_if_alone
from gapless.log.ranges import bounds_of
from gapless.ops.text import json_text

WAIT_S_MAX = 30.0
LOOK_EVERY_S = 1.0  # what becomes due again tells nobody
EVENTS_MAX = 1_000


async def take(gateway: Gateway, request: Request) -> Response:
    """Take events; with `wait` until there are some. 204: there are none."""
    group = text_in(request.path_params, "group")
    wait_s = seconds_in(request.query_params, "wait", 0.0, WAIT_S_MAX)
    fields = await fields_in(request, "topic max_events visibility_s")
    topic = fields.text("topic")
    work = partial(
        _taken,
        group=group,
        topic=topic,
        max_events=fields.whole("max_events", 1, 1, EVENTS_MAX),
        visibility_s=fields.number("visibility_s", 60.0),
    )
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


async def acknowledge(gateway: Gateway, request: Request) -> Response:
    """Say that what a receipt holds, or one event of it, is handled."""
    fields = await fields_in(request, "topic receipt offset")
    held = _held(request, fields)
    return await _counted(gateway, lambda conn: ops.acknowledge(conn, held))


async def release(gateway: Gateway, request: Request) -> Response:
    """Give it back, at once or after some seconds."""
    fields = await fields_in(request, "topic receipt offset delay_s reason")
    held, delay_s = _held(request, fields), fields.number("delay_s", 0.0)
    reason = fields.text("reason", "") or None
    return await _counted(
        gateway, lambda conn: ops.release(conn, held, delay_s=delay_s, reason=reason)
    )


async def reject(gateway: Gateway, request: Request) -> Response:
    """Make it a dead letter."""
    fields = await fields_in(request, "topic receipt offset reason")
    held, reason = _held(request, fields), fields.text("reason")
    return await _counted(gateway, lambda conn: ops.reject(conn, held, reason))


async def extend(gateway: Gateway, request: Request) -> Response:
    """Keep it longer."""
    fields = await fields_in(request, "topic receipt offset visibility_s")
    held, visibility_s = _held(request, fields), fields.number("visibility_s", 60.0)
    until = await gateway.sessions.run(lambda conn: ops.extend(conn, held, visibility_s))
    return _answer({"until": until})


def _taken(conn: Connection[Any], *, group: str, topic: str, **how: Any) -> list[ops.TakenEvent]:
    sequence_if_alone(conn)
    return take_texts(conn, group, topic, **how)


def _held(request: Request, fields: Fields) -> ops.Receipt:
    return ops.Receipt(
        group=text_in(request.path_params, "group"),
        topic=fields.text("topic"),
        receipt=fields.text("receipt"),
        offset=fields.whole("offset", 0, 1, 10**18) or None,
    )


async def _counted(gateway: Gateway, work: Any) -> Response:
    return _answer({"events": await gateway.sessions.run(work)})


def _answer(said: dict[str, Any]) -> Response:
    return Response(json_text(said), media_type="application/json")
