"""Plain events, one or an array, read at once: unusual and wrong ones are left to events_in."""

from __future__ import annotations

import json

from msgspec import MsgspecError, Raw, Struct
from msgspec.json import Decoder

from gapless.log.event import NewEvent

# They are kept as objects, which may take 20 times as much.
HEADERS_BYTES_MAX = 16 * 1024  # of an event
_NONE = Raw(b"null")


class _PlainEvent(Struct, forbid_unknown_fields=True, gc=False):
    """What nearly all events have; payload and headers are slices of the body, as written."""

    payload: Raw
    key: str | None = None
    event_type: str | None = None
    headers: Raw = _NONE
    host_id: str | None = None
    user_id: str | None = None


_EVENTS = Decoder(list[_PlainEvent])
# How many members each object of the array has, one that stands there twice counted twice: msgspec
# takes the last one.
_MEMBERS = json.JSONDecoder(object_pairs_hook=len)


def plain_events(body: bytes | bytearray, event_bytes_max: int) -> list[NewEvent]:
    """Return the events of a JSON text; none if they are to be read one by one, and carefully.

    Only what ops.load.parse reads to the same events is taken here.
    """
    if len(body) > event_bytes_max:  # one of them may be too large
        return []
    array = b"[" + body + b"]" if body.startswith(b"{") else body
    try:
        events = _EVENTS.decode(array)
        if [_members(event) for event in events] != _MEMBERS.decode(array.decode()):
            return []
        if array is not body and len(events) > 1:  # no array, and two of them
            return []
        return [_new_event(event) for event in events]
    except (MsgspecError, ValueError, RecursionError):
        return []


def _members(event: _PlainEvent) -> int:
    """Count what it has; a field that is null is not counted, so it is unusual."""
    texts = (event.key, event.event_type, event.host_id, event.user_id)
    return 5 - texts.count(None) + (event.headers is not _NONE)


def _new_event(event: _PlainEvent) -> NewEvent:
    """Return it as publish() has it. Raises ValueError for headers that are no object, or many."""
    headers = None
    if event.headers is not _NONE:
        text = bytes(event.headers)
        headers = json.loads(text)
        if len(text) > HEADERS_BYTES_MAX or not isinstance(headers, dict):
            raise ValueError("headers must be an object of some KiB")
    return NewEvent(
        payload=bytes(event.payload),
        key=event.key,
        event_type=event.event_type,
        headers=headers,
        host_id=event.host_id,
        user_id=event.user_id,
    )
