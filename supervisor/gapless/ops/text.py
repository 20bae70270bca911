"""Write values for people and as JSON, harmless on a terminal whatever an event contains."""

from __future__ import annotations

import json
import re
import unicodedata
from datetime import UTC, datetime
from uuid import UUID

# Characters that could move the cursor, change colours or turn the direction of text, or that are
# not seen: C0, C1, DEL, marks and overrides of direction, line and paragraph separators, lone
# surrogates (no encoding takes these), soft hyphens, spaces and joiners without a width. Those that
# scripts and emoji need (U+200C, U+200D) stay.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
ONLY_JSON = {"only_json": True}
"""Of a field: a number for programs; another one of the record says it to people, in units."""

_AGE = re.compile(r"([0-9]{1,10})([smhd])", re.ASCII)
_AGE_S_MAX = 36_500 * 86_400
BREAKS = str.maketrans("\r\n\t", "   ")
"""The table with which str.translate() puts a text on one line."""

_CUT = "..."
_UNITS = {"d": 86_400, "h": 3600, "m": 60, "s": 1}


def plain(text: str) -> str:
    """Return text harmless on a terminal and on one line; escapes replace unsafe characters."""
    return _UNSAFE.sub(_escaped, text)


def json_text(value: object, *, indent: int | None = None) -> str:
    """Write a value as JSON that is harmless on a terminal, too."""
    text = json.dumps(value, ensure_ascii=False, indent=indent, default=_as_json)
    return safe_json(text)


def safe_json(text: str) -> str:
    """Escape unsafe characters in the strings of a JSON text; between them only blanks change."""
    # Raw line breaks and tabs can stand only between the tokens of a JSON text.
    return _UNSAFE.sub(lambda c: c[0] if c[0] in "\n\r\t" else f"\\u{ord(c[0]):04x}", text)


def stamp(moment: datetime) -> str:
    """Write a time in UTC, to the millisecond: the same on every machine."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def cell(value: object) -> str:
    """Write one value for people; None is a dash."""
    if value is None or value == "":
        return "-"
    if isinstance(value, datetime):
        return stamp(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return plain(str(value))


def quantity(number: int, noun: str) -> str:
    """Write a number with its noun: `1 event`, `1,000 events`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def size_text(number: float) -> str:
    """Write a number of bytes with a unit that fits its size."""
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1024:
            return f"{number:.0f} {unit}"
        number /= 1024
    return f"{number:.1f} TB"


def duration(seconds: float) -> str:
    """Write a duration with a unit that fits its size."""
    if seconds < 1:
        return f"{seconds * 1000:.1f} ms"
    if seconds < 120:
        return f"{seconds:.1f} s"
    if seconds < 2 * 3600:
        return f"{seconds / 60:.0f} min"
    if seconds < 2 * 86400:
        return f"{seconds / 3600:.0f} h"
    return f"{seconds / 86400:.0f} days"


def age_text(seconds: float | None) -> str:
    """Write a retention as it is given, 7d, with as many units as it needs."""
    if seconds is None:
        return "forever"
    left = round(seconds)
    parts = []
    for unit, unit_s in _UNITS.items():
        number, left = divmod(left, unit_s)
        parts += [f"{number}{unit}"] if number else []
    return "".join(parts) or f"{seconds:g}s"


def whole_seconds(text: str) -> int | None:
    """Read an age of 1 second to 100 years: 90s, 15m, 12h, 7d; None for anything else."""
    found = _AGE.fullmatch(text)
    seconds = int(found[1]) * _UNITS[found[2]] if found else 0
    return seconds if 0 < seconds <= _AGE_S_MAX else None


def cut_to(text: str, columns: int) -> str:
    """Cut a line to this many columns; wide characters take two, combining ones none."""
    if text.isascii():
        return text if len(text) <= columns else text[: columns - len(_CUT)] + _CUT
    room = columns - len(_CUT)
    used = fits = 0
    for n, character in enumerate(text):
        used += _columns(character)
        if used <= room:
            fits = n + 1
        if used > columns:
            return text[:fits] + _CUT
    return text


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    short = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return short.get(match[0]) or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")


def _as_json(value: object) -> object:
    if isinstance(value, datetime):
        return stamp(value)
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")
