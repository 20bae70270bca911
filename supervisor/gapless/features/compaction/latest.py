"""Compaction: the newest event of each key of a topic, kept beside the log.

The database does all the work (sql/features/compaction/functions/): each step is a transaction,
does not depend on the session that took the step before, and continues where that ended.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import Connection
from psycopg.rows import class_row

from gapless.db.queries import query
from gapless.db.refused import refused

__all__ = ["LatestEvent", "find_latest"]

STEP_EVENTS_MAX = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestEvent:
    """The newest event of a key, with its place in the log, even if retention has dropped it since.

    key: the event's key, or without one its host. payload: decoded, never None. partition: from 0;
    offset: from 1. created: the time of publishing.
    """

    key: str
    event_type: str | None
    payload: Any
    headers: dict[str, Any] | None
    host_id: str | None
    user_id: str | None
    transaction_id: UUID
    partition: int
    offset: int
    created: datetime


def set_compaction(conn: Connection[Any], topic: str, *, compact: bool) -> bool:
    """Keep the newest event of each key of a topic, or stop; return whether that is a change.

    Raises RefusedError for an unknown topic (GL404), and (GL409) while the events kept before are
    being removed, or a group reads them.
    """
    with refused():
        row = conn.execute(
            query("compaction", "set_compaction"), {"topic": topic, "compact": compact}
        ).fetchone()
    return row is not None and bool(row[0])


def compact(conn: Connection[Any]) -> int | None:
    """Take one step: take some events in, or remove rows; return how many.

    Before: `conn` is in autocommit. 0: nothing to do now. None: no topic is compacted. Bound:
    STEP_EVENTS_MAX events in one transaction. Rows that another session has locked are left.
    """
    row = conn.execute(query("compaction", "compact"), {"events_max": STEP_EVENTS_MAX}).fetchone()
    return None if row is None else row[0]


def find_latest(conn: Connection[Any], topic: str, key: str) -> LatestEvent | None:
    """Return the newest event of a key, as far as the topic was compacted; None: there is none.

    A key whose newest event is a tombstone (payload null) has none. Raises RefusedError for an
    unknown topic (GL404), or a topic that is not compacted (GL409).
    """
    with refused(), conn.cursor(row_factory=class_row(LatestEvent)) as cursor:
        return cursor.execute(
            query("compaction", "find_latest"), {"topic": topic, "key": key}
        ).fetchone()
