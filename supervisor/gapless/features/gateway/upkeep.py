"""What the page needs beside operate.py: a search, other payloads, what waits, what stays.

Each route is a call of gapless.ops.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from psycopg import Connection
from starlette.requests import Request
from starlette.responses import Response

from gapless import ops
from gapless.features.filters.stored import check_filter
from gapless.features.gateway.fields import fields_in
from gapless.features.gateway.gateway import Gateway
from gapless.features.gateway.operate import asked_by, done_by, listed, logged_by, said, states_in
from gapless.features.gateway.params import text_in, whole_in
from gapless.features.gateway.problem import Problem
from gapless.log.filter import ALL, filter_of
from gapless.log.topics import require_topic
from gapless.ops.dlq.find import find_unit, list_events
from gapless.ops.dlq.transfer import unit_json
from gapless.ops.entries import entry_json
from gapless.ops.place import read_since, read_time, read_transaction
from gapless.ops.text import json_text

FOUND_MAX = 1_000
UNITS_MAX = 10_000  # of one request that redrives or discards
_ID_MAX = 10**18 - 1


async def search(gateway: Gateway, request: Request) -> Response:
    """Return the newest events of a topic with a key, type, transaction, time."""
    params, topic = request.query_params, text_in(request.path_params, "topic")
    limit = whole_in(params, "limit", 100, 1, FOUND_MAX)
    types = text_in(params, "types", "")
    only = filter_of(types.split(",") if types else None, text_in(params, "where", "") or None)
    transaction_id, since, until = (
        text_in(params, name, "") for name in ("transaction_id", "since", "until")
    )
    wanted = ops.EventSearch(
        key=text_in(params, "key", "") or None,
        only=only or ALL,
        transaction_id=read_transaction(transaction_id) if transaction_id else None,
        since=read_time(since) if since else None,
        until=read_time(until) if until else None,
    )

    def look(conn: Connection[Any]) -> ops.FoundEvents:
        check_filter(conn, wanted.only)
        return ops.search_events(conn, require_topic(conn, topic), wanted, limit=limit)

    found = await gateway.sessions.run(look)
    head = json_text({"looked_at": found.looked_at, "is_complete": found.is_complete})[:-1]
    events = ", ".join(entry_json(topic, each) for each in found.entries)
    return Response(f'{head}, "events": [{events}]}}', media_type="application/json")


async def edit(gateway: Gateway, request: Request) -> Response:
    """Have a unit handled again with other payloads: JSON texts, by the offsets of its events."""
    fields = await fields_in(request, "place payloads")
    place, who = ops.GroupPlace.parse_event(fields.text("place")), asked_by(request)
    payloads = fields.texts("payloads")

    def change(conn: Connection[Any]) -> ops.DlqOutcome:
        unit = find_unit(conn, place)
        (kept,) = ops.parse_units([unit_json(unit, list_events(conn, unit))], str(place))
        outcome = ops.import_unit(conn, _edited(kept, payloads), who=who)
        if outcome != "mended":
            raise Problem(409, f"{place} was left alone: {outcome}")
        return ops.redrive_unit(conn, unit.place, who=who)

    return said(await done_by(gateway, request, change))


async def redrive_all(gateway: Gateway, request: Request) -> Response:
    """Have all units handled again that are meant, the newest failures first."""
    return await _change_all(gateway, request, "redrive")


async def discard_all(gateway: Gateway, request: Request) -> Response:
    """Give them up, for good."""
    return await _change_all(gateway, request, "discard")


async def later(gateway: Gateway, request: Request) -> Response:
    """Return events that wait for their time, the next ones first."""
    limit = whole_in(request.query_params, "limit", 100, 1, FOUND_MAX)
    topic = text_in(request.query_params, "topic", "") or None
    return await listed(gateway, lambda conn: ops.list_later(conn, topic=topic, events_max=limit))


async def cancel_later(gateway: Gateway, request: Request) -> Response:
    """Take one back."""
    await fields_in(request, "")
    number = whole_in(request.path_params, "scheduled_id", None, 1, _ID_MAX)
    return said(await done_by(gateway, request, lambda conn: ops.cancel_later(conn, [number])[0]))


async def retention(gateway: Gateway, _request: Request) -> Response:
    """Return the chunks of the log, and why they stay."""
    return await listed(gateway, ops.list_chunks)


async def webhooks(gateway: Gateway, _request: Request) -> Response:
    """Return all webhooks."""
    return await listed(gateway, ops.list_webhooks)


async def pause_webhook(gateway: Gateway, request: Request) -> Response:
    """Let an endpoint rest."""
    reason = (await fields_in(request, "reason")).text("reason", "") or None
    name = text_in(request.path_params, "name")
    changed = await done_by(
        gateway, request, lambda conn: ops.pause_webhook(conn, name, reason=reason)
    )
    return said({"name": name, "changed": changed})


async def resume_webhook(gateway: Gateway, request: Request) -> Response:
    """Let it continue."""
    await fields_in(request, "")
    name = text_in(request.path_params, "name")
    changed = await done_by(gateway, request, lambda conn: ops.resume_webhook(conn, name))
    return said({"name": name, "changed": changed})


async def replay_webhook(gateway: Gateway, request: Request) -> Response:
    """Send one that shares a group again what it got or, with dry_run, say how much that is."""
    fields = await fields_in(request, "since dry_run")
    since, dry_run = read_since(fields.text("since")), fields.truth("dry_run")
    name = text_in(request.path_params, "name")

    def replay(conn: Connection[Any]) -> int:
        return ops.replay_webhook(conn, name, since, dry_run=dry_run)

    if dry_run:
        return said({"name": name, "units": await gateway.sessions.run(replay), "dry_run": True})
    return said({"name": name, "units": await done_by(gateway, request, replay)})


async def _change_all(
    gateway: Gateway, request: Request, verb: Literal["redrive", "discard"]
) -> Response:
    names = "group topic key error states"
    fields = await fields_in(request, names if verb == "redrive" else f"{names} reason")
    group, topic, key, error = (
        fields.text(name, "") or None for name in ("group", "topic", "key", "error")
    )
    states = states_in({"states": fields.text("states", "dead,waiting")})
    wanted = ops.DlqFilter(group=group, topic=topic, key=key, error=error, states=states)
    reason = fields.text("reason") if verb == "discard" else ""
    who = asked_by(request)

    def change(conn: Connection[Any]) -> dict[str, int]:
        places = [each.place for each in ops.list_units(conn, wanted, limit=UNITS_MAX)]
        if verb == "discard":
            done = ops.discard_units(conn, places, reason=reason, who=who)
        else:
            done = ops.redrive_units(conn, places, who=who)
        changed = sum(each.outcome in ("asked", "discarded") for each in done)
        return {"units": changed, "left_alone": len(done) - changed}

    return said(await logged_by(gateway, request, change))


def _edited(unit: ops.ImportedUnit, payloads: Mapping[str, str]) -> ops.ImportedUnit:
    offsets = {str(each.offset) for each in unit.events}
    for offset, text in payloads.items():
        if offset not in offsets:
            raise Problem(400, f"payloads: the unit has no event {offset[:20]!r}")
        try:
            json.loads(text)
        except (ValueError, RecursionError) as error:
            raise Problem(400, f"payloads: {offset}: not JSON: {error}") from None
    events = [
        replace(each, payload=payloads.get(str(each.offset), each.payload)) for each in unit.events
    ]
    return replace(unit, events=events)
