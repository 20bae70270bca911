"""The routes of an operator: gapless.ops over HTTP; the log names the caller of each change."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict, is_dataclass
from datetime import datetime, timedelta
from typing import Any

from psycopg import Connection
from starlette.requests import Request
from starlette.responses import Response

from gapless.db.queries import query
from gapless.features.gateway.gateway import Gateway
from gapless.features.gateway.params import PARTITION_MAX
from gapless.features.gateway.problem import Problem
from gapless.features.gateway.shape import PLACE, Shape, takes, text, truth, whole
from gapless.features.gateway.way import Asked, Ways
from gapless.ops import control
from gapless.ops.dlq import change
from gapless.ops.dlq.find import OPEN, STATES, DlqFilter, list_units, show_unit
from gapless.ops.place import GroupPlace, Point, read_since, read_time
from gapless.ops.text import json_text, plain
from gapless.ops.topics import list_topics

log = logging.getLogger("gapless.gateway")


WHICH: dict[str, Shape] = {
    "group": text("Of this group."),
    "topic": text("Of this topic."),
    "key": text("With this key."),
    "error": text("With this in its error."),
    "cause": text("With this error, as /v1/dlq/summary has it."),
    "type": text("With an event of this type."),
    "since": text("It failed last then or later: a time, or an age such as 2h."),
    "until": text("It failed last before then."),
    "states": text(
        f"Some of {', '.join(STATES)}, with commas between.",
        pattern=f"^(({'|'.join(STATES)})?(,|$))*$",
    ),
}
ways = Ways()


@ways.way("GET /v1/topics", "read:*")
async def topics(gateway: Gateway, _request: Request, _asked: Asked) -> Response:
    """Return all topics."""
    return await listed(gateway, list_topics)


@ways.way(
    "POST /v1/groups/{group}/seek",
    "operate",
    body=takes(
        "to",
        topic=text(),
        partition=whole(0, PARTITION_MAX),
        to=text("earliest, latest, an offset, or a time."),
        apply=truth(),
    ),
)
async def seek(gateway: Gateway, request: Request, asked: Asked) -> Response:
    """Say what a move would do or, with apply, do it; the group rests, or is not served."""
    place = GroupPlace(**{each: asked[each] for each in ("group", "topic", "partition")})
    to = Point.parse(asked["to"])
    if asked["apply"]:
        return said(await done_by(gateway, request, lambda conn: control.seek(conn, place, to)))
    return await listed(gateway, lambda conn: control.plan_seek(conn, place, to))


@ways.way(
    "GET /v1/dlq",
    "read:*",
    query=takes(
        **WHICH,
        limit=whole(1, 1_000, "Units, at most.", default=100),
        skip=whole(0, 1_000_000, "Without the first ones.", default=0),
    ),
)
async def units(gateway: Gateway, _request: Request, asked: Asked) -> Response:
    """Return units that were set aside, the newest failure first."""
    wanted, part = wanted_in(asked, OPEN), {name: asked[name] for name in ("limit", "skip")}
    return await listed(gateway, lambda conn: list_units(conn, wanted, **part))


@ways.way("GET /v1/dlq/unit", "read:*", query=takes("place", place=PLACE))
async def unit(gateway: Gateway, _request: Request, asked: Asked) -> Response:
    """Return one of them, with its events."""
    place = GroupPlace.parse_event(asked["place"])
    return said(await gateway.sessions.run(lambda conn: show_unit(conn, place)))


@ways.way("POST /v1/dlq/redrive", "operate", body=takes("place", place=PLACE))
async def redrive(gateway: Gateway, request: Request, asked: Asked) -> Response:
    """Have a unit handled again."""
    place, who = GroupPlace.parse_event(asked["place"]), asked_by(request)
    return said(
        await done_by(gateway, request, lambda conn: change.redrive_unit(conn, place, who=who))
    )


@ways.way("POST /v1/dlq/discard", "operate", body=takes("place reason", place=PLACE, reason=text()))
async def discard(gateway: Gateway, request: Request, asked: Asked) -> Response:
    """Give a unit up, for good."""
    place, how = (
        GroupPlace.parse_event(asked["place"]),
        {"reason": asked["reason"], "who": asked_by(request)},
    )
    return said(
        await done_by(gateway, request, lambda conn: change.discard_unit(conn, place, **how))
    )


def wanted_in(asked: Asked, default: Sequence[str]) -> DlqFilter:
    """Return the filter of a request. Raises Problem (400) for unknown states, UsageError."""
    said_states = (asked["states"] or ",".join(default)).split(",")
    states = [each for each in said_states if each]
    if set(states) - set(STATES):
        raise Problem(400, f"states={','.join(states)[:100]}: some of {', '.join(STATES)}")
    since = read_since(asked["since"]) if asked["since"] else None
    return DlqFilter(
        **{name: asked[name] for name in ("group", "topic", "key", "error")},
        error_form=asked["cause"],
        event_type=asked["type"],
        since=since if isinstance(since, datetime) else None,
        age=since if isinstance(since, timedelta) else None,
        until=read_time(asked["until"]) if asked["until"] else None,
        states=states,
    )


def asked_by(request: Request) -> str:
    """Return the name of the caller, for the audit."""
    return f"gateway: {getattr(request.state, 'caller', None) or 'without a key'}"


async def listed(gateway: Gateway, work: Callable[[Connection[Any]], Sequence[Any]]) -> Response:
    """Return records as an answer."""
    return said(await gateway.sessions.run(work))


async def done_by(
    gateway: Gateway, request: Request, work: Callable[[Connection[Any]], Any]
) -> Any:
    """Make a change in a transaction; the audit and the log name the caller."""
    who = asked_by(request)

    def attributed(conn: Connection[Any]) -> Any:
        with conn.transaction():
            conn.execute(query("gateway", "say_who"), {"who": who})
            return work(conn)

    return await logged_by(gateway, request, attributed)


async def logged_by(
    gateway: Gateway, request: Request, work: Callable[[Connection[Any]], Any]
) -> Any:
    """Make a change in transactions of its own; the log names the caller."""
    done = await gateway.sessions.run(work)
    log.info(
        "operate: %s %s by %s at %s: %s",
        request.method,
        plain(request.url.path),
        asked_by(request),
        plain(request.client.host) if request.client else "?",
        done,
    )
    return done


def said(what: Any) -> Response:
    """Return a record, several records, or a document as an answer."""
    found = (
        [_document(each) for each in what] if isinstance(what, list | tuple) else _document(what)
    )
    return Response(json_text(found), media_type="application/json")


def _document(what: Any) -> Any:
    return asdict(what) if is_dataclass(what) else what  # type: ignore[arg-type]
