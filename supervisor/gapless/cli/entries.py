"""Print events: a line each, for people or as JSON, harmless on a terminal whatever is in them."""

from __future__ import annotations

import shutil
import sys
import unicodedata
from typing import TYPE_CHECKING

from gapless.cli.screen import say
from gapless.ops.text import json_text, plain, safe_json, stamp

if TYPE_CHECKING:
    from gapless.log.tail import Entry

_CUT = "..."
_LINE_BREAKS = str.maketrans("\r\n\t", "   ")


def terminal_columns() -> int | None:
    """Return how wide the terminal is; None when the output goes elsewhere."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def print_entry(entry: Entry, *, columns: int | None) -> None:
    """Print place, time, key, type and payload, cut to so many columns (None: uncut)."""
    line = "  ".join(
        (
            f"{entry.partition}@{entry.offset}".ljust(8),
            stamp(entry.created_ts),
            _word(entry.key, 12),
            _word(entry.event_type, 16),
            plain((entry.payload or "").translate(_LINE_BREAKS)),
        )
    )
    say(line.rstrip() if columns is None else cut_to(line.rstrip(), columns))


def entry_json(topic: str, entry: Entry) -> str:
    """Write an event as one line of JSON; headers and payload stay the producer's own text."""
    head = json_text(
        {
            "topic": topic,
            "partition": entry.partition,
            "offset": entry.offset,
            "key": entry.key,
            "event_type": entry.event_type,
            "host_id": entry.host_id,
            "user_id": entry.user_id,
            "transaction_id": entry.transaction_id,
            "created_ts": entry.created_ts,
            "message_id": entry.message_id,
        }
    )
    headers, payload = (
        safe_json((text or "null").translate(_LINE_BREAKS))
        for text in (entry.headers, entry.payload)
    )
    return f'{head[:-1]}, "headers": {headers}, "payload": {payload}}}'


def cut_to(text: str, columns: int) -> str:
    """Cut a line to so many columns; wide characters take two, combining ones none."""
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


def _word(text: str | None, width: int) -> str:
    return plain(text or "-").ljust(width)
