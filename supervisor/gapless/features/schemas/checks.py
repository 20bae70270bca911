"""Schemas that cannot be read, and units that groups set aside because an event fits no schema."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from gapless.db.queries import query
from gapless.features.schemas.conform import NotASchemaError, json_schema
from gapless.features.schemas.ops import list_schemas
from gapless.ops.doctor.finding import Finding, Patient, fail, ok, warning
from gapless.ops.rows import rows
from gapless.ops.text import plain, quantity, stamp


@dataclass(frozen=True, slots=True, kw_only=True)
class InvalidLetters:
    """Units of a group that are dead letters because an event fits no schema."""

    group: str
    topic: str
    units: int
    newest_at: datetime


def schemas(patient: Patient) -> Iterator[Finding]:
    """Report schemas that cannot be read, and units that were set aside because of one."""
    found = list_schemas(patient.conn)
    troubled = False
    for each in found:
        try:
            json_schema(each.schema)
        except NotASchemaError as error:
            troubled = True
            name = f"version {each.version} of the schema of {each.topic}/{each.event_type}"
            yield fail(
                "schemas",
                plain(f"{name}: {error}"),
                "publish() refuses its events: gapless schemas add or remove, or install the extra",
            )
    for letters in rows(patient.conn, InvalidLetters, query("schemas", "invalid_letters")):
        troubled = True
        yield warning(
            "schemas",
            plain(
                f"{letters.group}/{letters.topic} set {quantity(letters.units, 'unit')} aside that "
                f"fit no schema, the last at {stamp(letters.newest_at)}"
            ),
            f"gapless dlq list {letters.group}/{letters.topic} shows them",
        )
    if not troubled:
        yield ok("schemas", quantity(len(found), "version") if found else "no topic has one")
