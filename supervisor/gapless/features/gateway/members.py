"""Ordered groups: join as a member, poll, commit; gapless.ops and the database do it.

A member is known by its token, at any gateway: none of them keeps anything of it. Whoever comes
after its deadline, or after a partition went to another, gets 409, and `next` says what to do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from psycopg import Connection
from starlette.requests import Request
from starlette.responses import Response

from gapless.features.clients import ops
from gapless.features.gateway.access import require_counts
from gapless.features.gateway.fields import Fields, fields_in
from gapless.features.gateway.gateway import Gateway
from gapless.features.gateway.params import seconds_in, text_in
from gapless.features.gateway.problem import Problem
from gapless.log.catch_up import sequence_if_alone
from gapless.log.ranges import bounds_of
from gapless.ops.text import json_text

TOKEN = "Gapless-Token"  # noqa: S105 - the name of a header
WAIT_S_MAX = 30.0
LOOK_EVERY_S = 1.0  # what others let go of, and redrives, tell nobody
EVENTS_MAX = 1_000
_OFFSET_MAX = 10**18
_PARTITION_MAX = 2**31 - 1


async def join(gateway: Gateway, request: Request) -> Response:
    """Join; the answer has the token, this once."""
    group = text_in(request.path_params, "group")
    fields = await fields_in(request, "topic ttl_s name")
    topic, ttl_s = fields.text("topic"), fields.number("ttl_s", 30.0)
    name = fields.text("name", "") or None
    if not abs(ttl_s) <= WAIT_S_MAX * 1_000:  # what a time of PostgreSQL takes
        raise Problem(400, "ttl_s: from 3 to 3600")

    def work(conn: Connection[Any]) -> ops.JoinedClient:
        return ops.join_group(conn, group, topic, ttl_s=ttl_s, name=name)

    joined = await gateway.sessions.run(work)
    return _answer(
        {
            "member_id": str(joined.member_id),
            "token": joined.token,
            "topic": topic,
            "expires_at": joined.expires_at,
        },
        201,
    )


async def poll(gateway: Gateway, request: Request) -> Response:
    """Return events; with `wait` there are some, or time is over."""
    member = _member(request)
    wait_s = seconds_in(request.query_params, "wait", 0.0, WAIT_S_MAX)
    fields = await fields_in(request, "max_events partitions")
    work = partial(
        _polled,
        member=member,
        max_events=fields.whole("max_events", 100, 1, EVENTS_MAX),
        partitions=fields.wholes("partitions", 0, _PARTITION_MAX),
    )
    loop = asyncio.get_running_loop()
    give_up_s = loop.time() + wait_s
    news: asyncio.Event | None = None
    while True:
        events, standing = await gateway.sessions.run(work)
        left_s = give_up_s - loop.time()
        if events or left_s <= 0 or gateway.is_draining or await request.is_disconnected():
            break
        if news is None:
            await _listen(gateway, standing.topic)
        else:
            await gateway.either(news, min(LOOK_EVERY_S, left_s))
            await require_counts(request)
        news = gateway.news_of(standing.topic)  # MUST be before the look
    found = ", ".join(ops.polled_json(each) for each in events)
    head = json_text(_standing(standing))[:-1]
    return Response(f'{head}, "events": [{found}]}}', media_type="application/json")


async def commit(gateway: Gateway, request: Request) -> Response:
    """Move the group's offset, or end a redriven unit."""
    member = _member(request)
    fields = await fields_in(request, "partition next_offset redriven")
    partition = _partition(fields)
    next_offset = fields.whole("next_offset", 0, 1, _OFFSET_MAX)
    redriven = fields.whole("redriven", 0, 1, _OFFSET_MAX)
    if bool(next_offset) == bool(redriven):
        raise Problem(400, "next_offset, or redriven: one of them")

    def work(conn: Connection[Any]) -> bool:
        if next_offset:
            return ops.commit_offset(conn, member, partition, next_offset)
        ops.commit_redriven(conn, member, partition, redriven)
        return True

    return _answer({"moved": await gateway.sessions.run(work)})


async def reject(gateway: Gateway, request: Request) -> Response:
    """Make a unit a dead letter."""
    member = _member(request)
    fields = await fields_in(request, "partition first_offset reason")
    partition, reason = _partition(fields), fields.text("reason")
    first_offset = fields.whole("first_offset", 0, 1, _OFFSET_MAX)
    if not first_offset:
        raise Problem(400, "first_offset is missing")
    return await _done(
        gateway, lambda conn: ops.reject_unit(conn, member, partition, first_offset, reason)
    )


async def heartbeat(gateway: Gateway, request: Request) -> Response:
    """Renew the deadline."""
    member = _member(request)
    await fields_in(request, "")
    standing = await gateway.sessions.run(lambda conn: ops.renew_member(conn, member))
    return _answer(_standing(standing))


async def leave(gateway: Gateway, request: Request) -> Response:
    """Leave the group; it is no error to have left."""
    member = _member(request)
    return await _done(gateway, lambda conn: ops.leave_group(conn, member))


def _polled(
    conn: Connection[Any],
    *,
    member: ops.ClientMember,
    max_events: int,
    partitions: list[int] | None,
) -> tuple[list[ops.PolledEvent], ops.ClientStanding]:
    sequence_if_alone(conn)
    events = ops.poll_group(conn, member, max_events=max_events, partitions=partitions)
    return events, ops.renew_member(conn, member)


async def _listen(gateway: Gateway, topic: str) -> None:
    gateway.listen_to(topic, await gateway.sessions.run(lambda conn: bounds_of(conn, topic)))


def _member(request: Request) -> ops.ClientMember:
    token = request.headers.get(TOKEN, "")
    if not token:
        raise Problem(400, f"no header {TOKEN}: it carries the token that joining returned")
    return ops.ClientMember(
        group=text_in(request.path_params, "group"),
        member_id=text_in(request.path_params, "member_id"),
        token=text_in({TOKEN: token}, TOKEN),
    )


def _partition(fields: Fields) -> int:
    partition = fields.whole("partition", -1, 0, _PARTITION_MAX)
    if partition < 0:
        raise Problem(400, "partition is missing")
    return partition


def _standing(standing: ops.ClientStanding) -> dict[str, Any]:
    return {
        "expires_at": standing.expires_at,
        "partitions": standing.partitions,
        "problem": standing.problem,
    }


async def _done(gateway: Gateway, work: Callable[[Connection[Any]], object]) -> Response:
    await gateway.sessions.run(work)
    return Response(None, 204)


def _answer(said: dict[str, Any], status: int = 200) -> Response:
    return Response(json_text(said), status, media_type="application/json")
