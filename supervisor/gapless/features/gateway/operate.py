"""What an operator sees and does: gapless.ops behind routes; who changed what is logged."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from typing import Any

from psycopg import Connection
from starlette.requests import Request
from starlette.responses import Response

from gapless import ops
from gapless.db.queries import query
from gapless.features.gateway.fields import Fields, fields_in
from gapless.features.gateway.gateway import Gateway
from gapless.features.gateway.params import PARTITION_MAX, text_in, whole_in
from gapless.features.gateway.problem import Problem
from gapless.ops.dlq.find import OPEN, STATES
from gapless.ops.text import json_text, plain

log = logging.getLogger("gapless.gateway")

UNITS = 100
UNITS_MAX = 1_000


async def topics(gateway: Gateway, _request: Request) -> Response:
    """Return all topics."""
    return await listed(gateway, ops.list_topics)


async def topic(gateway: Gateway, request: Request) -> Response:
    """Return the partitions of a topic."""
    name = text_in(request.path_params, "topic")
    return await listed(gateway, lambda conn: ops.show_topic(conn, name))


async def groups(gateway: Gateway, _request: Request) -> Response:
    """Return all groups, a line a topic."""
    return await listed(gateway, ops.list_groups)


async def group(gateway: Gateway, request: Request) -> Response:
    """Return the partitions of a group."""
    place = ops.GroupPlace(group=text_in(request.path_params, "group"))
    return await listed(gateway, lambda conn: ops.show_group(conn, place))


async def pause(gateway: Gateway, request: Request) -> Response:
    """Let a group, one topic of it or one partition rest."""
    fields = await fields_in(request, "topic partition reason")
    place, reason = _place_in(request, fields), fields.text("reason", "") or None
    done = await done_by(gateway, request, lambda conn: ops.pause(conn, place, reason=reason))
    return said(done)


async def resume(gateway: Gateway, request: Request) -> Response:
    """Let it continue."""
    place = _place_in(request, await fields_in(request, "topic partition"))
    return said(await done_by(gateway, request, lambda conn: ops.resume(conn, place)))


async def seek(gateway: Gateway, request: Request) -> Response:
    """Say what a seek would do or, with apply, do it; the group rests, or nobody serves it."""
    fields = await fields_in(request, "topic partition to apply")
    place, to = _place_in(request, fields), ops.Point.parse(fields.text("to"))
    if fields.truth("apply"):
        return said(await done_by(gateway, request, lambda conn: ops.seek(conn, place, to)))
    return await listed(gateway, lambda conn: ops.plan_seek(conn, place, to))


async def units(gateway: Gateway, request: Request) -> Response:
    """Return units that were set aside, the newest failure first."""
    params = request.query_params
    wanted = ops.DlqFilter(
        group=text_in(params, "group", "") or None,
        topic=text_in(params, "topic", "") or None,
        key=text_in(params, "key", "") or None,
        error=text_in(params, "error", "") or None,
        states=states_in(params),
    )
    limit = whole_in(params, "limit", UNITS, 1, UNITS_MAX)
    return await listed(gateway, lambda conn: ops.list_units(conn, wanted, limit=limit))


async def unit(gateway: Gateway, request: Request) -> Response:
    """Return one with its events."""
    place = ops.GroupPlace.parse_event(text_in(request.query_params, "place"))
    return said(await gateway.sessions.run(lambda conn: ops.show_unit(conn, place)))


async def redrive(gateway: Gateway, request: Request) -> Response:
    """Have one handled again."""
    fields = await fields_in(request, "place")
    place, who = ops.GroupPlace.parse_event(fields.text("place")), asked_by(request)
    return said(
        await done_by(gateway, request, lambda conn: ops.redrive_unit(conn, place, who=who))
    )


async def discard(gateway: Gateway, request: Request) -> Response:
    """Give one up, for good."""
    fields = await fields_in(request, "place reason")
    place, reason, who = (
        ops.GroupPlace.parse_event(fields.text("place")),
        fields.text("reason"),
        asked_by(request),
    )
    return said(
        await done_by(
            gateway, request, lambda conn: ops.discard_unit(conn, place, reason=reason, who=who)
        )
    )


async def schedules(gateway: Gateway, _request: Request) -> Response:
    """Return all schedules."""
    return await listed(gateway, ops.list_schedules)


async def schedule(gateway: Gateway, request: Request) -> Response:
    """Let a schedule rest, let it continue, or publish its event now."""
    await fields_in(request, "")
    name, verb = text_in(request.path_params, "name"), text_in(request.path_params, "verb")
    acts: dict[str, Callable[..., Any]] = {
        "pause": ops.pause_schedule,
        "resume": ops.resume_schedule,
        "run": ops.run_schedule,
    }
    if verb not in acts:
        raise Problem(404, f"a schedule has {', '.join(acts)}, no {verb[:100]}")
    done = await done_by(gateway, request, lambda conn: acts[verb](conn, name))
    return said({"name": name, "transaction_id" if verb == "run" else "changed": done})


def states_in(params: Mapping[str, str]) -> list[str]:
    """Return states of units, with commas between. Raises Problem (400)."""
    states = [each for each in text_in(params, "states", ",".join(OPEN)).split(",") if each]
    if set(states) - set(STATES):
        raise Problem(400, f"states={','.join(states)[:100]}: some of {', '.join(STATES)}")
    return states


def _place_in(request: Request, fields: Fields) -> ops.GroupPlace:
    number = fields.whole("partition", -1, 0, PARTITION_MAX)
    return ops.GroupPlace(
        group=text_in(request.path_params, "group"),
        topic=fields.text("topic", "") or None,
        partition=None if number < 0 else number,
    )


def asked_by(request: Request) -> str:
    """Return who asks, for the record."""
    return f"gateway: {getattr(request.state, 'caller', None) or 'without a key'}"


async def listed(gateway: Gateway, work: Callable[[Connection[Any]], Sequence[Any]]) -> Response:
    """Return records."""
    return said(await gateway.sessions.run(work))


async def done_by(
    gateway: Gateway, request: Request, work: Callable[[Connection[Any]], Any]
) -> Any:
    """Do what changes something in a transaction, and say in the audit and the log who asked."""
    who = asked_by(request)

    def attributed(conn: Connection[Any]) -> Any:
        with conn.transaction():
            conn.execute(query("gateway", "say_who"), {"who": who})
            return work(conn)

    return await logged_by(gateway, request, attributed)


async def logged_by(
    gateway: Gateway, request: Request, work: Callable[[Connection[Any]], Any]
) -> Any:
    """Do it in transactions of its own, and say in the log who asked for it."""
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
    """Return a record, several, or a document."""
    if isinstance(what, list | tuple):
        text = json_text([asdict(each) for each in what])
    else:
        text = json_text(asdict(what) if is_dataclass(what) else what)  # type: ignore[arg-type]
    return Response(text, media_type="application/json")
