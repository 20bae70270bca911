"""Shapes of values: the gateway reads each value by its shape, and openapi.json has it as it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gapless.log.record import KEY_LENGTH_MAX

Shape = Mapping[str, Any]

TEXT_CHARACTERS_MAX = 1_000
OFFSET_MAX = 10**18
ID_MAX = 10**18 - 1
_NO_NUL = r"^[^\u0000]*$"


def _shape(kind: str, about: str, /, **more: Any) -> Shape:
    return {"type": kind, **({"description": about} if about else {}), **more}


def text(about: str = "", **more: Any) -> Shape:
    """Return the shape of a text."""
    pattern = {} if {"enum", "format"} & set(more) else {"pattern": _NO_NUL}
    most = {} if {"enum", "format"} & set(more) else {"maxLength": TEXT_CHARACTERS_MAX}
    return _shape("string", about, **{**most, **pattern, **more})


def any_text(about: str = "") -> Shape:
    """Return the shape of a text or null; only the length of the whole body bounds it."""
    return nullable(_shape("string", about, pattern=_NO_NUL))


def whole(low: int, high: int, about: str = "", **more: Any) -> Shape:
    """Return the shape of a whole number from `low` to `high`."""
    return _shape("integer", about, minimum=low, maximum=high, **more)


def seconds(most: float, about: str = "", *, least: float = 0, **more: Any) -> Shape:
    """Return the shape of a number of seconds."""
    return _shape("number", about, minimum=least, maximum=most, **more)


def some_seconds(most: float, **more: Any) -> Shape:
    """Return the shape of a number of seconds above 0."""
    return _shape("number", "", exclusiveMinimum=0, maximum=most, **more)


def truth(about: str = "") -> Shape:
    """Return the shape of a boolean."""
    return _shape("boolean", about, default=False)


def listed(of: Shape, about: str = "", **more: Any) -> Shape:
    """Return the shape of a list."""
    return _shape("array", about, items=of, **more)


def whole_texts(about: str) -> Shape:
    """Return the shape of an object whose values are texts, each at most as long as the body."""
    return _shape("object", about, additionalProperties={"type": "string", "pattern": _NO_NUL})


def nullable(shape: Shape) -> Shape:
    """Return a shape that also allows null."""
    return {**shape, "type": [shape["type"], "null"]} if "type" in shape else shape


def record(needed: str, /, **fields: Shape) -> Shape:
    """Return the shape of an object of an answer; needed: the fields that are always there."""
    return {"type": "object", "required": needed.split(), "properties": fields}


@dataclass(frozen=True, slots=True)
class Values:
    """Values by name: of a query, of headers, or of the body. needed: the required names."""

    needed: frozenset[str]
    shapes: Mapping[str, Shape]


def takes(needed: str = "", /, **shapes: Shape) -> Values:
    """Return the values that a request takes; needed: the required names."""
    return Values(frozenset(needed.split()), shapes)


MAYBE_TEXT: Shape = {"type": ["string", "null"]}
UUID_TEXT: Shape = {"type": "string", "format": "uuid"}
TIME: Shape = {"type": "string", "format": "date-time"}
EVENT: Mapping[str, Shape] = {
    "partition": {"type": "integer", "minimum": 0},
    "offset": {"type": "integer", "minimum": 1},
    "key": MAYBE_TEXT,
    "event_type": MAYBE_TEXT,
    "host_id": MAYBE_TEXT,
    "user_id": MAYBE_TEXT,
    "transaction_id": UUID_TEXT,
    "headers": {"type": ["object", "null"]},
    "payload": {},
}
"""The fields of an event in answers."""
NOTHING = takes()
NAME = text(minLength=1, pattern=r"^[^/\u0000]+$")
IN_PATHS: Mapping[str, Shape] = {
    "topic": {**NAME, "maxLength": 249},
    "scheduled_id": whole(1, ID_MAX),
}
"""The values of paths that are more than names."""
PLACE = text(
    "GROUP/TOPIC/PARTITION@OFFSET, such as billing/orders/3@17.",
    pattern="^[^/@]+/[^/@]+/[0-9]{1,9}[/@][0-9]{1,18}$",
)
NEW_EVENT: Shape = {
    "type": "object",
    "required": ["payload"],
    "additionalProperties": False,
    "properties": {
        "payload": {"description": "Any JSON; stored as it is written."},
        "key": any_text("Orders events: same key, same partition."),
        "event_type": any_text(),
        "headers": {"type": ["object", "null"]},
        "host_id": any_text(),
        "user_id": any_text(),
        "dedupe_key": nullable(text(minLength=1, maxLength=KEY_LENGTH_MAX)),
        "deliver_at": nullable(text("Not before this time.", format="date-time")),
        "deliver_in": nullable(
            seconds(250e9, "Not before so many seconds; only one of both is there.")
        ),
        "to_group": any_text("Only for this group, in a topic with direct messages."),
        "to_subscription": nullable(
            text(
                "Only for the subscription of to_group with this name.",
                minLength=1,
                maxLength=200,
            )
        ),
    },
}
