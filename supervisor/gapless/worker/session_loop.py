"""The loop over one session with PostgreSQL, common to workers and Spark's tasks.

    open, guard ──▶ over? ──no──▶ next one ──due──▶ turn ──▶ note its end
                      ▲                 └──not due──▶ wait        │
                      └──────────────────────◀────────────────────┘

It serves partitions of a group, or other things that have turns. A lost session ends the loop;
the attempts that were in hand are then forgiven from a new session, unless they are to blame
(forgive.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Any, Protocol, TypeVar

import psycopg
from psycopg import Connection
from psycopg.pq import TransactionStatus

from gapless.db.queries import query
from gapless.worker.forgive import InHand, Loss, forgive

GUARD_MORE_MS = 5000  # than maxProcessingMs, within which a process ends by itself

P = TypeVar("P", bound="Served[Any]")
End = TypeVar("End")
End_co = TypeVar("End_co", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """The opening of a session, and its guards.

    connect: opens it, and the one from which a loss is forgiven. patience_s: limit for retries.
    statement_timeout_ms: 0 means no limit; None leaves the limit that the server sets.
    """

    connect: Callable[[], Connection[Any]]
    max_processing_ms: int
    patience_s: float
    statement_timeout_ms: int | None = None

    def open(self) -> Connection[Any]:
        """Return a session that ends when a transaction is idle for longer than a turn may take.

        Raises the errors of connect(), and psycopg.Error.
        """
        conn = self.connect()
        limit_ms = self.max_processing_ms + GUARD_MORE_MS
        conn.execute(query("connect", "guard_worker"), {"max_processing_ms": limit_ms})
        if self.statement_timeout_ms is not None:
            limit = {"timeout_ms": self.statement_timeout_ms}
            conn.execute(query("connect", "statement_timeout"), limit)
        return conn


class Served(Protocol[End_co]):
    """An item that a session works on, turn by turn."""

    @property
    def due_s(self) -> float:
        """When (time.monotonic) its next turn is."""

    def turn(self) -> End_co | None:
        """Do the next thing; return the end of the work on it, None while it continues.

        Raises psycopg.Error when the session is lost.
        """


class Host(Protocol[P, End]):
    """The owner of the session: it picks the next turn, waits, and acts on an end."""

    def over(self) -> End | None:
        """Return the end of the loop, None while there is something to do."""

    def next(self) -> P:
        """Return the item whose turn is next; call it only after over() returned None."""

    def wait(self, until_s: float) -> None:
        """Wait until then (time.monotonic) at most."""

    def took(self, served: P, end: End | None, /) -> None:
        """Note that the item had its turn, and the end of the work on it if it ended."""

    def in_hand(self) -> Iterable[tuple[InHand, int]]:
        """Return the items that may have an attempt open, each with its number for Loss.draw."""

    def hurries(self) -> bool:
        """Tell whether to stop trying for a new session; by default, never."""
        return False

    def nap(self, seconds: float) -> None:
        """Wait at most this long between two such tries."""
        sleep(seconds)


def session_loop(host: Host[P, End], opening: Opening) -> End:
    """Give turns on an open session, until the host says that it is over.

    Raises psycopg.Error when the session is lost, after the work in hand has been forgiven.
    """
    began_s = monotonic()
    try:
        return take_turns(host)
    except psycopg.Error as error:
        for what, draw in host.in_hand():
            forgive(
                what,
                Loss(error=error, began_s=began_s, draw=draw),
                opening.connect,
                patience_s=opening.patience_s,
                stop=host.hurries,
                sleep=host.nap,
            )
        raise


def take_turns(host: Host[P, End]) -> End:
    """Do the same as session_loop(), for as long as the session lasts."""
    while (end := host.over()) is None:
        served = host.next()
        if served.due_s > monotonic():
            host.wait(served.due_s)
            continue
        host.took(served, served.turn())
    return end


def is_sound(conn: Connection[Any]) -> bool:
    """Tell whether a session is open and idle, so that a turn can begin on it."""
    return not conn.closed and conn.info.transaction_status == TransactionStatus.IDLE
