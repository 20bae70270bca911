"""Requests made from the description of a gateway, allowed ones and others, and checks of the answers."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import jsonschema_rs
from hypothesis import strategies as st

KEYWORDS = {
    "type", "enum", "const", "pattern", "format", "minLength", "maxLength", "minimum", "maximum",
    "exclusiveMinimum", "items", "minItems", "maxItems", "properties", "required", "additionalProperties", "oneOf",
    "default", "description",
}  # fmt: skip
LEFT_OUT = {r"^[^\u0000]*$": "\0", r"^[^/\u0000]+$": "\0/"}  # of a text: its characters are many
TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
ANY = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


@dataclass(frozen=True)
class Sent:
    """A request; is_allowed: whether the description allows it."""

    path: str
    query: dict[str, str]
    headers: dict[str, str]
    content: bytes | None
    is_allowed: bool


class Operation:
    """One method of one path."""

    def __init__(self, document: dict[str, Any], path: str, method: str) -> None:
        self.path, self.method = path, method.upper()
        self._said = _resolved(document, document["paths"][path])
        self.said = self._said[method]
        self.parameters = self._said.get("parameters", []) + self.said.get("parameters", [])
        self.is_locked = self.said.get("security", document["security"]) != []

    def __repr__(self) -> str:
        return f"{self.method} {self.path}"

    def requests(self, known: dict[str, list[Any]]) -> st.SearchStrategy[Sent]:
        """Return requests of it; `known`: meaningful values of parameters and fields, by name."""
        return st.composite(self._draw)(known)

    def _draw(self, draw: st.DrawFn, known: dict[str, list[Any]]) -> Sent:
        path, is_allowed = self.path, True
        query: dict[str, str] = {}
        headers: dict[str, str] = {}
        for each in self.parameters:
            name, where, schema = each["name"], each["in"], each["schema"]
            if where != "path" and not each.get("required") and draw(st.integers(0, 2)):
                continue
            texts = [value for value in known.get(name, []) if isinstance(value, str)]
            text = draw(_parameter(schema, texts, where))
            is_allowed &= _fits(schema, text)
            if where == "path":
                path = path.replace(f"{{{name}}}", quote(text, safe=""))
            elif where == "query":
                query[name] = text
            else:
                headers[name] = text
        content = None
        bodies = self.said.get("requestBody", {}).get("content")
        if bodies:
            kind = draw(st.sampled_from(sorted(bodies)))
            schema = bodies[kind]["schema"]
            right = value_of(schema, known)
            if kind in known:
                right = st.sampled_from(known[kind])
            value = draw(st.one_of([right] * 4 + [_bent(schema, known)]))
            headers["Content-Type"] = kind
            is_json = "json" in kind and "ndjson" not in kind
            content = json.dumps(value).encode() if is_json else str(value).encode()
            is_allowed &= not is_json or _is_valid(schema, value)
        return Sent(path, query, headers, content, is_allowed)

    def complaint(self, sent: Sent, status: int, headers: Any, body: bytes) -> str | None:
        """Return a part of an answer that the description does not allow; None: there is none."""
        if str(status) not in self.said["responses"]:
            return f"status {status} is not described"
        if status < 300 and not sent.is_allowed:
            return "the description does not allow what was done"
        return _complaint_of_body(self.said["responses"][str(status)], status, headers, body)


def _complaint_of_body(said: dict[str, Any], status: int, headers: Any, body: bytes) -> str | None:
    content = said.get("content", {})
    kind = headers.get("content-type", "").partition(";")[0]
    if not content:
        return f"a body that is not described: {body[:100]!r}" if body else None
    if kind not in content:
        return f"Content-Type {kind!r} is not described"
    if "json" not in kind:
        return None
    found = json.loads(body)
    if status >= 400 and found["status"] != status:
        return f"a problem of {found['status']}"
    validator = jsonschema_rs.validator_for(content[kind]["schema"], validate_formats=True)
    return next(
        (f"{each.instance_path}: {each.message}" for each in validator.iter_errors(found)), None
    )


def operations(document: dict[str, Any]) -> Iterator[Operation]:
    """Yield all described operations."""
    for path, methods in document["paths"].items():
        for method in methods:
            if method != "parameters":
                yield Operation(document, path, method)


def value_of(schema: dict[str, Any], known: dict[str, list[Any]]) -> st.SearchStrategy[Any]:
    """Return values that a schema allows, nearly all of them."""
    assert set(schema) <= KEYWORDS, (
        f"tests/support/openapi.py has to learn {set(schema) - KEYWORDS}"
    )
    if "oneOf" in schema:
        return st.one_of([value_of(each, known) for each in schema["oneOf"]])
    if "const" in schema or "enum" in schema:
        return st.sampled_from([schema["const"]] if "const" in schema else schema["enum"])
    types = schema.get("type")
    if types is None:
        return ANY
    return st.one_of(
        [_of_type(each, schema, known) for each in ([types] if isinstance(types, str) else types)]
    )


def _of_type(
    kind: str, schema: dict[str, Any], known: dict[str, list[Any]]
) -> st.SearchStrategy[Any]:
    if kind == "object":
        return _objects(schema, known)
    if kind == "array":
        return st.lists(
            value_of(schema.get("items", {}), known), min_size=schema.get("minItems", 0), max_size=3
        )
    if kind == "string":
        return _texts(schema)
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    if kind == "integer":
        return st.integers(low, schema.get("maximum"))
    if kind == "number":
        above = "exclusiveMinimum" in schema
        return st.floats(
            low, schema.get("maximum"), exclude_min=above, allow_nan=False, allow_infinity=False
        ) | st.integers(int(low or 0) + above, 30)
    return {"boolean": st.booleans(), "null": st.none()}[kind]


def _texts(schema: dict[str, Any]) -> st.SearchStrategy[str]:
    left_out = LEFT_OUT.get(schema.get("pattern", ""))
    if "pattern" in schema and left_out is None:
        return st.from_regex(schema["pattern"], fullmatch=True)
    if schema.get("format") == "uuid":
        return st.uuids().map(str)
    if schema.get("format") == "date-time":
        return st.datetimes().map(lambda each: f"{each.isoformat()}Z")
    return st.text(
        st.characters(codec="utf-8", exclude_characters=left_out or ""),
        min_size=schema.get("minLength", 0),
        max_size=schema.get("maxLength"),
    )


@st.composite
def _objects(
    draw: st.DrawFn, schema: dict[str, Any], known: dict[str, list[Any]]
) -> dict[str, Any]:
    made = {}
    for name, each in schema.get("properties", {}).items():
        if name in schema.get("required", []) or not draw(st.integers(0, 3)):
            own = value_of(each, known)
            right = [value for value in known.get(name, []) if _is_valid(each, value)]
            made[name] = draw(st.one_of([st.sampled_from(right)] * 3 + [own]) if right else own)
    more = schema.get("additionalProperties", True)
    if isinstance(more, dict):
        made |= draw(st.dictionaries(TEXT, value_of(more, known), max_size=2))
    return made


@st.composite
def _bent(draw: st.DrawFn, schema: dict[str, Any], known: dict[str, list[Any]]) -> Any:
    """Draw a value that a schema allows, except for one member; or any value."""
    value = draw(value_of(schema, known))
    if not isinstance(value, dict):
        return draw(ANY)
    names = [*value, *schema.get("properties", {})]
    name = draw(st.sampled_from(names) | TEXT if names else TEXT)
    return {**value, name: draw(ANY)}


def _parameter(schema: dict[str, Any], known: list[str], where: str) -> st.SearchStrategy[str]:
    own = value_of(schema, {}).map(lambda each: each if isinstance(each, str) else json.dumps(each))
    text = st.one_of([own, TEXT, *([st.sampled_from(known)] * 6 if known else [own] * 3)])
    if where == "path":  # one segment of it, which a client does not take for another path
        return text.filter(lambda each: each not in ("", ".", "..") and "/" not in each)
    if where == "header":
        return text.filter(
            lambda each: each.isascii() and each.isprintable() and each == each.strip()
        )
    return text


def _fits(schema: dict[str, Any], text: str) -> bool:
    """Tell whether a parameter, which is text, fits the schema."""
    types = schema.get("type", "string")
    if types == "boolean":
        return text in ("true", "false")
    if types not in ("integer", "number"):
        return _is_valid(schema, text)
    try:
        return _is_valid(schema, int(text) if types == "integer" else float(text))
    except ValueError:
        return False


def _is_valid(schema: dict[str, Any], value: Any) -> bool:
    return bool(jsonschema_rs.validator_for(schema).is_valid(value))


def _resolved(document: dict[str, Any], part: Any) -> Any:
    """Return a part of the document with its references replaced by their targets."""
    if isinstance(part, list):
        return [_resolved(document, each) for each in part]
    if not isinstance(part, dict):
        return part
    if "$ref" in part:
        found: Any = document
        for name in part["$ref"].removeprefix("#/").split("/"):
            found = found[name]
        return _resolved(document, found)
    return {name: _resolved(document, each) for name, each in part.items()}
