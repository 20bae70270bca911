"""An event of a topic as one line of text or of JSON, as `gapless tail` prints it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless.ops.text import BREAKS, cut_to, json_text, plain, safe_json, stamp

if TYPE_CHECKING:
    from gapless.log.tail import Entry


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
        safe_json((text or "null").translate(BREAKS)) for text in (entry.headers, entry.payload)
    )
    return f'{head[:-1]}, "headers": {headers}, "payload": {payload}}}'


def entry_line(entry: Entry, *, columns: int | None = None) -> str:
    """Write place, time, key, type and payload, harmless on a terminal.

    columns: the width to which the line is cut; None: uncut.
    """
    words = (
        f"{entry.partition}@{entry.offset}".ljust(8),
        stamp(entry.created_ts),
        plain(entry.key or "-").ljust(12),
        plain(entry.event_type or "-").ljust(16),
        plain((entry.payload or "").translate(BREAKS)),
    )
    line = "  ".join(words).rstrip()
    return line if columns is None else cut_to(line, columns)
