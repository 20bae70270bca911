"""Events taken from a queue group, for other programs: payload and headers stay JSON texts.

Parsing would change them: 1.10 becomes 1.1, 1e400 is no number, of two equal keys one is lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from psycopg.rows import class_row
from psycopg.types.json import set_json_loads

from gapless.db.queries import query
from gapless.db.refused import refused
from gapless.features.queue.ops import TakenEvent, take_params
from gapless.ops.text import BREAKS, json_text, safe_json

if TYPE_CHECKING:
    from psycopg import Connection

_TEXTS = ("payload", "headers")
_NAMES = tuple(each.name for each in fields(TakenEvent) if each.name not in _TEXTS)


def take_texts(
    conn: Connection[Any], group: str, topic: str, *, max_events: int = 1, visibility_s: float = 60
) -> list[TakenEvent]:
    """Take events as take() does; payload and headers are JSON texts, as they were published."""
    params = take_params(group, topic, max_events, visibility_s)
    with refused(), conn.cursor(row_factory=class_row(TakenEvent)) as cursor:
        set_json_loads(as_it_is, cursor)
        return cursor.execute(query("queue", "take"), params).fetchall()


def taken_json(taken: TakenEvent, *without: str) -> str:
    """Write a result of take_texts() as one line of JSON, without some of its fields."""
    head = {name: getattr(taken, name) for name in _NAMES if name not in without}
    return event_json(head, taken.payload, taken.headers)


def event_json(head: Mapping[str, Any], payload: str | None, headers: str | None) -> str:
    """Write fields, and two JSON texts that stay as they are, as one line of JSON."""
    texts = (safe_json((each or "null").translate(BREAKS)) for each in (payload, headers))
    return '{}, "payload": {}, "headers": {}}}'.format(json_text(head)[:-1], *texts)


def as_it_is(text: str | bytes) -> str:
    """Return JSON that came from the database as its text."""
    return text if isinstance(text, str) else text.decode()
