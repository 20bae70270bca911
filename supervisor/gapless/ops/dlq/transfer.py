"""Export units as JSON lines, one a unit, and import them, perhaps mended in between.

An imported unit replaces the one in the dead letter queue; only a redrive has it handled again.
Or its events are published anew, one transaction for each unit: in another database, or for all
groups.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from gapless.db.queries import query
from gapless.errors import UsageError
from gapless.features.load.parse import whole
from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.ops.dlq.change import by_offset, whoami
from gapless.ops.dlq.find import find_unit, list_events
from gapless.ops.dlq.records import DlqEvent, DlqUnit
from gapless.ops.place import GroupPlace
from gapless.ops.rows import row
from gapless.ops.text import json_text, safe_json

if TYPE_CHECKING:
    from psycopg import Connection

__all__ = [
    "ImportedEvent", "ImportedUnit", "export_units", "import_unit", "parse_units",
    "republish_unit",
]  # fmt: skip

_TEXTS = ("key", "event_type", "host_id", "user_id")
_JSON_FIELDS = ("headers", "payload")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedEvent:
    """An event as it was read; headers and payload are JSON text, None is null."""

    offset: int
    key: str | None
    event_type: str | None
    host_id: str | None
    user_id: str | None
    headers: str | None
    payload: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedUnit:
    """A unit as it was read from a line; source: the place of that line."""

    source: str
    place: GroupPlace
    events: Sequence[ImportedEvent]


def export_units(conn: Connection[Any], places: Sequence[GroupPlace]) -> Iterator[str]:
    """Yield each unit as a line of JSON, without the line's end, in the order of their offsets.

    Payloads and headers stay the producer's own text. Raises RefusedError (GL404) for a unit that
    is not there, or not any more.
    """
    for place in by_offset(places):
        unit = find_unit(conn, place)
        yield unit_json(unit, list_events(conn, unit))


def parse_units(lines: Iterable[str], source: str) -> list[ImportedUnit]:
    """Read all lines except blank ones. Raises UsageError at the first that is not a unit."""
    return [
        _imported(f"{source} line {number}", text)
        for number, text in enumerate(lines, start=1)
        if text.strip()
    ]


def import_unit(conn: Connection[Any], unit: ImportedUnit, *, who: str | None = None) -> str:
    """Put a unit back as a dead one: `mended`, or why it was left alone (`absent`, `busy`, ...).

    A second call changes nothing. who: for the record; None is this process's user and host.
    """
    (outcome,) = row(
        conn,
        query("dlq", "mend"),
        **unit.place.event,
        offsets=[event.offset for event in unit.events],
        event_types=[event.event_type for event in unit.events],
        headers=[event.headers for event in unit.events],
        payloads=[event.payload for event in unit.events],
        who=who or whoami(),
    )
    return str(outcome)


def republish_unit(conn: Connection[Any], unit: ImportedUnit) -> None:
    """Publish the events of a unit as one new transaction; a second call doubles them.

    Raises PublishError, or UsageError for a topic that is not there.
    """
    with conn.transaction():
        publish(conn, str(unit.place.topic), [_new(event) for event in unit.events])


def unit_json(unit: DlqUnit, events: Sequence[DlqEvent], **more: object) -> str:
    """Write a unit as one JSON object; payloads and headers stay the producer's own text."""
    known = asdict(unit)
    known["events_count"] = known.pop("events")
    head = json_text({**known, **more})[:-1]
    return f'{head}, "events": [{", ".join(map(_event_json, events))}]}}'


def _event_json(event: DlqEvent) -> str:
    known = {name: value for name, value in asdict(event).items() if name not in _JSON_FIELDS}
    # On one line: raw line breaks stand only between the tokens of a JSON text.
    tail = ", ".join(
        f'"{name}": {_one_line(getattr(event, name) or "null")}' for name in _JSON_FIELDS
    )
    return f"{json_text(known)[:-1]}, {tail}}}"


def _one_line(text: str) -> str:
    return safe_json(text).translate(str.maketrans("\r\n\t", "   "))


def _new(event: ImportedEvent) -> NewEvent:
    fields: dict[str, Any] = {name: getattr(event, name) for name in _TEXTS}
    if event.headers is not None and event.headers.startswith("{"):  # others cannot be read
        fields["headers"] = event.headers.encode()  # as they were written
    return NewEvent(payload=(event.payload or "null").encode(), **fields)


def _imported(source: str, text: str) -> ImportedUnit:
    try:
        unit = _members(text)
        place = GroupPlace(
            group=_text(unit["group"]),
            topic=_text(unit["topic"]),
            partition=int(unit["partition"]),
            offset=int(unit["offset"]),
        )
        events = [_event(_members(event)) for event in _parts(unit["events"], "[]")]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        reason = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
        raise UsageError(
            f"{source} is not a unit as gapless dlq export writes it: {reason}; nothing was changed"
        ) from error
    return ImportedUnit(source=source, place=place, events=events)


# A string is passed whole; the text between two of these matches needs no look.
_MARKS = re.compile(r'"(?:[^"\\]|\\.)*"|[][{},]', re.DOTALL)


def _parts(text: str, ends: str) -> list[str]:
    """Return the texts of the parts of an array ([]) or object ({}), cut at its commas.

    Without recursion: a payload may nest deeper than Python reads. Raises ValueError.
    """
    text = text.strip()
    if text[:1] != ends[0] or text[-1] != ends[1]:
        raise ValueError(f"{text[:40]!r} is not a JSON {'object' if ends == '{}' else 'array'}")
    parts: list[str] = []
    depth, start = 0, 1
    for found in _MARKS.finditer(text):
        mark = found[0]
        depth += (mark in "[{") - (mark in "]}")
        if depth == (mark == ","):  # a comma of this level, or its end
            parts.append(text[start : found.start()])
            start = found.end()
    if depth or start != len(text):
        raise ValueError(f"{text[:40]!r} is no JSON: its brackets do not match")
    return parts if len(parts) > 1 or parts[0].strip() else []


def _members(text: str) -> dict[str, str]:
    """Return the members of a JSON object, their values as they were written."""
    members: dict[str, str] = {}
    for part in _parts(text, "{}"):
        name, end = json.JSONDecoder().raw_decode(part.strip())
        colon, value = part.strip()[end:].lstrip()[:1], part.strip()[end:].lstrip()[1:]
        if colon != ":":
            raise ValueError(f"{name!r} has no value")
        members[name] = value.strip()
    return members


def _event(event: dict[str, str]) -> ImportedEvent:
    return ImportedEvent(
        offset=int(event["offset"]),
        **{name: _optional_text(event.get(name, "null")) for name in _TEXTS},
        **{name: _json(event.get(name, "null")) for name in _JSON_FIELDS},
    )


def _optional_text(text: str) -> str | None:
    return None if text == "null" else _text(text)


def _text(text: str) -> str:
    value = json.loads(text)
    if type(value) is not str:
        raise TypeError(f"{value!r} is not text")
    if not _is_unicode(value) or "\0" in value:
        raise ValueError(f"{value!r} has half a surrogate pair or a NUL")
    return value


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _json(text: str) -> str | None:
    """Return a JSON value as it was written; None for null. Raises ValueError."""
    with suppress(RecursionError):  # PostgreSQL reads values that nest deeper
        whole(text)
    return None if text == "null" else text
