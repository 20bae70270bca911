"""Requests of a gateway and their answers: counters by route and status, and a log line for each.

The lines go to the logger gapless.gateway.access: `error` for requests that failed here, `warning`
for refused ones, `info` for the others. They contain neither a key nor a query, but the detail of a
problem.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from starlette.datastructures import Headers

from gapless.ops.text import plain

log = logging.getLogger("gapless.gateway.access")

SAFE = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}
_TLS = {"Strict-Transport-Security": "max-age=31536000"}
_METHODS = ("GET", "HEAD", "POST", "DELETE")


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
