"""Events that wait for an offset without a sequencer: no lag shows them, no group gets them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import psycopg
from psycopg import Connection
from psycopg.rows import class_row

from gapless.db.queries import query
from gapless.status.snapshot import COUNT_MAX, Pending, Sequencing

START = "start gapless run, or gapless gateway"
STUCK_S = 30.0  # a supervisor replaces a sequencer that is silent for half of it


def unsequenced(sequencer: Sequencing, pending: Sequence[Pending]) -> str | None:
    """Return the problem, with their number; None: there are none, or a sequencer is active."""
    if sequencer.pid is not None or sequencer.needs_rebase or not pending:
        return None
    return f"{_wait(pending)}, and no supervisor gives any"


def stuck(sequencer: Sequencing, pending: Sequence[Pending], now: datetime) -> str | None:
    """Return the problem of events that the active sequencer does not see: it was stopped."""
    if sequencer.pid is None or sequencer.needs_rebase or not pending:
        return None
    rests_s = min(max(each.oldest_s for each in pending), (now - sequencer.ran_ts).total_seconds())
    if rests_s < STUCK_S:
        return None
    return f"{_wait(pending)}, and the sequencer, session {sequencer.pid}, does nothing"


def remedy_of_stuck(pid: int) -> str:
    """Return the remedy: the role is free when the session has ended."""
    return f"select pg_terminate_backend({pid}): another gapless run, or a gateway, continues"


def _wait(pending: Sequence[Pending]) -> str:
    events = sum(each.events for each in pending)
    wait = "event waits" if events == 1 else "events wait"
    at_least = "at least " if events >= COUNT_MAX else ""
    oldest_s = max(each.oldest_s for each in pending)
    return f"{at_least}{events:,} {wait} without an offset, for {oldest_s:,.0f} s"


def find_unsequenced(conn: Connection[Any]) -> str | None:
    """Look, and return the problem with its remedy, or None.

    None, too, if that fails: it only accompanies another result.
    """
    from gapless.log.catch_up import is_sequencer_active  # noqa: PLC0415 - status needs none of it

    try:
        if is_sequencer_active(conn):
            return None
        with conn.cursor(row_factory=class_row(Sequencing)) as cursor:
            sequencer = cursor.execute(query("status", "sequencer")).fetchone()
        with conn.cursor(row_factory=class_row(Pending)) as found:
            pending = found.execute(query("status", "pending")).fetchall()
    except psycopg.Error:
        return None
    waits = None if sequencer is None else unsequenced(sequencer, pending)
    return waits and f"{waits}: {START}"
