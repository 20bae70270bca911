"""Events that wait for their time: list, count and cancel them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from gapless.db.queries import query
from gapless.features.scheduled.later import cancel
from gapless.ops.place import require_range
from gapless.ops.rows import rows

if TYPE_CHECKING:
    from psycopg import Connection

__all__ = ["Cancelled", "LaterEvent", "LaterTotals", "cancel_later", "count_later", "list_later"]

COUNTED_MAX = 1_000_000  # to count more would take seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class LaterEvent:
    """An event that waits until `deliver_at`.

    topic: None: it is gone. transaction_id: the one that its publisher got. scheduled_by: a role.
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
    """All events that wait. scheduled: events, counted up to 1 000 000.

    next_due: of the first; None: nothing waits. late_s: seconds since it was due, 0 before.
    """

    scheduled: int
    next_due: datetime | None
    late_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled:
    """The result of cancel_later(). scheduled_id: the number of the event.

    cancelled: False: it was promoted or cancelled, or never existed.
    """

    scheduled_id: int
    cancelled: bool

    def __str__(self) -> str:
        if self.cancelled:
            return f"cancelled {self.scheduled_id}"
        why = "is in the log already, was cancelled, or never was"
        return f"nothing to do: {self.scheduled_id} {why}"


def list_later(  # noqa: PLR0913 - the filters
    conn: Connection[Any],
    *,
    topic: str | None = None,
    transaction_id: UUID | None = None,
    key: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    events_max: int = 100,
) -> list[LaterEvent]:
    """Return the events that wait, the next ones first.

    events_max: the largest number of events.
    topic, transaction_id, key: only events of this one; None: of all. since, until: only those due
    then or later, or before. Raises UsageError for a range that ends before it begins.
    """
    require_range(conn, since, until)
    return rows(
        conn,
        LaterEvent,
        query("later", "list"),
        topic=topic,
        transaction_id=None if transaction_id is None else str(transaction_id),
        key=key,
        since=since,
        until=until,
        limit=events_max,
    )


def count_later(conn: Connection[Any]) -> LaterTotals:
    """Return how many events wait, and the due time of the first one."""
    return rows(conn, LaterTotals, query("later", "totals"), limit=COUNTED_MAX)[0]


def cancel_later(conn: Connection[Any], scheduled_ids: Iterable[int]) -> list[Cancelled]:
    """Take events back, each in a transaction of its own if `conn` is in autocommit.

    scheduled_ids: the numbers of the events.
    Raises UsageError for an invalid id. The role has gapless_operator, or scheduled them itself.
    """
    return [Cancelled(scheduled_id=each, cancelled=cancel(conn, each)) for each in scheduled_ids]
