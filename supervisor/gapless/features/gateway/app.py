"""The routes: the function for each path and method, and the answer to an error."""

from __future__ import annotations

from functools import cache

from msgspec import json
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import compile_path
from starlette.types import Receive, Scope, Send

from gapless.features.gateway import (
    events_out,
    looks,
    members,
    operate,
    page,
    publish,
    queue,
    stream,
    upkeep,
    verbs,
)
from gapless.features.gateway.describe import described
from gapless.features.gateway.gateway import Gateway
from gapless.features.gateway.params import require_known
from gapless.features.gateway.problem import Problem, problem_of
from gapless.features.gateway.way import AnswerShape, Asked, Route, Ways

_own = Ways()


@_own.way("GET /openapi.json", answers={200: AnswerShape("It.", {"type": "object"})}, fails=())
async def openapi(_gateway: Gateway, _request: Request, _asked: Asked) -> Response:
    """Return the description of all routes."""
    return Response(description(), media_type="application/json")


WAYS = (
    *publish.ways,
    *events_out.ways,
    *stream.ways,
    *queue.ways,
    *members.ways,
    *looks.ways,
    *_own,
    *operate.ways,
    *upkeep.ways,
    *verbs.ways(),
)
PAGE = tuple(page.ways)


@cache
def description() -> bytes:
    """Return openapi.json."""
    return json.format(json.encode(described(WAYS)))


class App:
    """The application that an ASGI server runs.

    It has none of starlette's own layers, which took a sixth of the cost of a publish here.
    """

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        paths: dict[str, dict[str, Route]] = {}
        for way in (*WAYS, *PAGE):
            paths.setdefault(way.path, {})[way.method] = way
        self._routes = [(compile_path(path)[0], ways) for path, ways in paths.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; see ASGI."""
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
            require_known(request.query_params, way.query.shapes)
        return await way.answer(self._gateway, request)

    def _way(self, scope: Scope) -> Route:
        """Return the route of a request; note the values in its path. Raises Problem: 404, 405."""
        raw_path, method = scope["raw_path"], scope["method"]
        named = raw_path[:200].decode("latin-1")
        for regex, ways in self._routes:
            found = regex.fullmatch(scope["path"])
            if found is None:
                continue
            if b"%2f" in raw_path.lower():  # inside a name, not between two
                break
            scope["path_params"] = found.groupdict()
            way = ways.get("GET" if method == "HEAD" else method)
            if way is None:
                allowed = {"Allow": ", ".join([*ways, *(["HEAD"] if "GET" in ways else [])])}
                raise Problem(405, f"{method} is no method of {named}", headers=allowed)
            return way
        raise Problem(404, f"there is no {named}: /openapi.json has all routes")
