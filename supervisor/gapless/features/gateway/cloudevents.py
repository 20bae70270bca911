"""CloudEvents 1.0 as events of the log: structured and batched (JSON), and binary (HTTP headers).

source and id are the dedupe key, for they identify the event; type is the event type; the key is
partitionkey or, without one, subject. All attributes are in the headers, as ce_NAME.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any
from urllib.parse import unquote

from starlette.datastructures import Headers

from gapless.features.gateway.attributes import REQUIRED, attribute
from gapless.features.gateway.scan import Scan
from gapless.features.gateway.shape import TIME, nullable
from gapless.log.event import NewEvent
from gapless.log.record import KEY_LENGTH_MAX

_PREFIX = "ce-"
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_TRACE = ("traceparent", "tracestate")  # of the tracing extension: traces read them by these names
DATA = ("data", "data_base64")
_WORDS = {"type": "string", "minLength": 1, "pattern": r"^[^\u0000-\u001f\u007f-\u009f]+$"}
_BASE64 = "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"
CLOUD_EVENT = {
    "type": "object",
    "required": ["specversion", "id", "source", "type"],
    "properties": {
        "specversion": {"const": "1.0"},
        "id": _WORDS,
        "source": {"type": "string", "minLength": 1, "format": "uri-reference"},
        "type": _WORDS,
        "subject": nullable(_WORDS),
        "partitionkey": nullable(_WORDS),
        "data": {},
        "data_base64": {"type": "string", "pattern": _BASE64},
        "time": nullable(TIME),
        "dataschema": {"type": ["string", "null"], "format": "uri"},
        "datacontenttype": {"type": ["string", "null"], "pattern": "^[^/; ]+/[^/; ]+.*$"},
    },
}


def structured_event(members: Mapping[str, tuple[Any, str]]) -> NewEvent:
    """Return the event of a JSON object. Raises ValueError with the reason if it is invalid."""
    if all(name in members for name in DATA):
        raise ValueError("data and data_base64: an event has one of the two")
    attributes = {
        name: attribute(name, value)
        for name, (value, _) in members.items()
        if name not in DATA and value is not None
    }
    if "data_base64" in members:
        data, text = members["data_base64"]
        if type(data) is not str:
            raise ValueError("data_base64 must be text")
        try:
            base64.b64decode(data, validate=True)
        except ValueError:
            raise ValueError("data_base64 is no base64 (RFC 4648, 4)") from None
        return _event(attributes, text.encode(), is_base64=True)
    return _event(attributes, members.get("data", (None, "null"))[1].encode())


def binary_event(headers: Headers, media_type: str, body: bytes) -> NewEvent:
    """Return the event that has its attributes in the headers and its data in the body.

    JSON data are the payload as they are; other text becomes a JSON string, other bytes become a
    JSON string of base64. Raises ValueError with the reason if the event is invalid.
    """
    attributes = _attributes_in(headers, media_type)
    if not body:
        return _event(attributes, b"null")
    if not media_type or media_type.endswith(("/json", "+json")):
        scan = Scan(body, 0, len(body))
        scan.value()
        scan.end()
        return _event(attributes, body)
    if media_type.startswith("text/"):
        return _event(attributes, json.dumps(body.decode(), ensure_ascii=False).encode())
    return _event(attributes, json.dumps(base64.b64encode(body).decode()).encode(), is_base64=True)


def _attributes_in(headers: Headers, media_type: str) -> dict[str, Any]:
    attributes: dict[str, Any] = {}
    for header, value in headers.items():
        if header.startswith(_PREFIX):
            name = header.removeprefix(_PREFIX)
            if name in attributes:
                raise ValueError(f"{header} stands there twice")
            attributes[name] = attribute(name, _decoded(value))
    if "datacontenttype" in attributes:
        raise ValueError("ce-datacontenttype: the header Content-Type says it")
    if media_type:
        attributes["datacontenttype"] = attribute("datacontenttype", headers["content-type"])
    return attributes


def _decoded(value: str) -> str:
    """Return the value of a header: text in quotes, then in percents (HTTP binding, 3.1.3.2)."""
    text = value.encode("latin-1").decode()
    quoted = _QUOTED.fullmatch(text)
    if quoted:
        text = re.sub(r"\\(.)", r"\1", quoted[1])
    return unquote(text, errors="strict")


def _event(attributes: Mapping[str, Any], payload: bytes, *, is_base64: bool = False) -> NewEvent:
    for name in REQUIRED:
        if name not in attributes:
            raise ValueError(f"attribute {name!r} is missing")
    headers = {name if name in _TRACE else f"ce_{name}": each for name, each in attributes.items()}
    if is_base64:
        headers["ce_data_base64"] = True
    key = attributes.get("partitionkey", attributes.get("subject"))
    return NewEvent(
        payload=payload,
        key=key,
        event_type=attributes["type"],
        headers=headers,
        dedupe_key=_identity(attributes["source"], attributes["id"]),
    )


def _identity(source: str, number: str) -> str:
    """Return one text for both; a source is a URI reference, which has no blank."""
    both = f"{source} {number}"
    return both if len(both) <= KEY_LENGTH_MAX else f"sha256 {sha256(both.encode()).hexdigest()}"
