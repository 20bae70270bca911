"""Count units by cause, by type or by day, and the outcome of redrives."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from gapless.db.queries import query
from gapless.ops.dlq.find import DlqFilter, require_known, said
from gapless.ops.rows import row, rows
from gapless.ops.text import ONLY_JSON

if TYPE_CHECKING:
    from psycopg import Connection

__all__ = ["DlqCause", "DlqRedrive", "count_units", "list_redrives", "summarise_units"]

By = Literal["error", "type", "day"]
BY: tuple[By, ...] = ("error", "type", "day")
CAUSES_MAX = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class DlqCause:
    """Units of a group and topic that have a cause in common; times are of their failures.

    cause: the form of their error, the type of their first event, or the day of their last failure
    (UTC). total: units of all causes, also of those beyond the limit.
    """

    group: str
    topic: str
    units: int
    total: int = field(metadata=ONLY_JSON)
    first_failed: datetime
    failed: datetime
    exception_class: str | None = field(metadata=ONLY_JSON)
    cause: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DlqRedrive:
    """Units of a group and topic that a person redrove, and how far they are.

    began, asked: the first and the last request. handled: units handled after all. failed: units
    that failed again. unhandled: units to which no worker has come. Others were discarded.
    """

    group: str
    topic: str
    who: str
    began: datetime
    asked: datetime
    units: int
    handled: int
    failed: int
    unhandled: int
    handled_last: datetime | None


def summarise_units(
    conn: Connection[Any], wanted: DlqFilter, *, by: By = "error", limit: int = CAUSES_MAX
) -> list[DlqCause]:
    """Count the units that the filter chooses by their cause, the most frequent first.

    by: error (its form, without numbers and ids), type (of the first event), or day (of the last
    failure, UTC). limit: at most this many rows.

    Raises the errors of list_units().
    """
    require_known(conn, wanted)
    return rows(conn, DlqCause, query("dlq", "summary"), **said(wanted), by=by, limit=limit)


def count_units(conn: Connection[Any], wanted: DlqFilter) -> int:
    """Return the number of units that the filter chooses."""
    (found,) = row(conn, query("dlq", "count"), **said(wanted))
    return int(found)


def list_redrives(
    conn: Connection[Any],
    since: datetime | timedelta,
    *,
    group: str | None = None,
    topic: str | None = None,
) -> list[DlqRedrive]:
    """Return the redrives, the newest first, a record for each person, group and topic.

    since: a time, or a timedelta before now. A unit that waited for another attempt when it was
    redriven leaves no trace once it is handled.
    """
    is_age = isinstance(since, timedelta)
    when = {"since": None if is_age else since, "age": since if is_age else None}
    return rows(conn, DlqRedrive, query("dlq", "redrives"), **when, group=group, topic=topic)
