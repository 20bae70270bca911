"""Strangers in the way: who holds a lock without a right to it is ended, others named (I11)."""

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
    """A session that held, or waited for, what it has no right to; is_ended: it does no more."""

    pid: int
    role: str | None
    holds: str
    is_ended: bool


def name_prepared(conn: Connection[Any], known: set[str]) -> None:
    """Say in the log which transactions were prepared and left, and hold what groups need.

    known: names of those that were named before; brought up to date.
    """
    _name(conn, "left_prepared", known)


def name_later_holders(conn: Connection[Any], known: set[str]) -> None:
    """Say in the log which transactions have events for later in hand that are due, as above."""
    _name(conn, "later_holders", known)


def _name(conn: Connection[Any], which: str, known: set[str]) -> None:
    found = dict(conn.execute(query("lease", which)).fetchall())
    for name, told in found.items():
        if name not in known:
            log.error("%s", told)
    known.intersection_update(found)
    known.update(found)


def end_foreign_locks(conn: Connection[Any], known: set[int]) -> None:
    """End them, and say in the log who they were.

    known: pids of those that could not be ended, and were named before; brought up to date.
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
