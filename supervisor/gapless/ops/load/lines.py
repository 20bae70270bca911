"""Read events from JSON lines: a line is one event, and a wrong one is known by its number.

The payload's text is taken out of the line as it is, so that the log keeps what the producer wrote:
its numbers to the last digit, its blanks, its doubled keys.
"""

from __future__ import annotations

import json
import os
import select
import stat
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn
from uuid import UUID

from gapless.errors import PublishError, UsageError
from gapless.log.event import NewEvent
from gapless.log.keyed import key_text
from gapless.log.later import delay_text, moment_text

LINE_BYTES_MAX = 256 * 1024 * 1024
_READ_BYTES = 1024 * 1024
_BLANKS = " \t\r\n"
_TEXT_FIELDS = (
    "key", "event_type", "host_id", "user_id", "transaction_id", "dedupe_key", "deliver_at",
    "to_group",
)  # fmt: skip
_FIELDS = ("payload", *_TEXT_FIELDS, "headers", "deliver_in")


class _Number(str):
    """A JSON number as it was written; it may have more digits than Python's own numbers hold."""

    __slots__ = ()


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_float=_Number, parse_int=_Number, parse_constant=_no_constant)


@dataclass(frozen=True, slots=True, kw_only=True)
class LineShape:
    """How a line becomes an event. `defaults` are for fields that a line does not have.

    payload_only: the whole line is the payload; key_field: the field of it that is the key.
    """

    payload_only: bool = False
    key_field: str | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonLine:
    """An event with the number of its line, from 1, and where the next line begins."""

    number: int
    end_byte: int
    event: NewEvent

    @property
    def unit(self) -> object:
        """The transaction_id it named; None: it belongs to the publishing transaction."""
        return self.event.transaction_id


class JsonLines:
    """The events of a file or pipe, in order. Raises UsageError at the first line that is none."""

    def __init__(self, descriptor: int, name: str, shape: LineShape) -> None:
        self.name = name
        self._descriptor = descriptor
        self._shape = shape
        self._raw: deque[bytes] = deque()
        self._rest: list[bytes] = []  # the pieces of a line whose end has not been read
        self._rest_bytes = 0
        self._ended = False
        self._number = 0
        self._bytes = 0
        status = os.fstat(descriptor)
        self.bytes_total = status.st_size if stat.S_ISREG(status.st_mode) else None

    def __iter__(self) -> Iterator[JsonLine]:
        while (raw := self._next_raw()) is not None:
            self._number += 1
            self._bytes += len(raw) + 1
            if raw.strip():
                yield JsonLine(number=self._number, end_byte=self._bytes, event=self._event(raw))

    def is_ready(self, timeout_s: float) -> bool:
        """Tell whether the next line, or the end, can be had soon; a file is always ready."""
        if self._raw or self._ended:
            return True
        return bool(select.select([self._descriptor], [], [], timeout_s)[0])

    def _event(self, raw: bytes) -> NewEvent:
        try:
            text = raw.decode()
            if self._number == 1:
                text = text.removeprefix("\ufeff")
            return parse_line(text, self._shape)
        except RecursionError:
            reason = "nested too deeply"
        except UnicodeDecodeError as error:
            reason = f"not UTF-8 at byte {error.start + 1}"
        except ValueError as error:
            reason = str(error)
        raise UsageError(f"{self.name} line {self._number}: {reason}") from None

    def _next_raw(self) -> bytes | None:
        while not self._raw:
            if self._ended:
                return None
            self._fill()
        return self._raw.popleft()

    def _fill(self) -> None:
        chunk = os.read(self._descriptor, _READ_BYTES)
        if not chunk:
            self._ended = True
            if self._rest:
                self._raw.append(b"".join(self._rest))
            return
        *complete, rest = chunk.split(b"\n")
        if complete:
            complete[0] = b"".join([*self._rest, complete[0]])
            self._rest, self._rest_bytes = [], 0
            self._raw.extend(complete)
        if rest:
            self._rest.append(rest)
            self._rest_bytes += len(rest)
        if self._rest_bytes > LINE_BYTES_MAX:
            number = self._number + len(self._raw) + 1
            raise UsageError(
                f"{self.name} line {number}: longer than {LINE_BYTES_MAX} bytes; is it JSON lines?"
            )


def parse_line(text: str, shape: LineShape) -> NewEvent:
    """Make one line an event. Raises ValueError that says what is wrong with it."""
    if shape.payload_only or shape.key_field is not None:
        fields = _from_payload(text, shape.key_field)
    else:
        fields = _from_envelope(text)
    return NewEvent(**{**shape.defaults, **fields})


def _from_payload(text: str, key_field: str | None) -> dict[str, Any]:
    text = text.strip(_BLANKS)
    value = _whole(text)
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


def _from_envelope(text: str) -> dict[str, Any]:
    members = _members(text)
    unknown = sorted(set(members) - set(_FIELDS))
    if unknown:
        raise ValueError(
            f"unknown field {unknown[0]!r}: an event has {', '.join(_FIELDS)}; "
            "if the whole line is the payload say --payload-only"
        )
    if "payload" not in members:
        raise ValueError("no payload; if the whole line is the payload say --payload-only")
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
        raise ValueError("headers must be an object")  # noqa: TRY004 - it is the text that is wrong
    headers: dict[str, Any] = json.loads(text)
    _stored("headers", json.dumps(headers, ensure_ascii=False))
    return headers


def transaction_text(text: str) -> str:
    """Return a UUID in its usual form, so that equal ones are equal texts; or raise ValueError."""
    try:
        return str(UUID(text))
    except ValueError:
        raise ValueError(f"transaction_id {text!r} is not a UUID") from None


def dedupe_key(text: str) -> str:
    """Return a key that publish() takes; or raise ValueError."""
    try:
        return str(key_text(text))
    except PublishError as error:
        raise ValueError(str(error)) from None


def deliver_at(text: str) -> str:
    """Return a time that publish() takes; or raise ValueError."""
    try:
        return str(moment_text(text))
    except PublishError as error:
        raise ValueError(str(error)) from None


def _delay(value: object) -> float:
    if not isinstance(value, _Number):
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


def _members(text: str) -> dict[str, tuple[Any, str]]:
    """Return the members of a JSON object, each with its value and its text as it was written."""
    members: dict[str, tuple[Any, str]] = {}
    if not isinstance(_whole(text), dict):
        raise ValueError(  # noqa: TRY004 - it is the text that is wrong
            "not an object; if the whole line is the payload say --payload-only"
        )
    # It is an object, so only the places of its members are looked for from here on.
    at = _skip(text, text.index("{") + 1)
    while text[at] != "}":
        name, at = _DECODER.raw_decode(text, at)
        begin = _skip(text, _skip(text, at) + 1)  # past the colon
        value, end = _DECODER.raw_decode(text, begin)
        if name in members:
            raise ValueError(f"{name!r} stands there twice")
        members[name] = (value, text[begin:end])
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)
    return members


def _whole(text: str) -> Any:
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at character {error.pos + 1}") from None


def _skip(text: str, at: int) -> int:
    while text[at] in _BLANKS:
        at += 1
    return at
