"""Plain events, one or an array, read at once: unusual and invalid ones are left to events_in."""

from __future__ import annotations

import json

from msgspec import MsgspecError, Raw, Struct
from msgspec.json import Decoder

from gapless.log.event import NewEvent

# They are kept as objects, which may take 20 times as much memory.
HEADERS_BYTES_MAX = 16 * 1024  # of an event
_NONE = Raw(b"null")


class _PlainEvent(Struct, forbid_unknown_fields=True, gc=False):
    """The fields of nearly all events; payload and headers are slices of the body, as written."""

    payload: Raw
    key: str | None = None
    event_type: str | None = None
    headers: Raw = _NONE
    host_id: str | None = None
    user_id: str | None = None


_EVENTS = Decoder(list[_PlainEvent])
# The number of members of each object of the array; a name that stands there twice counts twice:
# msgspec takes the last one.
_MEMBERS = json.JSONDecoder(object_pairs_hook=len)


def plain_events(body: bytes | bytearray, event_bytes_max: int) -> list[NewEvent]:
    """Return the events of a JSON text; none if they have to be read one by one, and carefully.

    Takes only events that ops.load.parse reads in the same way.
    """
    if len(body) > event_bytes_max:  # one event may be too large
        return []
    array = b"[" + body + b"]" if body.startswith(b"{") else body
    try:
        events = _EVENTS.decode(array)
        if [_members(event) for event in events] != _MEMBERS.decode(array.decode()):
            return []
        if array is not body and len(events) > 1:  # no array, and yet two events
            return []
        return [_new_event(event) for event in events]
    except (MsgspecError, ValueError, RecursionError):
        return []


def _members(event: _PlainEvent) -> int:
    """Count the members of an event; a field that is null is not counted, so it is unusual."""
    texts = (event.key, event.event_type, event.host_id, event.user_id)
    return 5 - texts.count(None) + (event.headers is not _NONE)


def _new_event(event: _PlainEvent) -> NewEvent:
    """Return the event for publish(). Raises ValueError if headers are no object, or too long."""
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
