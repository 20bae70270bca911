"""Schedules, for an operator: list, pause, resume, remove, and publish now."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from gapless.db.queries import query
from gapless.errors import RefusedError
from gapless.ops.rows import row, rows

if TYPE_CHECKING:
    from psycopg import Connection

__all__ = [
    "ScheduleInfo", "list_schedules", "pause_schedule", "remove_schedule", "resume_schedule",
    "run_schedule", "show_schedule",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleInfo:
    """A schedule as it stands.

    topic: None: it is gone. next_due: None: never; then `trouble` says why. fired: events so far.
    """

    name: str
    topic: str | None
    cron: str | None
    every: str | None
    zone: str
    missed: str
    next_due: datetime | None
    last_due: datetime | None
    fired: int
    paused: bool
    trouble: str | None


def list_schedules(conn: Connection[Any]) -> list[ScheduleInfo]:
    """Return all schedules, by name."""
    return rows(conn, ScheduleInfo, query("later", "schedules"), name=None)


def show_schedule(conn: Connection[Any], name: str) -> ScheduleInfo:
    """Return a schedule. Raises RefusedError (GL404) when there is none of that name."""
    found = rows(conn, ScheduleInfo, query("later", "schedules"), name=name)
    if not found:
        raise RefusedError(
            f'there is no schedule "{name}": gapless schedule lists them', sqlstate="GL404"
        )
    return found[0]


def pause_schedule(conn: Connection[Any], name: str) -> bool:
    """Pause a schedule; its due times pass. False: it was paused already. RefusedError: no such."""
    return bool(row(conn, query("later", "pause_schedule"), name=name)[0])


def resume_schedule(conn: Connection[Any], name: str) -> bool:
    """Resume a schedule from now on; False: it was not paused. RefusedError: there is none."""
    return bool(row(conn, query("later", "resume_schedule"), name=name)[0])


def remove_schedule(conn: Connection[Any], name: str) -> bool:
    """Remove a schedule; its events stay. False: there is none of that name."""
    return bool(row(conn, query("later", "remove_schedule"), name=name)[0])


def run_schedule(conn: Connection[Any], name: str) -> UUID:
    """Publish its event once more, now; return the transaction_id. RefusedError: there is none."""
    return UUID(str(row(conn, query("later", "run_schedule"), name=name)[0]))
