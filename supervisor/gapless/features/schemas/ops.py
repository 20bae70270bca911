"""Schemas of payloads: add a version, show them, check one against the log, remove one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, get_args

from gapless.db.queries import query
from gapless.errors import RefusedError, UsageError
from gapless.features.schemas.conform import covers, json_schema
from gapless.features.schemas.stored import ANY_TYPE
from gapless.log.topics import require_topic
from gapless.ops.rows import row, rows
from gapless.ops.text import ONLY_JSON, quantity

if TYPE_CHECKING:
    from psycopg import Connection

__all__ = [
    "ChangedSchema", "SchemaCheck", "SchemaInfo", "SchemaProblem", "add_schema", "check_schema",
    "list_schemas", "remove_schema", "show_schema",
]  # fmt: skip

Compatibility = Literal["backward", "forward", "full", "none"]
Compatible = Literal["yes", "no", "cannot tell"]
LAST_EVENTS, LAST_EVENTS_MAX, _PROBLEMS_MAX = 1000, 100_000, 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaInfo:
    """A version of the schema of a type of events; type * is for all types without their own.

    compatibility: its required relation to the version before. is_newest: it checks new events.
    schema: its JSON text. set_by: a database role.
    """

    topic: str
    event_type: str
    version: int
    compatibility: str
    is_newest: bool
    set_by: str
    set_at: datetime
    schema: str = field(metadata=ONLY_JSON)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedPayload:
    """The payload of an event as it is in the log, JSON text."""

    partition: int
    offset: int
    event_type: str | None
    payload: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaProblem:
    """An event of the log that does not fit a schema; pointer: a JSON pointer to the value."""

    partition: int
    offset: int
    pointer: str
    reason: str

    def __str__(self) -> str:
        where = f"{self.partition}@{self.offset}"
        return f"{where}: {self.pointer or 'the payload'}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaCheck:
    """The result of comparing a schema with the version before, and with the log.

    backward: whether it takes all that the version before took; forward: the other way round.
    compatible: whether that is enough for `compatibility`. compared_with: number of the version
    before; None: there is none. events: those of the type that were looked at. misfits: events that
    do not fit; `problems` has at most 20 of them.
    """

    topic: str
    event_type: str
    compared_with: int | None
    compatibility: str
    backward: Compatible
    forward: Compatible
    compatible: Compatible
    events: int
    misfits: int
    problems: list[SchemaProblem]

    def __str__(self) -> str:
        before = "version before: none"
        if self.compared_with is not None:
            said = f"backward: {self.backward}, forward: {self.forward}"
            before = (
                f"version before: {self.compared_with}; {said}; asked for: {self.compatibility}"
            )
        looked = f"{quantity(self.events, 'event')} looked at, {self.misfits} of them do not fit"
        places = [f"  {self.topic}/{each}" for each in self.problems]
        return "\n".join([before, f"log: {looked}", *places])


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedSchema:
    """The result of a change to a type's schema. version: the newest one; None: none is left."""

    topic: str
    event_type: str
    version: int | None
    changed: bool


def list_schemas(
    conn: Connection[Any], topic: str | None = None, event_type: str | None = None
) -> list[SchemaInfo]:
    """Return all versions that are in use, of all topics or one, of all types or one."""
    return rows(conn, SchemaInfo, query("schemas", "schemas"), topic=topic, event_type=event_type)


def show_schema(
    conn: Connection[Any], topic: str, event_type: str | None = None, version: int | None = None
) -> SchemaInfo:
    """Return a version of the schema of a type (None: *), the newest one if `version` is None.

    Raises RefusedError (GL404) if there is none.
    """
    wanted = event_type or ANY_TYPE
    for each in list_schemas(conn, topic, wanted):
        if each.is_newest if version is None else each.version == version:
            return each
    what = "schema" if version is None else f"version {version} of a schema"
    said = f"{topic}/{wanted} has no {what}: gapless schemas list {topic}"
    raise RefusedError(said, sqlstate="GL404")


def add_schema(
    conn: Connection[Any],
    topic: str,
    schema: str,
    *,
    event_type: str | None = None,
    compatibility: Compatibility | None = None,
    force: bool = False,
) -> ChangedSchema:
    """Add a new version of the schema of a type of events (None: *); it is used within 5 s.

    schema: its JSON text, at most 1 000 000 bytes. compatibility: its required relation to the
    version before; None: that of this version, else backward. force: add it in any case.
    Raises UsageError for an invalid JSON Schema, and if compatibility is missing or undecided;
    RefusedError (GL404) for an unknown topic, (GL409) when another version came between.
    """
    before, found = _compared(conn, topic, schema, event_type, compatibility)
    if found.compatible != "yes" and not force:
        raise UsageError(_refusal(found))
    (version,) = row(
        conn,
        query("schemas", "set_schema"),
        topic=topic,
        schema=schema,
        event_type=found.event_type,
        compatibility=compatibility,
        after_version=0 if before is None else before.version,
    )
    is_new = before is None or version != before.version
    return ChangedSchema(topic=topic, event_type=found.event_type, version=version, changed=is_new)


def check_schema(
    conn: Connection[Any],
    topic: str,
    schema: str,
    *,
    event_type: str | None = None,
    compatibility: Compatibility | None = None,
    last_events: int = LAST_EVENTS,
) -> SchemaCheck:
    """Compare a schema with the version before, and with the events in the log; change nothing.

    last_events: events at the end of each partition, 0 to 100 000, among which those of the type
    count; for * those of types without a schema of their own.
    Raises UsageError for an invalid JSON Schema; RefusedError for an unknown topic.
    """
    if not 0 <= last_events <= LAST_EVENTS_MAX:
        raise UsageError(f"last_events={last_events}: 0 to {LAST_EVENTS_MAX}")
    _, found = _compared(conn, topic, schema, event_type, compatibility)
    read = json_schema(schema)
    events, problems = 0, []
    for each in _logged(conn, topic, found.event_type, last_events):
        events += 1
        mismatch = read.mismatch(each.payload)
        if mismatch is not None:
            problems.append(
                SchemaProblem(
                    partition=each.partition,
                    offset=each.offset,
                    pointer=mismatch.pointer,
                    reason=mismatch.reason,
                )
            )
    misfits = len(problems)
    return replace(found, events=events, misfits=misfits, problems=problems[:_PROBLEMS_MAX])


def remove_schema(
    conn: Connection[Any], topic: str, event_type: str | None = None, version: int | None = None
) -> ChangedSchema:
    """Remove a version of the schema of a type (None: *), None: all; the versions left are used.

    Raises RefusedError (GL404) for an unknown topic, and if there is no such version.
    """
    wanted = event_type or ANY_TYPE
    row(
        conn,
        query("schemas", "remove_schema"),
        topic=topic,
        event_type=wanted,
        version=version,
    )
    left = [each.version for each in list_schemas(conn, topic, wanted)]
    newest = max(left, default=None)
    return ChangedSchema(topic=topic, event_type=wanted, version=newest, changed=True)


def _compared(
    conn: Connection[Any],
    topic: str,
    schema: str,
    event_type: str | None,
    compatibility: Compatibility | None,
) -> tuple[SchemaInfo | None, SchemaCheck]:
    """Return the version before, and the comparison of a schema with it."""
    require_topic(conn, topic)
    if compatibility not in (None, *get_args(Compatibility)):
        raise UsageError(f"compatibility={compatibility!r}: {', '.join(get_args(Compatibility))}")
    if "\0" in schema or "\0" in (event_type or ""):
        raise UsageError("a NUL character is in no schema, and in no type of events")
    json_schema(schema)
    wanted = event_type or ANY_TYPE
    before = next((each for each in list_schemas(conn, topic, wanted) if each.is_newest), None)
    asked = compatibility or (before.compatibility if before else "backward")
    backward = _word(True if before is None else covers(schema, before.schema))
    forward = _word(True if before is None else covers(before.schema, schema))
    both: dict[str, tuple[Compatible, ...]] = {
        "backward": (backward,),
        "forward": (forward,),
        "full": (backward, forward),
    }
    words = both.get(asked, ())
    compatible: Compatible = "no" if "no" in words else "yes"
    return before, SchemaCheck(
        topic=topic,
        event_type=wanted,
        compared_with=None if before is None else before.version,
        compatibility=asked,
        backward=backward,
        forward=forward,
        compatible="cannot tell" if compatible == "yes" and "cannot tell" in words else compatible,
        events=0,
        misfits=0,
        problems=[],
    )


def _word(told: bool | None) -> Compatible:  # noqa: FBT001 - what covers() returns
    return "cannot tell" if told is None else "yes" if told else "no"


def _refusal(found: SchemaCheck) -> str:
    before = f"version {found.compared_with} of {found.topic}/{found.event_type}"
    what = "is not" if found.compatible == "no" else "cannot be told to be"
    if found.compatibility == "full":
        what += " fully compatible with"
    elif found.compatibility == "forward":
        what += " forward compatible: all it takes would have to fit"
    else:
        what += " backward compatible: it would have to take all that was taken by"
    return f"the schema {what} {before}; --compatibility none, or --force, adds it all the same"


def _logged(
    conn: Connection[Any], topic: str, event_type: str, last_events: int
) -> Iterator[LoggedPayload]:
    own = {each.event_type for each in list_schemas(conn, topic)} - {ANY_TYPE}
    found = rows(
        conn,
        LoggedPayload,
        query("schemas", "newest_events"),
        topic=topic,
        last_events=last_events,
    )
    for each in found:
        is_of_others = event_type == ANY_TYPE and each.event_type not in own
        if is_of_others or (event_type != ANY_TYPE and each.event_type == event_type):
            yield each
