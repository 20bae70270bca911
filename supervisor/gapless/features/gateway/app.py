"""The routes: which path and method is which function, and how an error is answered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import compile_path
from starlette.types import Receive, Scope, Send

from gapless.features.gateway import members, operate, queue, upkeep
from gapless.features.gateway.events_out import read_events
from gapless.features.gateway.gateway import Gateway
from gapless.features.gateway.looks import healthz, known_params, metrics, openapi, readyz, status
from gapless.features.gateway.page import page, page_file
from gapless.features.gateway.params import require_known
from gapless.features.gateway.problem import Problem, problem_of
from gapless.features.gateway.publish import publish_events
from gapless.features.gateway.stream import stream_events

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


class App:
    """The application that a server of ASGI runs.

    Without the layers of starlette's own, which took a sixth of what a publish costs here.
    """

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        paths: dict[str, dict[str, Way]] = {}
        for way in (*WAYS, *PAGE):
            paths.setdefault(way.path, {})[way.method] = way
        self._routes = [(compile_path(path)[0], ways) for path, ways in paths.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        scope["app"] = self._gateway
        request = Request(scope, receive, send)
        try:
            response = await self._answer(request, scope)
        except Exception as error:  # noqa: BLE001 - every one gets an answer; the unexpected is logged
            problem = problem_of(error)
            scope["state"]["detail"] = ": ".join(filter(None, (problem.detail, problem.why)))
            response = problem.response()
        await response(scope, receive, send)

    async def _answer(self, request: Request, scope: Scope) -> Response:
        way = self._way(scope)
        scope["state"]["route"] = way.path
        await self._gateway.access.check(request, way.scope)
        if scope["query_string"] and way.path.startswith("/v1/"):
            require_known(request.query_params, known_params()[way.method, way.path])
        return await way.endpoint(self._gateway, request)

    def _way(self, scope: Scope) -> Way:
        """Return what is asked for, and note what stands in its path. Raises Problem: 404, 405."""
        raw_path, method = scope["raw_path"], scope["method"]
        named = raw_path[:200].decode("latin-1")
        for regex, ways in self._routes:
            found = regex.fullmatch(scope["path"])
            if found is None:
                continue
            if b"%2f" in raw_path.lower():  # in a name, not between two
                break
            scope["path_params"] = found.groupdict()
            way = ways.get("GET" if method == "HEAD" else method)
            if way is None:
                allowed = {"Allow": ", ".join([*ways, *(["HEAD"] if "GET" in ways else [])])}
                raise Problem(405, f"{method} is no method of {named}", headers=allowed)
            return way
        raise Problem(404, f"there is no {named}: /openapi.json has all routes")
