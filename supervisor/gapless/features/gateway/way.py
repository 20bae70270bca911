"""A route, declared once, beside its function: its values and its answers."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from gapless.features.gateway.gateway import Gateway
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
