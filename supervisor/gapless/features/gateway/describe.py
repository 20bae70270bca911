"""openapi.json: the description of all routes, made of their declarations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gapless.features.gateway.cookie import NAME
from gapless.features.gateway.problem import PROBLEM
from gapless.features.gateway.shape import Shape, Values, nullable
from gapless.features.gateway.way import JSON, AnswerShape, Route

_ANYWHERE = (400, 421, 501, 503)
_WITH_A_KEY = (401, 403, 429)
_WITH_A_BODY = (408, 413, 415)
_PROBLEMS = {
    400: "The request makes no sense; line and column say where, if that is known.",
    401: "No key, or none that counts.",
    403: "The key may not do that.",
    404: "There is no such topic, group, or place.",
    408: "The body did not arrive within 30 s.",
    409: (
        "It conflicts with the present state: a request with this key is in progress, a receipt is "
        "lost."
    ),
    410: "Retention has dropped these events; first_offset is the oldest there is.",
    413: (
        "An event is larger than maxEventBytes, the body than maxBatchBytes, or it has more than "
        "maxBatchEvents events."
    ),
    415: "Another media type, charset or encoding.",
    421: "Host names another gateway: one without keys answers to its own names only (--host).",
    422: "It cannot be stored as it is, or the Idempotency-Key came with another body.",
    429: "Too many requests with this key; Retry-After says when to come again.",
    501: "The body is in a transfer coding beside chunked.",
    503: (
        "The database is away, or there are too many requests or connections; Retry-After says "
        "when to come again."
    ),
}
_KEY = (
    "gk_ID_SECRET, of gapless keys create, asked for with gapless gateway --keys; or a JWT, with "
    "--tokens."
)

_SESSION = {
    "type": "apiKey",
    "in": "cookie",
    "name": NAME,
    "description": (
        "The cookie of POST /v1/session, for the gateway's own page: a request of another page, or "
        "a change without Origin and Sec-Fetch-Site, is refused. Over TLS its name begins with "
        "__Host-."
    ),
}


def described(ways: Iterable[Route]) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document."""
    paths: dict[str, dict[str, Any]] = {}
    for way in ways:
        paths.setdefault(way.path, {})[way.method.lower()] = _operation(way)
    problems = {
        f"P{status}": _answer(
            AnswerShape(about, _ref("schemas", "Problem"), "application/problem+json")
        )
        for status, about in _PROBLEMS.items()
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "gapless gateway",
            "version": "1",
            "description": (
                "An ordered, partitioned, transactional event log inside PostgreSQL, over HTTP."
            ),
        },
        "paths": paths,
        "components": {
            "schemas": {"Problem": PROBLEM},
            "responses": problems,
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": _KEY},
                "session": _SESSION,
            },
        },
        "security": [{"key": []}, {"session": []}],
    }


def _operation(way: Route) -> dict[str, Any]:
    fails = {*_ANYWHERE, *way.fails, *(_WITH_A_KEY if way.scope else ())}
    fails |= set(_WITH_A_BODY) if way.body is not None else set()
    answers = {status: _answer(each) for status, each in way.answers.items()}
    refused = {each: _ref("responses", f"P{each}") for each in fails - answers.keys()}
    found = {
        "operationId": way.name,
        "summary": way.about,
        "parameters": [
            *_parameters("path", Values(frozenset(way.in_path), way.in_path)),
            *_parameters("query", way.query),
            *_parameters("header", way.headers),
        ],
        "responses": {str(status): each for status, each in sorted((answers | refused).items())},
    }
    if not way.scope:
        found["security"] = []
    if isinstance(way.body, Values):
        found["requestBody"] = {"required": True, "content": _content({JSON: _object(way.body)})}
    elif way.body is not None:
        found["requestBody"] = {"required": True, "content": _content(way.body)}
    return found


def _parameters(place: str, values: Values) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": place,
            "required": name in values.needed,
            **{each: value for each, value in shape.items() if each == "description"},
            "schema": {each: value for each, value in shape.items() if each != "description"},
        }
        for name, shape in values.shapes.items()
    ]


def _object(values: Values) -> Shape:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": [name for name in values.shapes if name in values.needed],
        "properties": {
            name: ({"minLength": 1} if shape["type"] == "string" else {}) | dict(shape)
            if name in values.needed
            else nullable(shape)
            for name, shape in values.shapes.items()
        },
    }


def _answer(answer: AnswerShape) -> dict[str, Any]:
    content = {} if answer.shape is None else {"content": _content({answer.kind: answer.shape})}
    return {"description": answer.about, **content}


def _content(shapes: Mapping[str, Shape]) -> dict[str, Any]:
    return {kind: {"schema": shape} for kind, shape in shapes.items()}


def _ref(kind: str, name: str) -> dict[str, str]:
    return {"$ref": f"#/components/{kind}/{name}"}
