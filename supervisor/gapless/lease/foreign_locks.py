"""Foreign locks: end the sessions that hold a lock without a right to it, or name them (I11)."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from psycopg import Connection
from psycopg.rows import class_row

from gapless.db.queries import query

log = logging.getLogger("gapless.supervisor")


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignLock:
    """A session that held, or waited for, a lock without a right to it; is_ended: it was ended."""

    pid: int
    role: str | None
    holds: str
    is_ended: bool


def name_prepared(conn: Connection[Any], known: set[str]) -> None:
    """Log the prepared transactions that were left behind and hold locks that groups need.

    known: names of those that were logged before; brought up to date.
    """
    _name(conn, "left_prepared", known)


def name_later_holders(conn: Connection[Any], known: set[str]) -> None:
    """Log the transactions that hold scheduled events which are due; `known` as above."""
    _name(conn, "later_holders", known)


def _name(conn: Connection[Any], which: str, known: set[str]) -> None:
    found = dict(conn.execute(query("lease", which)).fetchall())
    for name, told in found.items():
        if name not in known:
            log.error("%s", told)
    known.intersection_update(found)
    known.update(found)


def end_foreign_locks(conn: Connection[Any], known: set[int]) -> None:
    """End the sessions that hold foreign locks, and log who they were.

    known: pids of sessions that could not be ended, and were logged before; brought up to date.
    """
    with conn.cursor(row_factory=class_row(ForeignLock)) as cursor:
        found = cursor.execute(query("lease", "end_foreign_locks")).fetchall()
    for squatter in found:
        who = f"pid {squatter.pid} of role {squatter.role} held {squatter.holds}"
        if squatter.is_ended:
            log.warning("%s, to which it has no right: its session was ended", who)
        elif squatter.pid not in known:
            log.error(
                "%s, to which it has no right: end it with select pg_terminate_backend(%s), or "
                "grant pg_signal_backend to the owner of the schema",
                who,
                squatter.pid,
            )
    known.intersection_update({squatter.pid for squatter in found})
    known.update(squatter.pid for squatter in found if not squatter.is_ended)
