"""The cookie of the page: a key or a token, which no script of a browser can read.

Any gateway accepts it, for it is the key itself (docs/why/decisions/0048). It counts as an
Authorization header does, for requests of the gateway's own page alone: a browser adds a cookie to
requests of other pages, too.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from gapless.features.gateway.problem import Problem

CHARACTERS_MAX = 3_800  # browsers take 4096 bytes of a cookie, with its name and attributes
NAME = "gapless-session"
_READS = ("GET", "HEAD")


def cookie_of(request: Request) -> str | None:
    """Return the key in the cookie of a request; None without a cookie.

    Raises Problem: 401 for several, because one of them may be of another site, which has a part of
    the name; 403 for a request of another page.
    """
    start = f"{_name(request)}="
    pairs = ";".join(request.headers.getlist("cookie")).split(";")
    found = [each.strip().removeprefix(start) for each in pairs if each.strip().startswith(start)]
    if not found or found == [""]:
        return None
    if len(found) > 1:
        raise Problem(401, "two sessions in one request: remove the cookies of this address")
    require_own_page(request)
    return found[0]


def keep(request: Request, response: Response, text: str) -> None:
    """Have the browser keep a key until it ends. Raises Problem (400) for one that is too long."""
    if len(text) > CHARACTERS_MAX:
        raise Problem(400, f"a cookie has room for {CHARACTERS_MAX} characters, not {len(text)}")
    _set(request, response, text, None)


def forget(request: Request, response: Response) -> None:
    """Have the browser forget the key."""
    _set(request, response, "", 0)


def require_own_page(request: Request) -> None:
    """Raise Problem (403) for a request of another page, or a change that may be of one.

    Another port of the same machine is the same site, so that SameSite alone would not do.
    """
    site, origin = (request.headers.get(name) for name in ("sec-fetch-site", "origin"))
    is_read = request.method in _READS
    if site is not None:
        is_own = site == "same-origin" or (site == "none" and is_read)
    elif origin is not None:  # without TLS only this machine is told Sec-Fetch-Site
        is_own = origin == f"{request.scope['scheme']}://{request.headers['host']}"
    else:
        is_own = is_read
    if not is_own:
        raise Problem(403, "a session is for the gateway's own page: send Authorization: Bearer …")


def _set(request: Request, response: Response, text: str, age_s: int | None) -> None:
    response.set_cookie(
        _name(request),
        text,
        max_age=age_s,
        path="/",
        secure=_is_secure(request),
        httponly=True,
        samesite="strict",
    )


def _name(request: Request) -> str:
    """Return the cookie's name, with the port: a browser sends a cookie to all ports of a host.

    No other site, and nobody on the way, can set one with __Host-.
    """
    port = request.headers.get("host", "").rpartition(":")[2]
    name = f"{NAME}-{port}" if port.isdecimal() else NAME
    return f"__Host-{name}" if _is_secure(request) else name


def _is_secure(request: Request) -> bool:
    return str(request.scope["scheme"]) == "https"
