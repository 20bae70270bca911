"""The body of a request: one unit as JSON, its payloads byte for byte as published."""

from __future__ import annotations

from collections.abc import Sequence
from json import dumps
from json.encoder import encode_basestring_ascii as _quoted
from typing import TYPE_CHECKING

from gapless.consume.verdict.wish import DeadLetter

if TYPE_CHECKING:
    from gapless.consume.unit import Unit
    from gapless.log.event import Event

BODY_BYTES_MAX = 16 << 20
SEVERAL = "gapless.unit"
"""The type of a unit whose events have several types."""


def body_of(unit: Unit, only: Sequence[Event] | None = None) -> bytes:
    """Return the body, the same at each attempt. Raises DeadLetter when it is too large to send.

    only: some of its events, already read; None: all.
    """
    events: list[bytes] = []
    types: set[str] = set()
    size_bytes, timestamp = 0, ""
    for event in unit if only is None else only:
        types.add(event.event_type or "")
        made_at = event.created_ts.isoformat()
        timestamp = timestamp or made_at
        text = _event(event, made_at)
        size_bytes += len(text) + 1
        if size_bytes > BODY_BYTES_MAX:
            raise DeadLetter(f"its events take more than {BODY_BYTES_MAX >> 20} MiB in one request")
        events.append(text)
    named = (
        f'{{"type": {_quoted(types.pop() if len(types) == 1 else SEVERAL)}, '
        f'"timestamp": "{timestamp}", "topic": {_quoted(unit.topic)}, '
        f'"partition": {unit.partition}, "transaction_id": "{unit.transaction_id}", "events": ['
    )
    return named.encode() + b",".join(events) + b"]}"


def _event(event: Event, made_at: str) -> bytes:
    """Return an event as json.dumps() would write it; our own texts need no escaping."""
    named = (
        f'{{"offset": {event.offset}, "type": {_text(event.event_type)}, '
        f'"key": {_text(event.key)}, "timestamp": "{made_at}", '
        f'"headers": {dumps(event.headers) if event.headers else "{}"}, "data": '
    )
    return named.encode() + (event.payload_json or b"null") + b"}"


def _text(text: str | None) -> str:
    return "null" if text is None else _quoted(text)
