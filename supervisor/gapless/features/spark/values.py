"""The values of options: words, numbers, truth values, durations and moments, from their texts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Literal

from gapless.errors import UsageError

_DURATION = re.compile(r"\s*(\d+)\s*(ms|s|m|h)\s*", re.IGNORECASE)
_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}


def words(text: str | None) -> tuple[str, ...] | None:
    """Read words between commas, each once; None for None."""
    if text is None:
        return None
    return tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))


def some(options: Mapping[str, str], name: str) -> tuple[str, ...] | None:
    """Read one word or more; None: the option is not given."""
    found = words(options.get(name.lower()))
    if found == ():
        raise UsageError(f"{name} is empty, and nothing would be read: leave it out to read all")
    return found


def numbers(options: Mapping[str, str], name: str) -> tuple[int, ...] | None:
    """Read numbers of partitions; None: the option is not given."""
    found = some(options, name)
    if found is None:
        return None
    if not all(word.isascii() and word.isdigit() for word in found):
        raise UsageError(f"{name} {options[name.lower()]!r}: numbers of partitions, such as 0,3")
    return tuple(int(word) for word in found)


def whole(options: Mapping[str, str], name: str) -> int | None:
    """Read a whole number, at least 1; None: the option is not given."""
    text = options.get(name.lower())
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and 1 <= int(text) < 2**53):
        raise UsageError(f"{name} {text!r}: a whole number, 1 or more")
    return int(text)


def format_of(options: Mapping[str, str], name: str) -> Literal["STRING", "BINARY"]:
    """Read string, the default, or binary; return Spark's name of the type."""
    text = options.get(name.lower(), "string")
    if text not in ("string", "binary"):
        raise UsageError(f"{name} {text!r}: string or binary")
    return "BINARY" if text == "binary" else "STRING"


def boolean(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    """Read true or false."""
    text = options.get(name.lower(), str(default)).lower()
    if text not in ("true", "false"):
        raise UsageError(f"{name} {text!r}: true or false")
    return text == "true"


def duration_ms(text: str) -> int:
    """Read maxTriggerDelay."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise UsageError(f"maxTriggerDelay {text!r}: a number with ms, s, m or h, such as 15m")
    return int(match[1]) * _MS[match[2].lower()]


def moment(name: str, text: str) -> datetime:
    """Read milliseconds since 1970, as for Kafka, or ISO 8601; without a time zone it is UTC."""
    try:
        if text.strip().isdigit():
            return datetime.fromtimestamp(int(text) / 1000, UTC)
        found = datetime.fromisoformat(text.strip())
    except (ValueError, OverflowError, OSError):
        raise UsageError(
            f"{name} {text!r}: milliseconds since 1970, or 2026-01-31T12:00:00+00:00"
        ) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
