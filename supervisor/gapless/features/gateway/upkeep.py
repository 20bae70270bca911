"""The other routes that the page needs: a search, other payloads, events for later, retention.

Each route is a call of gapless.ops.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from psycopg import Connection
from starlette.requests import Request
from starlette.responses import Response

from gapless.features.filters.stored import check_filter
from gapless.features.gateway.events_out import PAYLOAD_CHARS, cut_json
from gapless.features.gateway.gateway import Gateway
from gapless.features.gateway.operate import asked_by, done_by, listed, said
from gapless.features.gateway.problem import Problem
from gapless.features.gateway.shape import (
    ID_MAX,
    NOTHING,
    PLACE,
    takes,
    text,
    whole,
    whole_texts,
)
from gapless.features.gateway.shape import listed as list_of
from gapless.features.gateway.way import Asked, Ways
from gapless.features.retention.ops import list_chunks
from gapless.features.scheduled.ops import cancel_later, list_later
from gapless.log.filter import ALL, filter_of
from gapless.log.search import EventSearch, FoundEvents, search_events
from gapless.log.topics import require_topic
from gapless.ops.dlq.change import DlqOutcome, redrive_unit
from gapless.ops.dlq.find import find_unit, list_events
from gapless.ops.dlq.transfer import ImportedUnit, import_unit, parse_units, unit_json
from gapless.ops.place import GroupPlace, read_time, read_transaction
from gapless.ops.text import json_text

IDS_MAX = 1_000  # of one request that cancels
_FOUND = whole(1, 1_000, "Events, at most.", default=100)
_OFFSETS = re.compile(r"[0-9]{1,4}@[0-9]{1,18}(,[0-9]{1,4}@[0-9]{1,18})*", re.ASCII)
_OFFSETS_CHARACTERS_MAX = 32_768  # about 2000 partitions
ways = Ways()


@ways.way(
    "GET /v1/topics/{topic}/search",
    "read:{topic}",
    query=takes(
        key=text("With this key."),
        types=text("Of these types, with commas; * stands for any characters."),
        where=text("For which this jsonpath predicate holds."),
        transaction_id=text("Of this transaction.", format="uuid"),
        since=text("Published then or later.", format="date-time"),
        until=text("Published then or before.", format="date-time"),
        before=text(
            "Only events before these PARTITION@OFFSET, with commas; `older` of an answer.",
            maxLength=_OFFSETS_CHARACTERS_MAX,
            pattern=f"^({_OFFSETS.pattern})?$",
        ),
        payload_chars=PAYLOAD_CHARS,
        limit=_FOUND,
    ),
)
async def search(gateway: Gateway, _request: Request, asked: Asked) -> Response:
    """Return the newest events of a topic that are all of what is given, of some 50 000 at most."""
    topic, types, transaction_id, since, until, chars = (
        asked[each]
        for each in ("topic", "types", "transaction_id", "since", "until", "payload_chars")
    )
    wanted = EventSearch(
        key=asked["key"],
        only=filter_of(types.split(",") if types else None, asked["where"]) or ALL,
        transaction_id=read_transaction(transaction_id) if transaction_id else None,
        since=read_time(since) if since else None,
        until=read_time(until) if until else None,
        before=_offsets_in(asked["before"]),
    )

    def look(conn: Connection[Any]) -> FoundEvents:
        check_filter(conn, wanted.only)
        more = None if chars is None else chars + 1
        return search_events(
            conn, require_topic(conn, topic), wanted, limit=asked["limit"], payload_chars=more
        )

    found = await gateway.sessions.run(look)
    older = ",".join(f"{number}@{offset}" for number, offset in sorted(found.older.items()))
    told = {
        "looked_at": found.looked_at,
        "is_complete": found.is_complete,
        "older": older if 0 < len(older) <= _OFFSETS_CHARACTERS_MAX else None,
    }
    events = ", ".join(cut_json(topic, each, chars) for each in found.entries)
    return Response(
        f'{json_text(told)[:-1]}, "events": [{events}]}}', media_type="application/json"
    )


def _offsets_in(said: str | None) -> dict[int, int] | None:
    if not said:
        return None
    if _OFFSETS.fullmatch(said) is None:
        raise Problem(400, f"before={said[:100]!r}: PARTITION@OFFSET, with commas between")
    pairs = (each.split("@") for each in said.split(","))
    return {int(number): int(offset) for number, offset in pairs}


@ways.way(
    "POST /v1/dlq/edit",
    "operate",
    body=takes(
        "place payloads",
        place=PLACE,
        payloads=whole_texts("JSON texts, by the offsets of its events."),
    ),
)
async def edit(gateway: Gateway, request: Request, asked: Asked) -> Response:
    """Have a unit handled again by its group, with other payloads; the log stays as it is."""
    place, who = GroupPlace.parse_event(asked["place"]), asked_by(request)
    payloads = asked["payloads"]

    def change(conn: Connection[Any]) -> DlqOutcome:
        unit = find_unit(conn, place)
        (kept,) = parse_units([unit_json(unit, list_events(conn, unit))], str(place))
        outcome = import_unit(conn, _edited(kept, payloads), who=who)
        if outcome != "mended":
            raise Problem(409, f"{place} was left alone: {outcome}")
        return redrive_unit(conn, unit.place, who=who)

    return said(await done_by(gateway, request, change))


@ways.way(
    "GET /v1/later",
    "read:*",
    query=takes(
        topic=text("Of this topic."),
        key=text("With this key."),
        since=text("Due then or later.", format="date-time"),
        until=text("Due then or before.", format="date-time"),
        limit=_FOUND,
    ),
)
async def later(gateway: Gateway, _request: Request, asked: Asked) -> Response:
    """Return events that wait for their time, the next ones first."""
    times = {name: read_time(asked[name]) for name in ("since", "until") if asked[name]}
    wanted = {"topic": asked["topic"], "key": asked["key"], **times}
    return await listed(gateway, lambda conn: list_later(conn, **wanted, events_max=asked["limit"]))


@ways.way(
    "POST /v1/later/cancel cancelLaterEvents",
    "operate",
    body=takes("scheduled_ids", scheduled_ids=list_of(whole(1, ID_MAX))),
)
async def cancel_some(gateway: Gateway, request: Request, asked: Asked) -> Response:
    """Take events back that wait for their time; the answer has one entry for each."""
    ids = asked["scheduled_ids"]
    if ids is None or None in ids or len(ids) > IDS_MAX:
        raise Problem(400, f"scheduled_ids: a list of whole numbers, at most {IDS_MAX} of them")
    return said(await done_by(gateway, request, lambda conn: cancel_later(conn, ids)))


@ways.way("POST /v1/later/{scheduled_id}/cancel cancelLater", "operate", body=NOTHING)
async def cancel_one(gateway: Gateway, request: Request, asked: Asked) -> Response:
    """Take an event back that waits for its time."""
    ids = [asked["scheduled_id"]]
    return said(await done_by(gateway, request, lambda conn: cancel_later(conn, ids)[0]))


@ways.way("GET /v1/retention", "read:*")
async def retention(gateway: Gateway, _request: Request, _asked: Asked) -> Response:
    """Return the chunks of the log, and why they stay."""
    return await listed(gateway, list_chunks)


def _edited(unit: ImportedUnit, payloads: Mapping[str, str]) -> ImportedUnit:
    offsets = {str(each.offset) for each in unit.events}
    for offset, payload in payloads.items():
        if offset not in offsets:
            raise Problem(400, f"payloads: the unit has no event {offset[:20]!r}")
        try:
            json.loads(payload)
        except (ValueError, RecursionError) as error:
            raise Problem(400, f"payloads: {offset}: not JSON: {error}") from None
    events = [
        replace(each, payload=payloads.get(str(each.offset), each.payload)) for each in unit.events
    ]
    return replace(unit, events=events)
