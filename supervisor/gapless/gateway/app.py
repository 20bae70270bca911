"""The routes: which path and method is which function, and how an error is answered."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gapless.gateway import members, operate, queue, upkeep
from gapless.gateway.events_out import read_events
from gapless.gateway.gateway import Gateway
from gapless.gateway.looks import healthz, known_params, metrics, openapi, readyz, status
from gapless.gateway.page import page, page_file
from gapless.gateway.params import require_known
from gapless.gateway.problem import Problem, problem_of
from gapless.gateway.publish import publish_events
from gapless.gateway.stream import stream_events

log = logging.getLogger("gapless.gateway")

_NOWHERE = "there is no %s: /openapi.json has all routes"
Endpoint = Callable[[Gateway, Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Way:
    """A method and a path, what is done there, and the scope that it needs; "": none."""

    method: str
    path: str
    endpoint: Endpoint
    scope: str = ""


MEMBER = "/v1/groups/{group}/members/{member_id}"
WAYS = (
    Way("GET", "/healthz", healthz),
    Way("GET", "/readyz", readyz),
    Way("GET", "/metrics", metrics, "read:*"),
    Way("GET", "/openapi.json", openapi),
    Way("GET", "/v1/status", status, "read:*"),
    Way("POST", "/v1/topics/{topic}/events", publish_events, "publish:{topic}"),
    Way("GET", "/v1/topics/{topic}/events", read_events, "read:{topic}"),
    Way("GET", "/v1/topics/{topic}/stream", stream_events, "read:{topic}"),
    Way("POST", "/v1/groups/{group}/take", queue.take, "consume:{group}"),
    Way("POST", "/v1/groups/{group}/acknowledge", queue.acknowledge, "consume:{group}"),
    Way("POST", "/v1/groups/{group}/release", queue.release, "consume:{group}"),
    Way("POST", "/v1/groups/{group}/reject", queue.reject, "consume:{group}"),
    Way("POST", "/v1/groups/{group}/extend", queue.extend, "consume:{group}"),
    Way("POST", "/v1/groups/{group}/members", members.join, "consume:{group}"),
    Way("POST", f"{MEMBER}/poll", members.poll, "consume:{group}"),
    Way("POST", f"{MEMBER}/commit", members.commit, "consume:{group}"),
    Way("POST", f"{MEMBER}/reject", members.reject, "consume:{group}"),
    Way("POST", f"{MEMBER}/heartbeat", members.heartbeat, "consume:{group}"),
    Way("DELETE", MEMBER, members.leave, "consume:{group}"),
    Way("GET", "/v1/topics", operate.topics, "read:*"),
    Way("GET", "/v1/topics/{topic}", operate.topic, "read:{topic}"),
    Way("GET", "/v1/groups", operate.groups, "read:*"),
    Way("GET", "/v1/groups/{group}", operate.group, "read:*"),
    Way("GET", "/v1/dlq", operate.units, "read:*"),
    Way("GET", "/v1/dlq/unit", operate.unit, "read:*"),
    Way("GET", "/v1/schedules", operate.schedules, "read:*"),
    Way("POST", "/v1/groups/{group}/pause", operate.pause, "operate"),
    Way("POST", "/v1/groups/{group}/resume", operate.resume, "operate"),
    Way("POST", "/v1/groups/{group}/seek", operate.seek, "operate"),
    Way("POST", "/v1/dlq/redrive", operate.redrive, "operate"),
    Way("POST", "/v1/dlq/discard", operate.discard, "operate"),
    Way("POST", "/v1/schedules/{name}/{verb}", operate.schedule, "operate"),
    Way("GET", "/v1/topics/{topic}/search", upkeep.search, "read:{topic}"),
    Way("POST", "/v1/dlq/edit", upkeep.edit, "operate"),
    Way("POST", "/v1/dlq/redrive-all", upkeep.redrive_all, "operate"),
    Way("POST", "/v1/dlq/discard-all", upkeep.discard_all, "operate"),
    Way("GET", "/v1/later", upkeep.later, "read:*"),
    Way("POST", "/v1/later/{scheduled_id}/cancel", upkeep.cancel_later, "operate"),
    Way("GET", "/v1/retention", upkeep.retention, "read:*"),
    Way("GET", "/v1/webhooks", upkeep.webhooks, "read:*"),
    Way("POST", "/v1/webhooks/{name}/pause", upkeep.pause_webhook, "operate"),
    Way("POST", "/v1/webhooks/{name}/resume", upkeep.resume_webhook, "operate"),
    Way("POST", "/v1/webhooks/{name}/replay", upkeep.replay_webhook, "operate"),
)
PAGE = (Way("GET", "/", page), Way("GET", "/page/{name:path}", page_file))


def make_app(gateway: Gateway) -> Starlette:
    """Return the application that a server of ASGI runs."""
    paths: dict[str, dict[str, Way]] = {}
    for way in (*WAYS, *PAGE):  # one route a path, or Allow would name one of its methods only
        paths.setdefault(way.path, {})[way.method] = way
    routes = [
        Route(path, _answering(gateway, ways), methods=list(ways), name=path)
        for path, ways in paths.items()
    ]
    app = Starlette(routes=routes, exception_handlers={HTTPException: _no_such_route})
    app.state.slices = gateway.slices
    app.router.redirect_slashes = False  # it would lead to whatever Host says
    return app


def _answering(
    gateway: Gateway, ways: Mapping[str, Way]
) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        way = ways["GET" if request.method == "HEAD" else request.method]
        request.state.route = way.path
        try:
            _require_path(request)
            await gateway.access.check(request, way.scope)
            if way.path.startswith("/v1/"):
                require_known(request.query_params, known_params()[way.method, way.path])
            response = await way.endpoint(gateway, request)
        except Exception as error:  # noqa: BLE001 - every one gets an answer; the unexpected is logged
            return _refused(request, problem_of(error))
        return response

    return answer


def _require_path(request: Request) -> None:
    """Raise Problem (404) for a / in a name: routes would take it for one between two names."""
    if b"%2f" in request.scope["raw_path"].lower():
        raise Problem(404, _NOWHERE % request.url.path[:200])


async def _no_such_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    texts = {
        404: _NOWHERE % request.url.path[:200],
        405: f"{request.method} is no method of {request.url.path[:200]}",
    }
    detail = texts.get(error.status_code, error.detail)
    return _refused(request, Problem(error.status_code, detail, headers=dict(error.headers or {})))


def _refused(request: Request, problem: Problem) -> Response:
    request.state.detail = ": ".join(filter(None, (problem.detail, problem.why)))
    return problem.response()
