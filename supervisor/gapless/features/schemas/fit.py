"""Check one payload against a version of the schema of its type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gapless.features.schemas.conform import json_schema
from gapless.features.schemas.ops import show_schema

if TYPE_CHECKING:
    from psycopg import Connection

__all__ = ["PayloadCheck", "check_payload"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadCheck:
    """Whether a payload fits a version; pointer and reason: of the first value that does not.

    is_newest: it is the version by which events of the type are checked when they are published.
    """

    topic: str
    event_type: str
    version: int
    is_newest: bool
    fits: bool
    pointer: str | None
    reason: str | None

    def __str__(self) -> str:
        name = f"version {self.version} of the schema of {self.topic}/{self.event_type}"
        if self.fits:
            return f"it fits {name}"
        refusal = " (a publisher is refused)" if self.is_newest else ""
        return f"it does not fit {name}: {self.pointer or 'the payload'}: {self.reason}{refusal}"


def check_payload(
    conn: Connection[Any],
    topic: str,
    payload: str,
    *,
    event_type: str | None = None,
    version: int | None = None,
) -> PayloadCheck:
    """Check a payload, JSON text, by a version of the schema of a type (None: *); None: the newest.

    Raises UsageError if there is no such version, and for a schema that cannot be read.
    """
    found = show_schema(conn, topic, event_type, version)
    mismatch = json_schema(found.schema).mismatch(payload)
    return PayloadCheck(
        topic=topic,
        event_type=found.event_type,
        version=found.version,
        is_newest=found.is_newest,
        fits=mismatch is None,
        pointer=None if mismatch is None else mismatch.pointer,
        reason=None if mismatch is None else mismatch.reason,
    )
