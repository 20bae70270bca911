"""Ordered groups: join as a member, poll, commit; gapless.ops and the database do the work.

A member is known by its token, at any gateway: no gateway keeps any state of it. A call after the
member's deadline, or after its partition went to another member, gets 409; `next` says what to do.
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
from gapless.features.gateway.gateway import Gateway
from gapless.features.gateway.problem import Problem
from gapless.features.gateway.shape import (
    EVENT,
    MAYBE_TEXT,
    NOTHING,
    OFFSET_MAX,
    TIME,
    UUID_TEXT,
    Shape,
    listed,
    record,
    seconds,
    takes,
    text,
    whole,
)
from gapless.features.gateway.way import AnswerShape, Asked, Ways
from gapless.log.catch_up import sequence_if_alone
from gapless.log.ranges import bounds_of
from gapless.ops.text import json_text

TOKEN = "Gapless-Token"  # noqa: S105 - the name of a header
WAIT_S_MAX = 30.0
LOOK_EVERY_S = 1.0  # partitions that others release, and redrives, send no notification
EVENTS_MAX = 1_000
_MEMBER = "/v1/groups/{group}/members/{member_id}"
_PARTITION = whole(0, 2**31 - 1)
_POSITIVE: Shape = {"type": "integer", "minimum": 1}
_TOKEN: Shape = {
    "type": "string",
    "minLength": 1,
    "description": "it carries the token that joining returned",
}
_HOW: dict[str, Any] = {
    "scope": "consume:{group}",
    "headers": takes(TOKEN, **{TOKEN: _TOKEN}),
    "fails": (404, 409),
}
_DONE = {204: AnswerShape("Done.")}
_STANDING: dict[str, Shape] = {
    "expires_at": {**TIME, "description": "The deadline, unless the member calls before."},
    "partitions": listed(
        {"type": "integer", "minimum": 0}, "The partitions that the member holds."
    ),
    "problem": {**MAYBE_TEXT, "description": "Why partitions of it stand still."},
}
_POLLED = record(
    "partition offset first_offset last_offset attempt redriven payload",
    **EVENT,
    first_offset=_POSITIVE,
    last_offset={**_POSITIVE, "description": "Commit last_offset + 1."},
    attempt=_POSITIVE,
    redriven={
        "type": "boolean",
        "description": "Of the dead letter queue, out of order: commit it as redriven.",
    },
    created=TIME,
)
ways = Ways()


@ways.way(
    "POST /v1/groups/{group}/members",
    body=takes(
        "topic",
        topic=text(),
        ttl_s=seconds(
            3600,
            "The deadline: a member that says nothing for so many seconds is gone.",
            least=3,
            default=30.0,
        ),
        name=text(maxLength=100),
    ),
    answers={
        201: AnswerShape(
            "It is a member.",
            record(
                "member_id token topic expires_at",
                member_id=UUID_TEXT,
                token={"type": "string", "description": "Shown this once."},
                topic={"type": "string"},
                expires_at=TIME,
            ),
        )
    },
    **{**_HOW, "headers": NOTHING},
)
async def join(gateway: Gateway, _request: Request, asked: Asked) -> Response:
    """Join an ordered group as a member; the answer has the token, this once."""
    group, topic, ttl_s, name = (asked[each] for each in ("group", "topic", "ttl_s", "name"))
    if not abs(ttl_s) <= WAIT_S_MAX * 1_000:  # the range of a time in PostgreSQL
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


@ways.way(
    f"POST {_MEMBER}/poll",
    query=takes(wait=seconds(WAIT_S_MAX, "Seconds to wait for events.", default=0.0)),
    body=takes(
        max_events=whole(1, EVENTS_MAX, default=100),
        partitions=listed(_PARTITION, "Only of these."),
    ),
    answers={
        200: AnswerShape(
            "Whole units, in order; perhaps none.",
            record("expires_at partitions problem events", **_STANDING, events=listed(_POLLED)),
        )
    },
    **_HOW,
)
async def poll(gateway: Gateway, request: Request, asked: Asked) -> Response:
    """Return events of the partitions that the member holds; with `wait`, wait for some."""
    wait_s, how = asked["wait"], {name: asked[name] for name in ("max_events", "partitions")}
    work = partial(_polled, member=_member(asked), **how)
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


@ways.way(
    f"POST {_MEMBER}/commit",
    body=takes(
        "partition",
        partition=_PARTITION,
        next_offset=whole(
            1,
            OFFSET_MAX,
            "last_offset + 1 of a unit; all before it in the partition is handled too.",
        ),
        redriven=whole(1, OFFSET_MAX, "Instead: first_offset of a redriven unit."),
    ),
    answers={
        200: AnswerShape(
            "It is.",
            record(
                "moved",
                moved={"type": "boolean", "description": "False: it was there already."},
            ),
        )
    },
    **_HOW,
)
async def commit(gateway: Gateway, _request: Request, asked: Asked) -> Response:
    """Say how far a partition is handled, or end a redriven unit."""
    member = _member(asked)
    partition, next_offset, redriven = (
        asked[each] for each in ("partition", "next_offset", "redriven")
    )
    if (next_offset is None) == (redriven is None):
        raise Problem(400, "next_offset, or redriven: one of them")

    def work(conn: Connection[Any]) -> bool:
        if next_offset is not None:
            return ops.commit_offset(conn, member, partition, next_offset)
        ops.commit_redriven(conn, member, partition, redriven)
        return True

    return _answer({"moved": await gateway.sessions.run(work)})


@ways.way(
    f"POST {_MEMBER}/reject reject_unit",
    body=takes(
        "partition first_offset reason",
        partition=_PARTITION,
        first_offset=whole(1, OFFSET_MAX),
        reason=text(),
    ),
    answers=_DONE,
    **_HOW,
)
async def reject(gateway: Gateway, _request: Request, asked: Asked) -> Response:
    """Make a unit a dead letter, and continue behind it."""
    member = _member(asked)
    what = [asked[each] for each in ("partition", "first_offset", "reason")]
    return await _done(gateway, lambda conn: ops.reject_unit(conn, member, *what))


@ways.way(
    f"POST {_MEMBER}/heartbeat",
    body=NOTHING,
    answers={
        200: AnswerShape("It is renewed.", record("expires_at partitions problem", **_STANDING))
    },
    **_HOW,
)
async def heartbeat(gateway: Gateway, _request: Request, asked: Asked) -> Response:
    """Renew the deadline while work continues."""
    member = _member(asked)
    standing = await gateway.sessions.run(lambda conn: ops.renew_member(conn, member))
    return _answer(_standing(standing))


@ways.way(f"DELETE {_MEMBER}", answers=_DONE, **_HOW)
async def leave(gateway: Gateway, _request: Request, asked: Asked) -> Response:
    """Leave the group; it is no error to have left."""
    member = _member(asked)
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


def _member(asked: Asked) -> ops.ClientMember:
    return ops.ClientMember(group=asked["group"], member_id=asked["member_id"], token=asked[TOKEN])


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
