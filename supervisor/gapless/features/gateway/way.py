"""A route, declared once, beside its function: its values and its answers."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from gapless.features.gateway.fields import Fields, fields_in
from gapless.features.gateway.gateway import Gateway
from gapless.features.gateway.params import (
    TEXT_CHARACTERS_MAX,
    choice_in,
    seconds_in,
    text_in,
    whole_in,
)
from gapless.features.gateway.problem import Problem
from gapless.features.gateway.shape import IN_PATHS, NAME, NOTHING, Shape, Values

Asked = Mapping[str, Any]
Endpoint = Callable[[Gateway, Request, Asked], Awaitable[Response]]
Bodies = Mapping[str, Shape]
JSON = "application/json"


@dataclass(frozen=True, slots=True)
class AnswerShape:
    """An answer: its meaning, and the shape of its body; None: it has none."""

    about: str
    shape: Shape | None = None
    kind: str = JSON


_RECORDS = AnswerShape("As gapless.ops says it.", {"type": ["array", "object"]})


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A method and a path, the endpoint, and the scope that it needs; "": none.

    query, headers: by name; the endpoint reads headers that are not needed. body: the fields of a
    JSON object, or shapes by media type, which the endpoint reads. fails: the statuses of its own
    problems, beside those of every route (`describe`).
    """

    method: str
    path: str
    endpoint: Endpoint
    name: str
    about: str
    scope: str = ""
    in_path: Mapping[str, Shape] = field(default_factory=dict)
    query: Values = NOTHING
    headers: Values = NOTHING
    body: Values | Bodies | None = None
    answers: Mapping[int, AnswerShape] = field(default_factory=dict)
    fails: tuple[int, ...] = ()

    async def answer(self, gateway: Gateway, request: Request) -> Response:
        """Read the values of a request, and answer it. Raises Problem (400), and as fields_in()."""
        asked = {name: self._named(request, name, it) for name, it in self.in_path.items()}
        for name in self.headers.needed:
            if not request.headers.get(name):
                raise Problem(400, f"no header {name}: {self.headers.shapes[name]['description']}")
            asked[name] = text_in(request.headers, name)
        query = request.query_params if request.scope["query_string"] else {}
        for name in self.query.shapes:
            asked[name] = _read(query, name, self.query)
        if isinstance(self.body, Values):
            fields = await fields_in(request, self.body.shapes)
            for name in self.body.shapes:
                asked[name] = _read_field(fields, name, self.body)
        return await self.endpoint(gateway, request, asked)

    def _named(self, request: Request, name: str, shape: Shape) -> Any:
        """Return a value of the path. Raises Problem: 400, 404 for a word that is not allowed."""
        if shape["type"] == "integer":
            return whole_in(request.path_params, name, shape["minimum"], shape["maximum"])
        found = text_in(request.path_params, name)
        if found not in (words := shape.get("enum", (found,))):
            above = self.path.rpartition("/")[0]
            raise Problem(404, f"{above} has {', '.join(words)}, no {found[:100]}")
        return found


class Ways:
    """The routes of a module, in their order."""

    def __init__(self) -> None:
        self._all: list[Route] = []

    def __iter__(self) -> Iterator[Route]:
        return iter(self._all)

    def way(self, where: str, scope: str = "", **how: Any) -> Callable[[Endpoint], Endpoint]:
        """Return a decorator that registers a function as a route; how: see Route.

        where: method, path, and the name in openapi.json, if it is not the function's.
        """

        def register(endpoint: Endpoint) -> Endpoint:
            about = (inspect.getdoc(endpoint) or "").partition("\n")[0]
            self._all.append(made(where, scope, endpoint, about, **how))
            return endpoint

        return register


def made(where: str, scope: str, endpoint: Endpoint, about: str, **how: Any) -> Route:
    """Return a route; the values of its path are names unless `how` says otherwise."""
    method, path, *name = where.split()
    names = re.findall(r"{(\w+)[}:]", path)
    return Route(
        method=method,
        path=path,
        endpoint=endpoint,
        name=name[0] if name else getattr(endpoint, "__name__", ""),
        about=about,
        scope=scope,
        **{
            "in_path": {each: IN_PATHS.get(each, NAME) for each in names} | how.pop("in_path", {}),
            "answers": {200: _RECORDS},
            "fails": (404,) if method == "GET" else (404, 409, 422),
            **how,
        },
    )


def _read(params: Mapping[str, Any], name: str, values: Values) -> Any:
    """Return a value of a query; without an optional one its default, else None."""
    shape, is_needed = values.shapes[name], name in values.needed
    if name not in params and not is_needed:
        return shape.get("default")
    if "enum" in shape:
        return choice_in(params, name, shape["enum"])
    if shape["type"] == "integer":
        return whole_in(params, name, shape["minimum"], shape["maximum"])
    if shape["type"] == "number":
        return seconds_in(params, name, shape["maximum"])
    found = text_in(params, name, None, shape.get("maxLength", TEXT_CHARACTERS_MAX))
    return found if is_needed else found or None


def _read_field(fields: Fields, name: str, values: Values) -> Any:
    """Return a field of a body; without an optional one its default, else None."""
    shape, is_needed = values.shapes[name], name in values.needed
    kind, default = shape["type"], shape.get("default")
    if kind == "string":
        found = fields.text(name, None if is_needed else "", shape["maxLength"])
        return found if is_needed else found or None
    if kind == "integer":
        number = fields.whole(name, default, shape["minimum"], shape["maximum"])
        if number is None and is_needed:
            raise Problem(400, f"{name} is missing")
        return number
    if kind == "number":
        return fields.number(name, default or 0.0)
    if kind == "array":
        return fields.wholes(name, shape["items"]["minimum"], shape["items"]["maximum"])
    return fields.truth(name) if kind == "boolean" else fields.texts(name)
