"""The routes about the gateway and the log: health, metrics, status."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from importlib.util import find_spec

import psycopg
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from gapless.errors import GaplessError, one_line
from gapless.features.filters.stored import check_filter
from gapless.features.gateway.gateway import Gateway
from gapless.features.gateway.problem import Problem
from gapless.features.gateway.shape import seconds, takes, text
from gapless.features.gateway.way import AnswerShape, Asked, Ways
from gapless.log.filter import ALL
from gapless.telemetry.meter import Times

_OF_A_MEMBER = "gapless_lease_owned"
_TAKES_GZIP = re.compile(
    r"(?:^|,)\s*gzip\s*(?:;\s*q=(?:1|0\.\d*[1-9])[^,]*)?(?:,|$)", re.IGNORECASE
)  # gzip;q=0 refuses it
_PARTITIONS = re.compile("(all|none|[^/]+/[^/]+)")
ways = Ways()


def _plain(about: str) -> AnswerShape:
    return AnswerShape(about, {"type": "string"}, "text/plain")


@ways.way("GET /healthz", answers={200: _plain("It does.")}, fails=())
async def healthz(_gateway: Gateway, _request: Request, _asked: Asked) -> Response:
    """Say that the process answers."""
    return PlainTextResponse("ok\n")


@ways.way(
    "GET /readyz",
    answers={200: _plain("They do."), 503: _plain("It drains, or the database is away.")},
    fails=(),
)
async def readyz(gateway: Gateway, request: Request, _asked: Asked) -> Response:
    """Say whether requests get through: 503 while it drains, or the database is away."""
    if gateway.is_draining:
        return PlainTextResponse("draining: it was told to end\n", 503)
    try:
        await gateway.sessions.run(lambda conn: check_filter(conn, ALL))
    except (psycopg.Error, GaplessError, Problem) as error:
        request.state.detail = one_line(error)
        return PlainTextResponse("the database does not answer\n", 503)
    return PlainTextResponse("ready\n")


@ways.way("GET /metrics", "read:*", answers={200: _plain("Metrics.")})
async def metrics(gateway: Gateway, request: Request, _asked: Asked) -> Response:
    """Return the metrics of the database and of this gateway, as Prometheus reads them."""
    if find_spec("prometheus_client") is None:
        raise Problem(404, 'metrics need prometheus-client: pip install "gapless[metrics]"')
    from gapless.features.metrics.collect import (  # noqa: PLC0415 - an extra
        Labels,
        found_in,
        write,
    )

    look = await asyncio.to_thread(gateway.looks.newest)
    found: dict[str, Mapping[Labels, float | Times]] = {
        "gapless_database_up": {(): float(not isinstance(look, str))},
        "gapless_gateway_requests_total": dict(gateway.traffic.requests.items()),
        "gapless_gateway_streams": {(): float(gateway.streams)},
        "gapless_gateway_feeds": {(): float(len(gateway.feeds))},
    }
    if not isinstance(look, str):
        found |= {n: each for n, each in found_in(look, (), None).items() if n != _OF_A_MEMBER}
    body, content_type = write(found, request.headers.get("accept", ""))
    return Response(body, headers={"Content-Type": content_type})


@ways.way(
    "GET /v1/status",
    "read:*",
    query=takes(
        partitions=text(
            "The partitions in it: all, none, or those of GROUP/TOPIC; each group of the last two "
            "has current_offset, the sum of its partitions.",
            pattern=f"^({_PARTITIONS.pattern})?$",
            default="all",
        ),
        age_s=seconds(10, "The age in seconds that the look may have, at most 10.", default=0),
    ),
    answers={200: AnswerShape("It.", {"type": "object"})},
    fails=(),
)
async def status(gateway: Gateway, request: Request, asked: Asked) -> Response:
    """Return the document of `gapless status --json`, packed where the client takes gzip."""
    wanted = asked["partitions"]
    if not _PARTITIONS.fullmatch(wanted):
        raise Problem(400, f"partitions={wanted[:100]}: all, none, or GROUP/TOPIC")
    look = await gateway.shared_looks.newest(asked["age_s"])
    is_packed = bool(_TAKES_GZIP.search(request.headers.get("accept-encoding", "")))
    body = await asyncio.to_thread(look.body, wanted, is_packed=is_packed)
    packing = {"Content-Encoding": "gzip"} if is_packed else {}
    return Response(
        body, headers={"Vary": "Accept-Encoding", **packing}, media_type="application/json"
    )
