"""The audit: changes by people and programs, with their time and their author."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from gapless.db.queries import query
from gapless.errors import UsageError
from gapless.ops.place import require_range
from gapless.ops.rows import rows

if TYPE_CHECKING:
    from psycopg import Connection

__all__ = ["AuditEntry", "list_audit"]

ENTRIES_MAX = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """A change of a group, a topic, a schedule, a key, or the like.

    audit_id: rows of later changes have higher ones. who: the database role, with the caller of a
    gateway in brackets. group, topic, partition: None where the change is of another kind. detail:
    as the action needs it.
    """

    audit_id: int
    at: datetime
    who: str
    action: str
    group: str | None
    topic: str | None
    partition: int | None
    detail: Mapping[str, Any]


def list_audit(  # noqa: PLR0913 - the filters
    conn: Connection[Any],
    *,
    who: str | None = None,
    action: str | None = None,
    group: str | None = None,
    topic: str | None = None,
    since: datetime | timedelta | None = None,
    until: datetime | None = None,
    before: int | None = None,
    limit: int = 100,
) -> list[AuditEntry]:
    """Return changes, the newest first.

    who: this text is part of the author, in any case of letters. since: a time, or an age (a
    timedelta, of seconds or more). before: only rows with a smaller audit_id, for the next page.
    limit: rows, 1 to 1000.
    Raises UsageError for another limit, and for a range that ends before it begins.
    """
    if not 1 <= limit <= ENTRIES_MAX:
        raise UsageError(f"limit: {limit} must be from 1 to {ENTRIES_MAX}")
    require_range(conn, since, until)
    wanted = {"who": who, "action": action, "group": group, "topic": topic}
    return rows(
        conn,
        AuditEntry,
        query("audit", "list"),
        **wanted,
        since=None if isinstance(since, timedelta) else since,
        age=since if isinstance(since, timedelta) else None,
        until=until,
        before=before,
        limit=limit,
    )
