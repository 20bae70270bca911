"""The routes: the function for each path and method, and the answer to an error."""

from __future__ import annotations

from functools import cache
from time import monotonic

from msgspec import json
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import compile_path
from starlette.types import Message, Receive, Scope, Send

from gapless.features.gateway import (
    events_out,
    examine,
    key_ways,
    letters,
    looks,
    members,
    operate,
    page,
    publish,
    queue,
    sign_in,
    stream,
    traffic,
    upkeep,
    verbs,
)
from gapless.features.gateway.describe import described
from gapless.features.gateway.fields import fields_in
from gapless.features.gateway.gateway import Gateway
from gapless.features.gateway.hosts import require_name
from gapless.features.gateway.params import part_in, require_known, text_in, value_in
from gapless.features.gateway.problem import Problem, problem_of
from gapless.features.gateway.room import Room
from gapless.features.gateway.shape import Values
from gapless.features.gateway.way import AnswerShape, Asked, Route, Ways

_FULL = Problem(503, "too many connections", headers={"Retry-After": "1"}).response()
_PATH_CHARACTERS_MAX = 200

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
    *sign_in.ways,
    *_own,
    *operate.ways,
    *upkeep.ways,
    *examine.ways,
    *key_ways.ways,
    *letters.ways,
    *verbs.ways(),
)
PAGE = tuple(page.ways)


@cache
def description() -> bytes:
    """Return openapi.json."""
    return json.format(json.encode(described(WAYS)))


class App:
    """The application that an ASGI server runs; the gateway's traffic notes each of its requests.

    names: those to which it answers; None: any well-formed name.
    It has none of starlette's own layers, which took a sixth of the cost of a publish here.
    """

    def __init__(self, gateway: Gateway, room: Room, names: frozenset[str] | None) -> None:
        self._gateway = gateway
        self._room = room
        self._names = names
        paths: dict[str, dict[str, Route]] = {}
        for way in (*WAYS, *PAGE):
            paths.setdefault(way.path, {})[way.method] = way
        self._routes = [(compile_path(path)[0], ways) for path, ways in paths.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, and note it, however it ends; see ASGI."""
        asked = traffic.Asked(
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
                common = self._gateway.traffic.raw_headers
                message["headers"] = [*given, *(each for each in common if each[0] not in names)]
            elif message["type"] == "http.response.body":
                asked.sent_bytes += len(message.get("body", b""))
            await send(message)

        try:
            response = _FULL if self._room.is_full else await self._answer(scope, receive)
            await response(scope, receive, noting)
        finally:
            asked.duration_ms = round(1000 * (monotonic() - began_s), 3)
            for name in ("route", "caller", "detail"):
                if name in scope["state"]:
                    setattr(asked, name, scope["state"][name])
            self._gateway.traffic.note(asked)

    async def _answer(self, scope: Scope, receive: Receive) -> Response:
        scope["app"] = self._gateway
        request = Request(scope, receive)
        try:
            require_name(scope, self._names)
            way = self._way(scope)
            scope["state"]["route"] = way.path
            await self._gateway.access.check(request, way.scope)
            if scope["query_string"] and way.path.startswith("/v1/"):
                require_known(request.query_params, way.query.shapes)
            return await way.endpoint(self._gateway, request, await _asked(request, way))
        except Exception as error:  # noqa: BLE001 - every one gets an answer; the unexpected is logged
            problem = problem_of(error)
            scope["state"]["detail"] = ": ".join(filter(None, (problem.detail, problem.why)))
            return problem.response()

    def _way(self, scope: Scope) -> Route:
        """Return the route of a request; note the values in its path. Raises Problem: 404, 405."""
        raw_path, method = scope["raw_path"], scope["method"]
        named = raw_path[:_PATH_CHARACTERS_MAX].decode("latin-1")
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


async def _asked(request: Request, way: Route) -> Asked:
    """Return the values of a request. Raises Problem (400), and as fields_in()."""
    path, headers = request.path_params, request.headers
    asked = {name: part_in(path, name, shape, way.path) for name, shape in way.in_path.items()}
    for name in way.headers.needed:
        if not headers.get(name):
            raise Problem(400, f"no header {name}: {way.headers.shapes[name]['description']}")
        asked[name] = text_in(headers, name)
    query = request.query_params if request.scope["query_string"] else {}
    for name, shape in way.query.shapes.items():
        is_said = name in query or name in way.query.needed
        asked[name] = value_in(query, name, way.query) if is_said else shape.get("default")
    if isinstance(way.body, Values):
        fields = await fields_in(request, way.body.shapes)
        for name in way.body.shapes:
            asked[name] = fields.value(name, way.body)
    return asked
