"""Retention: drop the oldest chunks of the log that nothing needs, and their other data.

The database does all the work (sql/features/retention/functions/drop_chunk.sql): each step is a
transaction of its own, does not depend on the session that took the step before, and continues
where that was interrupted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg
from psycopg import Connection
from psycopg.rows import class_row

from gapless.db.queries import query
from gapless.db.refused import refused
from gapless.failpoints import hit
from gapless.log.topics import require_topic

__all__ = ["Chunk", "Retention", "find_retention"]

log = logging.getLogger("gapless.retention")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A chunk of the log: it `goes` once the older ones have gone, else `reasons` say why not.

    is_behind: it stays only because a reader has not passed it. upto: its ids are below. events and
    newest (the time when the newest event got its offset) are None while the chunk is in use; bytes
    is its size on disk, indexes included.
    """

    chunk: str
    upto: int
    events: int | None
    bytes: int
    newest: datetime | None
    goes: bool
    reasons: Sequence[str]
    is_behind: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """The minimum time that a topic keeps events; None is forever.

    archive: the pipeline that has to read them first. overrun: groups that need not have read them.
    """

    keep_s: float | None = None
    archive: str | None = None
    overrun: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRetention:
    """The time that history for people is kept: closed letters and the audit."""

    letters_s: int
    audit_s: int


def plan_retention(conn: Connection[Any]) -> list[Chunk]:
    """Count the chunks completed since the last look; return all chunks, oldest first."""
    conn.execute(query("retention", "close_chunks"))
    with conn.cursor(row_factory=class_row(Chunk)) as cursor:
        return cursor.execute(query("retention", "retention_plan")).fetchall()


def apply_retention(
    conn: Connection[Any],
    keep: HistoryRetention,
    *,
    tell: Callable[[int], None] = lambda _: None,
) -> list[str]:
    """Drop the chunks that may go; return the names of those whose events were dropped.

    Before: `conn` is in autocommit. Objects that another session has locked are left for the next
    time. tell: is called with the number of chunks dropped so far.
    """
    dropped: list[str] = []
    _repeat(conn, "close_chunks")
    hit("retention.closed")
    while name := _try(conn, "drop_chunk"):
        dropped.append(str(name))
        tell(len(dropped))
        hit("retention.dropped")
    _repeat(conn, "forget_segments")
    hit("retention.forgotten")
    while _try(conn, "empty_default_chunk"):
        hit("retention.moved")
    # First without waiting; then publishers wait as well, but only for a moment.
    for patient in (False, True):
        if _try(conn, "drop_emptied_chunks", patient=patient) is not None:
            break
    hit("retention.detached")
    _repeat(conn, "turn_dedupe_slots")
    hit("retention.turned")
    _repeat(conn, "purge_history", letters_s=keep.letters_s, audit_s=keep.audit_s)
    return dropped


def find_retention(conn: Connection[Any], topic: str) -> Retention:
    """Return the retention of a topic. Raises RefusedError (GL404) for an unknown topic."""
    require_topic(conn, topic)
    with conn.cursor(row_factory=class_row(Retention)) as cursor:
        found = cursor.execute(query("retention", "retention"), {"name": topic}).fetchone()
    assert found is not None
    return found


def set_retention(conn: Connection[Any], topic: str, retention: Retention) -> None:
    """Set the retention of a topic; it holds at once, also for existing events."""
    params = {
        "name": topic,
        "keep_s": retention.keep_s,
        "archive": retention.archive,
        "overrun": list(retention.overrun),
    }
    with refused():
        conn.execute(query("retention", "set_retention"), params)


def _repeat(conn: Connection[Any], name: str, **params: object) -> None:
    """Repeat a step that does some of the work until none is left."""
    while _try(conn, name, **params):
        pass


def _try(conn: Connection[Any], name: str, **params: object) -> Any:
    """Run a step; return None also when another session has locked its rows."""
    with suppress(psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
        row = conn.execute(query("retention", name), params).fetchone()
        return None if row is None else row[0]
    return None
