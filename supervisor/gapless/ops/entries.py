"""An event of a topic as one line of JSON: what `gapless tail --json` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless.ops.text import BREAKS, json_text, safe_json

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
