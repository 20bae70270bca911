"""Record, in transactions of their own, the changes of a group's place beside claims (I5)."""

from __future__ import annotations

from typing import Any

from psycopg import Connection

from gapless.consume.session import run_and_commit
from gapless.keys import Assignment


def record_attempt(conn: Connection[Any], assignment: Assignment) -> int | None:
    """Record, in a transaction of its own, that the next unit is about to be tried.

    Returns the number of its tries, including this one; None when fenced.
    """
    ((attempts,),) = run_and_commit(conn, "record_attempt", assignment.params)
    return None if attempts is None else int(attempts)


def forget_attempt(conn: Connection[Any], assignment: Assignment) -> None:
    """Take the last attempt back: it ended with an error, not with the worker's death."""
    run_and_commit(conn, "forget_attempt", assignment.params)


def stop_beyond(conn: Connection[Any], assignment: Assignment, log_end: int) -> None:
    """Keep the group where it is, beyond the end of the log, until a person moves it."""
    run_and_commit(conn, "stop_beyond", {**assignment.params, "log_end": log_end})


def skip_overrun(conn: Connection[Any], assignment: Assignment, to_end: str) -> int | None:
    """Pass the events that retention dropped; return their number, None when fenced.

    to_end: earliest or latest.
    """
    ((lost,),) = run_and_commit(conn, "skip_overrun", {**assignment.params, "to_end": to_end})
    return None if lost is None else int(lost)
