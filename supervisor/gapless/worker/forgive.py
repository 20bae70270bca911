"""A lost session that was not the unit's fault: its attempt does not count (I8).

Workers and Spark's tasks follow the same rule.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Any, Protocol

import psycopg
import tenacity
from psycopg import Connection

from gapless.db.queries import query
from gapless.errors import ConnectError

FORGIVEN_OF = 5  # lost sessions: one in this many counts against the unit all the same
# An operator ended the session, or the server stopped: the handler is not to blame.
SHUTDOWN_STATES = frozenset({"57P01", "57P02", "57P03"})


class InHand(Protocol):
    """The work in hand when its session was lost: a Driver."""

    @property
    def has_attempt(self) -> bool:
        """Whether an attempt is recorded without its end."""

    def forgive(self, conn: Connection[Any]) -> None:
        """Take that attempt back, from a new session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """A session that was lost. began_s (time.monotonic): when it was opened.

    draw: a number, another one at the next loss.
    """

    error: psycopg.Error
    began_s: float
    draw: int


def forgive(
    what: InHand,
    loss: Loss,
    connect: Callable[[], Connection[Any]],
    *,
    patience_s: float,
    stop: Callable[[], bool] = lambda: False,
    sleep: Callable[[float], None] = sleep,
) -> None:
    """Take the unit's last attempt back, from a new session, if it is not to blame for the loss.

    An operator or a restart of the server is to blame instead; a session lost for no known reason
    counts as a death. So does one loss in FORGIVEN_OF: a unit may be able to provoke such losses.
    connect: opens the new session; retried for patience_s seconds, unless told to `stop`.
    """
    if not what.has_attempt or loss.draw % FORGIVEN_OF == 0:
        return
    for attempt in tenacity.Retrying(
        retry=tenacity.retry_if_exception_type((ConnectError, psycopg.OperationalError)),
        wait=tenacity.wait_random_exponential(multiplier=0.05, max=1),
        stop=lambda state: (state.seconds_since_start or 0) > patience_s or stop(),
        sleep=sleep,
        retry_error_callback=lambda _: None,
    ):
        with attempt, contextlib.closing(connect()) as conn:
            age_s = monotonic() - loss.began_s
            restarted = conn.execute(query("lease", "restarted"), {"age_s": age_s}).fetchone()
            if loss.error.sqlstate in SHUTDOWN_STATES or restarted == (True,):
                what.forgive(conn)
