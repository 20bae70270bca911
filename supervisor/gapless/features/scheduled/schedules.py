"""Schedules of repeated events; the database computes their due times, and publishes.

promote() does that (log.later), so schedules work with any session that sequences, and need no
process of their own. Only gapless.cron_next() reads a cron text: one clock, one list of time zones.
"""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

import psycopg
from psycopg.errors import InsufficientPrivilege
from psycopg.rows import tuple_row

from gapless.db.queries import query
from gapless.db.refused import refused
from gapless.errors import UsageError
from gapless.log.topics import create_topic, find_topic

if TYPE_CHECKING:
    from psycopg import Connection

log = logging.getLogger("gapless.supervisor")
__all__ = ["Schedule", "add_schedule", "apply_schedule", "preview_schedule"]

Missed = Literal["once", "all", "skip"]
_NO_TIME = ("22007", "22008", "22009")
TOPIC = "schedules"
"""The topic of schedules that call a function, unless they name another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """An event for `topic`, and its due times: by `cron` or `every`, by the clock of `zone`.

    cron: five fields, or @daily and the like. every: an interval of the database, as "15 minutes"
    or "1 day", 1 second or more. payload, headers: JSON text; without a payload an event has its
    schedule's name and due time. missed: for due times that passed while no session published:
    "once" (one event), "all", or "skip". starts_at: the first time of `every`, before which nothing
    is due; ISO 8601 with a time zone; None: now.
    """

    name: str
    topic: str
    cron: str | None = None
    every: str | None = None
    zone: str = "UTC"
    missed: str = "once"
    key: str | None = None
    event_type: str | None = None
    payload: str | None = None
    headers: str | None = None
    starts_at: str | None = None

    def make_known(self, conn: Connection[Any]) -> bool:
        """Add or change the schedule unless it is there, just so; return whether that is a change.

        If it uses the topic of scheduled functions, that is created, with one partition.
        Raises UsageError if it makes no sense, or if this role may not change it.
        """
        if self.topic == TOPIC and find_topic(conn, TOPIC) is None:
            create_topic(conn, TOPIC, partitions=1)
        try:
            changed = apply_schedule(conn, self)
        except InsufficientPrivilege as error:
            raise UsageError(
                f'schedule "{self.name}" is not in the database as it is declared, and role '
                f'"{conn.info.user}" may not change it: grant it gapless_operator, or let an '
                "operator run gapless init or gapless schedule add"
            ) from error
        if changed:
            log.info("supervisor: schedule %s is as declared now", self.name)
        return changed


def add_schedule(conn: Connection[Any], schedule: Schedule) -> datetime:
    """Add a schedule, or change the one of that name; return its next due time.

    If its rhythm stays the same, so do its next due time and a pause.
    Raises RefusedError for a schedule that never fires, an unknown zone or topic; UsageError for an
    interval, a time or JSON that the database cannot read.
    """
    due: datetime = _row(conn, "add_schedule", schedule)[0]
    return due


def preview_schedule(conn: Connection[Any], schedule: Schedule) -> list[datetime]:
    """Return the next three due times that a schedule would have; it is not added.

    Raises the same errors as add_schedule(): it is added and rolled back.
    """
    with conn.transaction(force_rollback=True):
        add_schedule(conn, schedule)
        with refused(), conn.cursor(row_factory=tuple_row) as cursor:
            found = cursor.execute(query("later", "next_times"), {"name": schedule.name})
            return [due for (due,) in found]


def apply_schedule(conn: Connection[Any], schedule: Schedule) -> bool:
    """Add it unless it is there, just so; return whether that is a change. Raises the same."""
    if _row(conn, "is_schedule", schedule)[0]:
        return False
    add_schedule(conn, schedule)
    return True


def _row(conn: Connection[Any], name: str, schedule: Schedule) -> tuple[Any, ...]:
    try:
        with refused(), conn.cursor(row_factory=tuple_row) as cursor:
            row = cursor.execute(query("later", name), asdict(schedule)).fetchone()
    except psycopg.DataError as error:
        raise UsageError(f'schedule "{schedule.name}": {_unread(schedule, error)}') from error
    assert row is not None
    return row


def _unread(schedule: Schedule, error: psycopg.DataError) -> str:
    """Say which of its texts the database cannot read, and how to write it."""
    reason = error.diag.message_primary or str(error)
    if "interval" in reason and schedule.every is not None:
        return f"every {schedule.every!r} is no interval: write 30s, 15m, 12h, 1d, or '1 month'"
    if error.sqlstate in _NO_TIME and schedule.starts_at is not None:
        return f"{schedule.starts_at!r} is no time to start: write it as 2026-03-01T12:00:00Z"
    if "json" in reason:
        what = "the payload is" if schedule.headers is None else "payload or headers are"
        return f"{what} not JSON: {error.diag.message_detail or reason}"
    return reason
