"""The values of options: words, numbers, truth values, durations and moments, from their texts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime

from gapless.errors import UsageError

_DURATION = re.compile(r"\s*(\d+)\s*(ms|s|m|h)\s*", re.IGNORECASE)
_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}


def words(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    return tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))


def numbers(options: Mapping[str, str], name: str) -> tuple[int, ...] | None:
    found = words(options.get(name.lower()))
    if found is None:
        return None
    if not all(word.isascii() and word.isdigit() for word in found):
        raise UsageError(f"{name} {options[name.lower()]!r}: numbers of partitions, such as 0,3")
    return tuple(int(word) for word in found)


def whole(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name.lower())
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and 1 <= int(text) < 2**53):
        raise UsageError(f"{name} {text!r}: a whole number, 1 or more")
    return int(text)


def boolean(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = options.get(name.lower(), str(default)).lower()
    if text not in ("true", "false"):
        raise UsageError(f"{name} {text!r}: true or false")
    return text == "true"


def duration_ms(text: str) -> int:
    match = _DURATION.fullmatch(text)
    if match is None:
        raise UsageError(f"maxTriggerDelay {text!r}: a number with ms, s, m or h, such as 15m")
    return int(match[1]) * _MS[match[2].lower()]


def timestamp(options: Mapping[str, str], name: str) -> datetime | None:
    """Read milliseconds since 1970, as for Kafka, or ISO 8601; without a time zone it is UTC."""
    text = options.get(name.lower())
    if text is None:
        return None
    try:
        if text.strip().isdigit():
            return datetime.fromtimestamp(int(text) / 1000, UTC)
        moment = datetime.fromisoformat(text.strip())
    except (ValueError, OverflowError, OSError):
        raise UsageError(
            f"{name} {text!r}: milliseconds since 1970, or 2026-01-31T12:00:00+00:00"
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
