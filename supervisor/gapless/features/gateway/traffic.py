"""Requests of a gateway and their answers: counters by route and status, and a log line for each.

The lines go to the logger gapless.gateway.access: `error` for requests that failed here, `warning`
for refused ones, `info` for the others. They contain neither a key nor a query, but the detail of a
problem.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from time import monotonic
from typing import Any

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gapless.features.gateway.problem import Problem
from gapless.ops.text import plain

log = logging.getLogger("gapless.gateway.access")

SAFE = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}
_TLS = {"Strict-Transport-Security": "max-age=31536000"}
_FULL = Problem(503, "too many connections", headers={"Retry-After": "1"}).response()
_METHODS = ("GET", "HEAD", "POST", "DELETE")
_PATH_CHARACTERS_MAX = 200


@dataclass(slots=True, kw_only=True)
class Asked:
    """A request and its answer; status alone for bytes that are no request. status 0: none sent."""

    method: str = ""
    path: str = ""
    route: str = ""
    client: str = ""
    caller: str = ""
    status: int = 0
    sent_bytes: int = 0
    duration_ms: float = 0.0
    detail: str = ""


class Traffic:
    """Counts requests, and has the headers that are common to all answers."""

    def __init__(self, *, speaks_tls: bool = False) -> None:
        self.headers: Mapping[str, str] = SAFE | (_TLS if speaks_tls else {})
        self.raw_headers = Headers(self.headers).raw
        self.requests: Counter[tuple[str, str, str]] = Counter()

    def note(self, asked: Asked) -> None:
        """Count and log a request; few values, whatever the number of paths and methods."""
        method = asked.method if asked.method in _METHODS else "other"
        self.requests[asked.route, method, str(asked.status)] += 1
        is_fine = 0 < asked.status < 400
        level = logging.INFO if is_fine else logging.WARNING
        level = logging.ERROR if asked.status >= 500 else level
        if log.isEnabledFor(level):
            fields = asdict(asked)
            said = {name: plain(str(each)) for name, each in fields.items()}
            log.log(level, _LINE, said, extra={"fields": fields})


_LINE = (
    "%(method)s %(path)s %(status)s, %(sent_bytes)s bytes in %(duration_ms)s ms, "
    "%(caller)s at %(client)s: %(detail)s"
)


class Watched:
    """The application; `traffic` notes each of its requests, however it ends."""

    def __init__(self, app: ASGIApp, traffic: Traffic, is_full: Callable[[], bool]) -> None:
        self._app = app
        self._traffic = traffic
        self._is_full = is_full

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, and note it."""
        asked = Asked(
            method=scope["method"],
            path=scope["path"][:_PATH_CHARACTERS_MAX],
            client=scope["client"][0] if scope["client"] else "",
        )
        began_s = monotonic()

        async def noting(message: Message) -> None:
            if message["type"] == "http.response.start":
                asked.status = message["status"]
                given = message["headers"]
                names = {name for name, _ in given}
                more = [each for each in self._traffic.raw_headers if each[0] not in names]
                message["headers"] = [*given, *more]
            elif message["type"] == "http.response.body":
                asked.sent_bytes += len(message.get("body", b""))
            await send(message)

        try:
            await (_FULL if self._is_full() else self._app)(scope, receive, noting)
        finally:
            asked.duration_ms = round(1000 * (monotonic() - began_s), 3)
            state: Mapping[str, Any] = scope["state"]
            for name in ("route", "caller", "detail"):
                if name in state:
                    setattr(asked, name, state[name])
            self._traffic.note(asked)
