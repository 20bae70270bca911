"""Dead letters in bulk: counted by cause, redriven or discarded as a selection, and the outcome."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

from psycopg import Connection
from starlette.requests import Request
from starlette.responses import Response

from gapless.errors import RefusedError
from gapless.features.gateway.gateway import Gateway
from gapless.features.gateway.operate import WHICH, asked_by, listed, logged_by, said, wanted_in
from gapless.features.gateway.shape import PLACE, takes, text, whole
from gapless.features.gateway.shape import listed as list_of
from gapless.features.gateway.way import Asked, Ways
from gapless.ops.dlq.change import DlqOutcome, discard_units, redrive_units, require_units
from gapless.ops.dlq.find import OPEN, DlqFilter, list_units
from gapless.ops.dlq.summary import BY, CAUSES_MAX, count_units, list_redrives, summarise_units
from gapless.ops.place import GroupPlace, read_since
from gapless.ops.text import quantity

UNITS_MAX = 10_000  # of one request that redrives or discards
PLACES_MAX = 200
_SELECTION = {
    **WHICH,
    "places": list_of(
        PLACE, "These instead of a filter; all or none.", minItems=1, maxItems=PLACES_MAX
    ),
    "expected": whole(0, 10**9, "Refused (409) when the filter finds another number of units."),
}
_Verb = Literal["redrive", "discard"]
ways = Ways()


@ways.way(
    "GET /v1/dlq/summary dlqSummary",
    "read:*",
    query=takes(
        **WHICH,
        by=text("error, type (of the first event) or day (UTC).", enum=list(BY), default="error"),
        limit=whole(1, 1_000, "Causes, at most.", default=CAUSES_MAX),
    ),
)
async def summary(gateway: Gateway, _request: Request, asked: Asked) -> Response:
    """Count units that were set aside by group, topic and error, or by type or day instead."""
    wanted, how = wanted_in(asked, OPEN), {name: asked[name] for name in ("by", "limit")}
    return await listed(gateway, lambda conn: summarise_units(conn, wanted, **how))


@ways.way(
    "GET /v1/dlq/redrives dlqRedrives",
    "read:*",
    query=takes(
        since=text("Asked for then or later: a time, or an age such as 2h.", default="1h"),
        group=WHICH["group"],
        topic=WHICH["topic"],
    ),
)
async def redrives(gateway: Gateway, _request: Request, asked: Asked) -> Response:
    """Return how far the redrives are, by group, topic and person."""
    since, of = read_since(asked["since"]), {name: asked[name] for name in ("group", "topic")}
    return await listed(gateway, lambda conn: list_redrives(conn, since, **of))


@ways.way("POST /v1/dlq/redrive-all redriveAll", "operate", body=takes(**_SELECTION))
async def redrive_all(gateway: Gateway, request: Request, asked: Asked) -> Response:
    """Have all units handled again that are meant, at most 10 000 at a time, the newest first."""
    return await _change_all(gateway, request, asked, "redrive", redrive_units)


@ways.way(
    "POST /v1/dlq/discard-all discardAll",
    "operate",
    body=takes("reason", **_SELECTION, reason=text()),
)
async def discard_all(gateway: Gateway, request: Request, asked: Asked) -> Response:
    """Give all units up that are meant, for good, at most 10 000 at a time."""
    discard = partial(discard_units, reason=asked["reason"])
    return await _change_all(gateway, request, asked, "discard", discard)


async def _change_all(
    gateway: Gateway,
    request: Request,
    asked: Asked,
    verb: _Verb,
    act: Callable[..., list[DlqOutcome]],
) -> Response:
    wanted, who = wanted_in(asked, ("dead", "waiting")), asked_by(request)
    places = [GroupPlace.parse_event(each) for each in asked["places"] or ()]

    def change(conn: Connection[Any]) -> dict[str, int]:
        if places:
            chosen = [unit.place for unit in require_units(conn, places, verb)]
        else:
            chosen = _found(conn, wanted, asked["expected"])
        done = act(conn, chosen, who=who)
        changed = sum(each.outcome in ("asked", "discarded") for each in done)
        return {"units": changed, "left_alone": len(done) - changed}

    return said(await logged_by(gateway, request, change))


def _found(conn: Connection[Any], wanted: DlqFilter, expected: int | None) -> list[GroupPlace]:
    """Return the places of a filter's units. Raises RefusedError for another number of them."""
    found = [each.place for each in list_units(conn, wanted, limit=UNITS_MAX)]
    if expected is not None:
        units = len(found) if len(found) < UNITS_MAX else count_units(conn, wanted)
        if units != expected:
            raise RefusedError(
                f"the selection changed: the filter finds {quantity(units, 'unit')} now, "
                f"not {expected:,}; nothing was changed: look again",
                sqlstate="GL409",
            )
    return found
