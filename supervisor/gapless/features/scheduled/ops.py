"""Look at events that wait for their time, and take them back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from gapless.db.queries import query
from gapless.features.scheduled.later import cancel
from gapless.ops.rows import rows

if TYPE_CHECKING:
    from psycopg import Connection

__all__ = ["Cancelled", "LaterEvent", "LaterTotals", "cancel_later", "count_later", "list_later"]

COUNTED_MAX = 1_000_000  # to count more would take seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class LaterEvent:
    """An event that waits until `deliver_at`.

    topic: None: it is gone. transaction_id: as its publisher was told. scheduled_by: a role.
    """

    scheduled_id: int
    topic: str | None
    deliver_at: datetime
    key: str | None
    event_type: str | None
    transaction_id: UUID
    scheduled_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LaterTotals:
    """What waits in all. scheduled: events, counted up to 1 000 000.

    next_due: of the first; None: nothing waits. late_s: so long ago it was due, 0 before.
    """

    scheduled: int
    next_due: datetime | None
    late_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled:
    """What cancel_later() did. scheduled_id: the number of the event.

    cancelled: False: it was promoted, cancelled, or never was.
    """

    scheduled_id: int
    cancelled: bool

    def __str__(self) -> str:
        if self.cancelled:
            return f"cancelled {self.scheduled_id}"
        why = "is in the log already, was cancelled, or never was"
        return f"nothing to do: {self.scheduled_id} {why}"


def list_later(
    conn: Connection[Any],
    *,
    topic: str | None = None,
    transaction_id: UUID | None = None,
    events_max: int = 100,
) -> list[LaterEvent]:
    """Return what waits, the next ones first.

    events_max: so many events at most.
    topic, transaction_id: of this one only; None: of all.
    """
    return rows(
        conn,
        LaterEvent,
        query("later", "list"),
        topic=topic,
        transaction_id=None if transaction_id is None else str(transaction_id),
        limit=events_max,
    )


def count_later(conn: Connection[Any]) -> LaterTotals:
    """Return how many events wait, and since when or until when the first of them does."""
    return rows(conn, LaterTotals, query("later", "totals"), limit=COUNTED_MAX)[0]


def cancel_later(conn: Connection[Any], scheduled_ids: Iterable[int]) -> list[Cancelled]:
    """Take events back, each in a transaction of its own if `conn` is in autocommit.

    scheduled_ids: the numbers of the events.
    Raises UsageError for what is no id. The role has gapless_operator, or scheduled them itself.
    """
    return [Cancelled(scheduled_id=each, cancelled=cancel(conn, each)) for each in scheduled_ids]
