"""Attributes of a CloudEvent: their types, and the rules for those that the specification names."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import Any

from gapless.features.load.parse import Number

REQUIRED = ("id", "source", "type", "specversion")
_NAME = re.compile("[a-z0-9]{1,100}")
_INTEGER = re.compile(r"-?[0-9]{1,10}")
_DISALLOWED = re.compile(
    "[\x00-\x1f\x7f-\x9f\ufdd0-\ufdef\ufffe\uffff"
    + "".join(f"{chr(n + 0xFFFE)}{chr(n + 0xFFFF)}" for n in range(0x10000, 0x110000, 0x10000))
    + "]"
)
_C = r"(?:[A-Za-z0-9\-._~:@!$&'()*+,;=/]|%[0-9A-Fa-f]{2})"  # a character of a URI: no ?, #, bracket
_SCHEME = "[A-Za-z][A-Za-z0-9+.-]*:"
_HOST = rf"(?://(?:{_C}*@)?\[[0-9A-Fa-f:.]+\](?::[0-9]*)?(?=[/?#]|$))?"  # an address in brackets
_REST = rf"{_HOST}{_C}*(?:\?(?:{_C}|\?)*)?(?:#(?:{_C}|\?)*)?"
_URI = re.compile(_SCHEME + _REST)
_REFERENCE = re.compile(f"(?:{_SCHEME}|(?![^/?#]*:)){_REST}")
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # noqa: S105 - RFC 9110's
_MEDIA_TYPE = re.compile(
    rf'{_TOKEN}/{_TOKEN}(?:[ \t]*;[ \t]*(?:{_TOKEN}=(?:{_TOKEN}|"(?:[^"\\]|\\.)*"))?)*'
)
_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:)(\d\d)(?:\.\d+)?(?:[Zz]|[+-](\d\d:\d\d))", re.ASCII
)


def attribute(name: str, value: Any) -> str | bool | int:
    """Return the value of an attribute: text, a boolean or a whole number of 32 bits."""
    if not _NAME.fullmatch(name) or name == "data":
        raise ValueError(f"attribute {name[:100]!r}: a name has lower case letters and digits")
    if name in _KINDS:
        return _of_context(name, value)
    if isinstance(value, Number):
        if _INTEGER.fullmatch(value) and -(2**31) <= int(value) < 2**31:
            return int(value)
    elif isinstance(value, bool):
        return value
    elif isinstance(value, str):
        return _text(name, value)
    raise ValueError(f"attribute {name!r} must be text, a boolean or a whole number of 32 bits")


def _of_context(name: str, value: Any) -> str:
    what, is_one = _KINDS[name]
    if type(value) is not str or not value or not is_one(_text(name, value)):
        raise ValueError(f"attribute {name!r} must be {what}, not {str(value)[:100]!r}")
    return value


def _text(name: str, value: str) -> str:
    value.encode()  # a lone surrogate raises UnicodeEncodeError, a ValueError
    found = _DISALLOWED.search(value)
    if found:
        raise ValueError(
            f"attribute {name!r} has a NUL, another control character or none of Unicode's: "
            f"U+{ord(found[0]):04X}"
        )
    return value


def _is_time(value: str) -> bool:
    found = _TIME.fullmatch(value)
    if found is None:
        return False
    day, minute, second, offset = found.groups()
    with suppress(ValueError):
        datetime.fromisoformat(f"{day}T{minute}{'59' if second == '60' else second}")
        return offset is None or (offset <= "23:59" and offset[3] < "6")
    return False


def _any(_value: str) -> bool:
    return True


_KINDS: dict[str, tuple[str, Callable[[str], object]]] = {
    "id": ("text with characters in it", _any),
    "type": ("text with characters in it", _any),
    "subject": ("text with characters in it", _any),
    "partitionkey": ("text with characters in it", _any),
    "specversion": ("1.0: no other is understood", "1.0".__eq__),
    "source": ("a URI reference (RFC 3986)", _REFERENCE.fullmatch),
    "dataschema": ("a URI (RFC 3986)", _URI.fullmatch),
    "datacontenttype": ("a media type (RFC 2046)", _MEDIA_TYPE.fullmatch),
    "time": ("a time (RFC 3339)", _is_time),
}
