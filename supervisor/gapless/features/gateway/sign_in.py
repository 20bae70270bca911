"""The session of the page: a key is given once, and the browser keeps it in a cookie."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from gapless.features.gateway import cookie
from gapless.features.gateway.gateway import Gateway
from gapless.features.gateway.problem import Problem
from gapless.features.gateway.shape import MAYBE_TEXT, listed, record, takes, text
from gapless.features.gateway.way import AnswerShape, Asked, Ways
from gapless.ops.text import json_text

_TOKEN_CHARACTERS_MAX = 16_384
_SESSION = record(
    "caller scopes asks_keys operates",
    caller={**MAYBE_TEXT, "description": "The key or the token; null: there is none."},
    scopes=listed({"type": "string"}, "The rights of the key or the token."),
    asks_keys={"type": "boolean", "description": "Requests need a key or a token."},
    operates={"type": "boolean", "description": "It serves the routes of operators (--operate)."},
)
_ANSWERS = {200: AnswerShape("The session.", _SESSION)}
ways = Ways()


@ways.way("GET /v1/session session", answers=_ANSWERS, fails=(401, 403, 429))
async def session(gateway: Gateway, request: Request, _asked: Asked) -> Response:
    """Return the caller of this request, its rights, and those of the gateway."""
    try:
        await gateway.access.admit(request)
    except Problem as problem:
        if problem.status != 401:
            raise
    return _told(gateway, request)


@ways.way(
    "POST /v1/session signIn",
    body=takes("key", key=text("A key (gk_…), or a token.", maxLength=_TOKEN_CHARACTERS_MAX)),
    answers=_ANSWERS,
    fails=(401, 403, 429),
)
async def sign_in(gateway: Gateway, request: Request, asked: Asked) -> Response:
    """Keep a key or a token in a cookie, which the page then sends; no script can read it."""
    cookie.require_own_page(request)
    key = asked["key"].strip()
    await gateway.access.admit(request, key)
    told = _told(gateway, request)
    if gateway.access.asks:
        cookie.keep(request, told, key)
    return told


@ways.way(
    "DELETE /v1/session signOut",
    answers={204: AnswerShape("The cookie is gone; a key still counts, until it is revoked.")},
    fails=(403,),
)
async def sign_out(_gateway: Gateway, request: Request, _asked: Asked) -> Response:
    """Remove the cookie."""
    cookie.require_own_page(request)
    told = Response(status_code=204)
    cookie.forget(request, told)
    return told


def _told(gateway: Gateway, request: Request) -> Response:
    state = request.state
    document = {
        "caller": getattr(state, "caller", None),
        "scopes": getattr(state, "scopes", []),
        "asks_keys": gateway.access.asks,
        "operates": gateway.access.operates,
    }
    return Response(json_text(document), media_type="application/json")
