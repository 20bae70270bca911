"""The routes of the gateway's own keys, for operators: list, create and revoke them."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from gapless.features.gateway.gateway import Gateway
from gapless.features.gateway.keys import (
    KEYS_LISTED,
    KEYS_LISTED_MAX,
    create_key,
    list_keys,
    revoke_key,
)
from gapless.features.gateway.operate import done_by, listed, said
from gapless.features.gateway.shape import NOTHING, seconds, takes, text, whole
from gapless.features.gateway.way import Asked, Ways
from gapless.ops.place import read_age

RATE_MAX = 1_000_000
ways = Ways()


@ways.way(
    "GET /v1/keys keys",
    "operate",
    query=takes(
        limit=whole(1, KEYS_LISTED_MAX, "Keys, at most.", default=KEYS_LISTED),
        before=text("The key_id of the last one: the next page."),
    ),
)
async def keys(gateway: Gateway, _request: Request, asked: Asked) -> Response:
    """Return keys, the newest first, with their last use, to the minute; no secret."""
    part = {"limit": asked["limit"], "before": asked["before"] or None}
    return await listed(gateway, lambda conn: list_keys(conn, **part))


@ways.way(
    "POST /v1/keys createKey",
    "operate",
    body=takes(
        "name scopes",
        name=text("For people: its owner.", maxLength=200),
        scopes=text("With commas: publish:TOPIC, read:TOPIC, consume:GROUP, operate."),
        requests_s=seconds(RATE_MAX, "Requests a second, at most; 0 or missing: any number."),
        expires=text("12h, 90d; missing: never."),
    ),
)
async def create(gateway: Gateway, request: Request, asked: Asked) -> Response:
    """Create a key, with scopes that the caller has itself; the answer shows it once.

    It ends with the key of the caller, at the latest.
    """
    scopes = [each.strip() for each in asked["scopes"].split(",") if each.strip()]
    for scope in scopes:
        gateway.access.require_any(request, scope)
    expires_in_s = read_age(asked["expires"], "expires")
    rate = asked["requests_s"] or None
    return said(
        await done_by(
            gateway,
            request,
            lambda conn: create_key(
                conn,
                asked["name"],
                scopes,
                requests_s=rate,
                expires_in_s=expires_in_s,
                maker=getattr(request.state, "key_id", None),
            ),
        )
    )


@ways.way("POST /v1/keys/{key_id}/revoke revokeKey", "operate", body=NOTHING)
async def revoke(gateway: Gateway, request: Request, asked: Asked) -> Response:
    """Let a key count no more, within 5 s everywhere."""
    key_id = asked["key_id"]
    revoked = await done_by(gateway, request, lambda conn: revoke_key(conn, key_id))
    return said({"key_id": key_id, "revoked": revoked})
