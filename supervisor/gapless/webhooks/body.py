"""The body of a request: one unit as JSON, the payloads byte for byte as they were published."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gapless.consume.verdict.wish import DeadLetter

if TYPE_CHECKING:
    from gapless.consume.unit import Unit
    from gapless.log.event import Event

BODY_BYTES_MAX = 16 << 20
SEVERAL = "gapless.unit"
"""The type of a unit whose events have several types."""


def body_of(unit: Unit, only: Sequence[Event] | None = None) -> bytes:
    """Return the body; the same at each attempt. Raises DeadLetter when it is too large to send.

    only: some of its events, which are read already; None: all.
    """
    events: list[bytes] = []
    types: set[str] = set()
    size_bytes, timestamp = 0, ""
    for event in unit if only is None else only:
        types.add(event.event_type or "")
        timestamp = timestamp or event.created_ts.isoformat()
        text = _event(event)
        size_bytes += len(text) + 1
        if size_bytes > BODY_BYTES_MAX:
            raise DeadLetter(f"its events take more than {BODY_BYTES_MAX >> 20} MiB in one request")
        events.append(text)
    named = {
        "type": types.pop() if len(types) == 1 else SEVERAL,
        "timestamp": timestamp,
        "topic": unit.topic,
        "partition": unit.partition,
        "transaction_id": str(unit.transaction_id),
    }
    return _open(named) + b'"events": [' + b",".join(events) + b"]}"


def _event(event: Event) -> bytes:
    named = {
        "offset": event.offset,
        "type": event.event_type,
        "key": event.key,
        "timestamp": event.created_ts.isoformat(),
        "headers": event.headers,
    }
    return _open(named) + b'"data": ' + (event.payload_json or b"null") + b"}"


def _open(named: Mapping[str, object]) -> bytes:
    """Return a JSON object that another field is to follow."""
    return json.dumps(named).encode()[:-1] + b", "
