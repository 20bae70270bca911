"""Events taken of a queue group, for other programs: payload and headers stay JSON texts.

Parsing would change them: 1.10 becomes 1.1, 1e400 no number at all, of two equal keys one is lost.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from psycopg.rows import class_row
from psycopg.types.json import set_json_loads

from gapless.db.queries import query
from gapless.db.refused import refused
from gapless.ops.queue import TakenEvent, take_params
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
        set_json_loads(_as_it_is, cursor)
        return cursor.execute(query("queue", "take"), params).fetchall()


def taken_json(taken: TakenEvent, *without: str) -> str:
    """Write what take_texts() returned as one line of JSON, `without` some of its fields."""
    head = json_text({name: getattr(taken, name) for name in _NAMES if name not in without})
    payload, headers = (
        safe_json((getattr(taken, name) or "null").translate(BREAKS)) for name in _TEXTS
    )
    return f'{head[:-1]}, "payload": {payload}, "headers": {headers}}}'


def _as_it_is(text: str | bytes) -> str:
    return text if isinstance(text, str) else text.decode()
