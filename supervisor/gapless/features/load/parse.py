"""Read an event from a JSON text.

The payload's text is taken out of it unchanged, so that the log keeps the producer's exact
text: numbers to the last digit, white space, duplicate keys.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn
from uuid import UUID

from gapless.errors import PublishError
from gapless.log.event import NewEvent
from gapless.log.record import delay_text, key_text, moment_text

__all__ = ["LineShape"]

_BLANKS = " \t\r\n"
_TEXT_FIELDS = (
    "key", "event_type", "host_id", "user_id", "transaction_id", "dedupe_key", "deliver_at",
    "to_group", "to_subscription",
)  # fmt: skip
_FIELDS = ("payload", *_TEXT_FIELDS, "headers", "deliver_in")


class Number(str):
    """A JSON number as it was written; it may have more digits than Python's own numbers hold."""

    __slots__ = ()


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_float=Number, parse_int=Number, parse_constant=_no_constant)


@dataclass(frozen=True, slots=True, kw_only=True)
class LineShape:
    """The way a line becomes an event. `defaults` are for fields that a line does not have.

    payload_only: the whole line is the payload; key_field: its field that holds the key.
    advice: the hint for a line that is no event and may be meant as a payload.
    """

    payload_only: bool = False
    key_field: str | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict)
    advice: str = "if the whole line is the payload say --payload-only"


class NotJsonError(ValueError):
    """A text is not JSON; line and column, from 1, say where."""

    def __init__(self, error: json.JSONDecodeError) -> None:
        super().__init__(f"not JSON: {error.msg} at character {error.pos + 1}")
        self.line = error.lineno
        self.column = error.colno


def parse_line(text: str, shape: LineShape) -> NewEvent:
    """Turn one line into an event. Raises ValueError with the reason if that fails."""
    if shape.payload_only or shape.key_field is not None:
        return NewEvent(**{**shape.defaults, **_from_payload(text, shape.key_field)})
    return event_of(members_of(text, shape.advice), shape)


def event_of(members: Mapping[str, tuple[Any, str]], shape: LineShape) -> NewEvent:
    """Turn an object's members into an event. Raises ValueError with the reason if that fails."""
    return NewEvent(**{**shape.defaults, **_from_envelope(members, shape.advice)})


def _from_payload(text: str, key_field: str | None) -> dict[str, Any]:
    text = text.strip(_BLANKS)
    value = whole(text)
    fields: dict[str, Any] = {"payload": text.encode()}
    if key_field is not None:
        if not isinstance(value, dict):
            raise ValueError(f"not an object, so it has no field {key_field!r} for the key")
        key = value.get(key_field)
        if not isinstance(key, str):
            what = "is missing" if key is None else f"is {type(key).__name__}"
            raise ValueError(f"field {key_field!r}, the key, {what}: it must be text or a number")
        fields["key"] = _stored(key_field, key)
    return fields


def _from_envelope(members: Mapping[str, tuple[Any, str]], advice: str) -> dict[str, Any]:
    unknown = sorted(set(members) - set(_FIELDS))
    if unknown:
        raise ValueError(
            f"unknown field {unknown[0]!r}: an event has {', '.join(_FIELDS)}; {advice}"
        )
    if "payload" not in members:
        raise ValueError(f"no payload; {advice}")
    fields: dict[str, Any] = {"payload": members["payload"][1].encode()}
    for name in _TEXT_FIELDS:
        value = members.get(name, (None, ""))[0]
        if value is None:
            continue
        if type(value) is not str:
            raise ValueError(f"{name} must be text")
        fields[name] = _CHECKS.get(name, str)(_stored(name, value))
    delay, _ = members.get("deliver_in", (None, ""))
    if delay is not None:
        fields["deliver_in"] = _delay(delay)
    headers, text_of_headers = members.get("headers", (None, ""))
    if headers is not None:
        fields["headers"] = _headers(headers, text_of_headers)
    return fields


def _headers(value: object, text: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("headers must be an object")  # noqa: TRY004 - the text is wrong
    headers: dict[str, Any] = json.loads(text)
    _stored("headers", json.dumps(headers, ensure_ascii=False))
    return headers


def transaction_text(text: str) -> str:
    """Return a UUID in its usual form, so that equal UUIDs are equal texts; or raise ValueError."""
    try:
        return str(UUID(text))
    except ValueError:
        raise ValueError(f"transaction_id {text!r} is not a UUID") from None


def dedupe_key(text: str) -> str:
    """Return a key that publish() accepts; or raise ValueError."""
    try:
        return str(key_text(text))
    except PublishError as error:
        raise ValueError(str(error)) from None


def deliver_at(text: str) -> str:
    """Return a time that publish() accepts; or raise ValueError."""
    try:
        return str(moment_text(text))
    except PublishError as error:
        raise ValueError(str(error)) from None


def _delay(value: object) -> float:
    if not isinstance(value, Number):
        raise ValueError("deliver_in must be a number of seconds")  # noqa: TRY004 - as below
    try:
        delay_text(float(value))
    except PublishError as error:
        raise ValueError(str(error)) from None
    return float(value)


_CHECKS = {
    "transaction_id": transaction_text,
    "dedupe_key": dedupe_key,
    "deliver_at": deliver_at,
}


def _stored(name: str, text: str) -> str:
    """Return text that PostgreSQL can store: half a surrogate pair is no character."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{name} has half a surrogate pair at {error.start + 1}") from None
    return str(text)


def members_of(text: str, advice: str) -> dict[str, tuple[Any, str]]:
    """Return the members of a JSON object, each with its value and its original text.

    A number is text of the class Number. Raises NotJsonError for other texts, ValueError for JSON
    that is no object.
    """
    try:
        parts = _parts(text)
    except (ValueError, IndexError):
        whole(text)
        raise ValueError(f"not an object; {advice}") from None
    members: dict[str, tuple[Any, str]] = {}
    for name, value, own_text in parts:
        if name in members:
            raise ValueError(f"{name!r} stands there twice")
        members[name] = value, own_text
    return members


def _parts(text: str) -> list[tuple[str, Any, str]]:
    """Return the members of an object: names, values, their texts.

    Each value is read once. Raises ValueError or IndexError for any other text: whole() finds the
    place of the error.
    """
    parts: list[tuple[str, Any, str]] = []
    at = _skip(text, _past(text, _skip(text, 0), "{"))
    is_more = text[at] != "}"
    while is_more:
        _past(text, at, '"')
        name, at = _DECODER.raw_decode(text, at)
        at = _skip(text, _past(text, _skip(text, at), ":"))
        value, end = _DECODER.raw_decode(text, at)
        parts.append((name, value, text[at:end]))
        at = _skip(text, end)
        is_more = text[at] == ","
        if is_more:
            at = _skip(text, at + 1)
    if text[_past(text, at, "}") :].strip(_BLANKS):
        raise ValueError("more than one value")
    return parts


def _past(text: str, at: int, character: str) -> int:
    if text[at] != character:
        raise ValueError(f"no {character} at {at}")
    return at + 1


def whole(text: str) -> Any:
    """Return the value of a JSON text, numbers in its own digits. Raises NotJsonError."""
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise NotJsonError(error) from None


def _skip(text: str, at: int) -> int:
    while text[at] in _BLANKS:
        at += 1
    return at
