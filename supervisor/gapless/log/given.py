"""The first argument of publish(): one payload, one NewEvent, or many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from gapless.errors import PublishError
from gapless.log.codec import is_record
from gapless.log.event import NewEvent

Events = list[NewEvent] | Iterator[object]
"""One event, or many, which are checked one by one as they are taken."""


def given(what: object, fields: dict[str, Any]) -> Events:
    """Return a list of one event, or an iterator over many."""
    many = _as_many(what)
    # An iterable of the caller's own class, given with a key, is one payload.
    if many is None or (fields and not isinstance(what, list | tuple | Iterator)):
        return [what if isinstance(what, NewEvent) and not fields else _new_event(what, fields)]
    if fields:
        raise PublishError(f"{', '.join(fields)}: with many events, set it on each NewEvent")
    return iter(many)


def _as_many(what: object) -> Iterable[object] | None:
    if isinstance(what, list | tuple):
        return what if what and all(isinstance(item, NewEvent) for item in what) else None
    if isinstance(what, str | bytes | bytearray | dict) or not isinstance(what, Iterable):
        return None
    if is_record(what):  # a model of pydantic can be iterated over: it yields its fields
        return None
    return what


def _new_event(payload: object, fields: dict[str, Any]) -> NewEvent:
    if isinstance(payload, NewEvent):
        raise PublishError(f"{', '.join(fields)}: set it on the NewEvent")
    try:
        return NewEvent(payload=payload, **fields)
    except TypeError:
        known = [name for name in NewEvent.__slots__ if name != "payload"]
        unknown = [name for name in fields if name not in known]
        raise PublishError(
            f"publish() does not know {', '.join(unknown)}; it takes {', '.join(known)}"
        ) from None
