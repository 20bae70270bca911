"""JSON: the one place where payloads and headers become text, and text becomes values again.

Python's own json writes, so the stored text is that of `json.dumps`: integers of any size survive,
NaN and infinity are refused. msgspec reads, with json's values and errors
(docs/why/decisions/0013-json.md).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from types import ModuleType
from typing import Any
from uuid import UUID

_AS_TEXT = (UUID, Decimal, PurePath)
_AS_ISO = (datetime, date, time)

decode = json.JSONDecoder().decode  # loads() would look for an encoding first; it is UTF-8
"""Return the value of a JSON text. Raises ValueError if Python cannot represent a number in it."""

_scan: Callable[[str, int], tuple[Any, int]] = getattr(json.JSONDecoder(), "scan_once")  # noqa: B009


def scan(raw: bytes) -> Any:
    """Return the value of a JSON text in UTF-8 as decode() does, without skipping white space."""
    text = raw.decode()
    try:
        value, end = _scan(text, 0)
    except StopIteration:  # white space before it, or no value
        return decode(text)
    return value if end == len(text) else decode(text)


def reader(msgspec: ModuleType | None) -> Callable[[bytes], Any]:
    """Return a reader of JSON text in UTF-8: msgspec if it is installed, json for texts it refuses.

    Both read the same values, to the last bit of a float. msgspec refuses numbers beyond a float's
    range, halves of surrogate pairs, NaN, and text that is not JSON.
    """
    if msgspec is None:
        return scan
    read = msgspec.json.Decoder().decode
    refused = (msgspec.MsgspecError, ValueError, RecursionError)

    def decoded(raw: bytes) -> Any:
        try:
            return read(raw)
        except refused:
            return scan(raw)

    return decoded


try:
    import msgspec as _msgspec
except ImportError:
    decode_bytes = reader(None)
else:
    decode_bytes = reader(_msgspec)


class NotJson:
    """A base of classes whose instances are never values of JSON, though they are dataclasses."""

    __slots__ = ()


def _plain(value: object) -> object:
    """Return a value that json can write, for one that it cannot.

    A model of pydantic becomes the value of its `model_dump(mode="json")`, a struct of msgspec that
    of to_builtins() (tags and renamed fields included), a dataclass its fields by name; a UUID,
    Decimal or path becomes its text, a date or time its ISO 8601 form, an Enum its value. Raises
    TypeError for anything else: a set has no order.
    """
    if is_dataclass(value) and not isinstance(value, type | NotJson):
        return {each.name: getattr(value, each.name) for each in fields(value)}
    if isinstance(value, _AS_TEXT):
        return str(value)
    if isinstance(value, _AS_ISO):
        return value.isoformat()
    if isinstance(value, Enum):
        return value.value
    dump = getattr(value, "model_dump", None)  # pydantic's; not imported for it
    if callable(dump) and not isinstance(value, type):
        return dump(mode="json")
    if hasattr(value, "__struct_fields__") and not isinstance(value, type):  # msgspec's
        return sys.modules["msgspec"].to_builtins(value)
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def is_record(value: object) -> bool:
    """Tell whether a value is a dataclass, a model or a struct: one value, not many."""
    kind = type(value)
    is_model = hasattr(kind, "model_dump") or hasattr(kind, "__struct_fields__")
    return is_model or is_dataclass(value)


def encoder() -> Callable[[object], str]:
    """Return a function that does the same as json.dumps(), with an encoder that is made once.

    json.dumps() makes an encoder for each call, and its encode() makes another one in C, which
    costs as much as 500 bytes of text.
    A value that contains itself ends in a RecursionError instead of a ValueError.
    """
    plain = json.JSONEncoder(
        ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain
    )
    make: Any = getattr(json.encoder, "c_make_encoder", None)  # as in iterencode()
    try:
        chunks = make(None, _plain, json.encoder.encode_basestring, None, ":", ",", *(False,) * 3)
    except TypeError:  # this Python has none, or one with other arguments
        return plain.encode
    return lambda value: "".join(chunks(value, 0))


encode = encoder()
"""Return a value as JSON text. Raises TypeError, ValueError or RecursionError for other values."""
