"""The records of units that were set aside; each is a row of a query in sql/ops/queries/dlq.sql."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from gapless.ops.place import GroupPlace, spell
from gapless.ops.text import ONLY_JSON

__all__ = [
    "DlqEvent",
    "DlqRow",
    "DlqUnit",
    "ParkedAhead",
    "ParkedBehind",
    "SameError",
    "SameTransaction",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class DlqRow:
    """A unit in a list: offset is its first, key and event_type are its first event's.

    state: dead, waiting, parked, redriven or discarded. attempts: calls that ended. failed: the
    time of the last failure. error: the first 200 characters of the reason.
    """

    group: str = field(metadata=ONLY_JSON)
    topic: str = field(metadata=ONLY_JSON)
    partition: int = field(metadata=ONLY_JSON)
    offset: int = field(metadata=ONLY_JSON)
    events: int
    key: str | None
    event_type: str | None
    state: str
    attempts: int
    failed: datetime
    next_attempt: datetime | None
    error: str

    @property
    def place(self) -> GroupPlace:
        """The place of its first event."""
        return GroupPlace(
            group=self.group, topic=self.topic, partition=self.partition, offset=self.offset
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DlqUnit:
    """A unit that was set aside; offsets are inclusive, a time is None until it comes.

    attempts: calls that ended. crashes: calls during which the process died. reason: the most
    telling line of the exception. closed: when the unit was handled after all, or discarded.
    """

    group: str
    topic: str
    partition: int
    offset: int
    last_offset: int
    events: int
    transaction_id: UUID
    state: str
    attempts: int
    crashes: int
    next_attempt: datetime | None
    reason: str
    exception: str
    exception_class: str | None
    sqlstate: str | None
    worker: str | None
    duration_ms: float | None
    first_failed: datetime
    failed: datetime
    died: datetime | None
    redriven_by: str | None
    redriven: datetime | None
    closed: datetime | None
    discarded_by: str | None
    discard_reason: str | None

    @property
    def place(self) -> GroupPlace:
        """The place of its first event."""
        return GroupPlace(
            group=self.group, topic=self.topic, partition=self.partition, offset=self.offset
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DlqEvent:
    """An event of a unit; headers and payload are JSON text."""

    offset: int
    message_id: int
    key: str | None
    event_type: str | None
    host_id: str | None
    user_id: str | None
    transaction_id: UUID
    published: datetime
    headers: str | None
    payload: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedBehind:
    """A unit parked behind another."""

    partition: int
    offset: int
    events: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedAhead:
    """The unit that a parked one waits for; of the same group and topic."""

    partition: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SameError:
    """The form of a unit's error, and the number of open units of its group and topic with it."""

    cause: str
    units: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SameTransaction:
    """A unit of the same transaction; behind: units parked behind it."""

    group: str
    topic: str
    partition: int
    offset: int
    state: str
    behind: int

    def __str__(self) -> str:
        parked = f", {self.behind} parked behind it" if self.behind else ""
        place = spell(self.group, self.topic, self.partition, self.offset)
        return f"{place} ({self.state}{parked})"
