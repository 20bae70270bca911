"""Sessions for requests: some threads, each with one of its own that is made again when it is lost.

gapless.ops speaks through ordinary connections, so a request runs in a thread; while all are busy
it waits its turn. What waits for something to happen holds none.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Any, TypeVar

import psycopg
from psycopg import Connection

from gapless.db.connect import connect_shared, is_transient
from gapless.db.listen import readable
from gapless.db.migrate import require_schema
from gapless.errors import ConnectError, UnreachableError, one_line
from gapless.gateway.problem import Problem

log = logging.getLogger("gapless.gateway")

Result = TypeVar("Result")
WAITING_REQUESTS_MAX = 2_000  # who comes while so many wait for a session is turned away
PAUSE_S = 0.5  # after an attempt to connect that failed nobody tries again


class Sessions:
    """Runs work with a session, in autocommit; says once that the database is away, and back."""

    def __init__(self, dsn: str, *, sessions: int, connect_timeout_s: int) -> None:
        self._dsn = dsn
        self._connect_timeout_s = connect_timeout_s
        self._threads = ThreadPoolExecutor(sessions, thread_name_prefix="session")
        self._own = threading.local()
        self._all: set[Connection[Any]] = set()
        self._lock = threading.Lock()
        self._waiting_requests = 0
        self._away_s: float | None = None  # monotonic: since when
        self._tried_s = 0.0  # monotonic: when an attempt failed last
        self._why = ""

    async def run(self, work: Callable[[Connection[Any]], Result]) -> Result:
        """Return what `work` does with a session of its own until then.

        Raises Problem (503) when too many wait; UnreachableError or psycopg.Error while the
        database is away: what was to be committed then may be, or not.
        """
        if self._waiting_requests >= WAITING_REQUESTS_MAX:
            raise Problem(503, "too many requests wait for a session", headers={"Retry-After": "1"})
        self._waiting_requests += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, self._do, work)
        finally:
            self._waiting_requests -= 1

    def close(self) -> None:
        """End all sessions; those that are busy finish first."""
        self._threads.shutdown(cancel_futures=True)
        for conn in self._all:
            conn.close()

    def _do(self, work: Callable[[Connection[Any]], Result]) -> Result:
        try:
            conn = self._session()
            result = work(conn)
        except (psycopg.Error, ConnectError) as error:
            if is_transient(error) and self._has_lost():
                self._note_away(error)
            raise
        self._note_back()
        return result

    def _session(self) -> Connection[Any]:
        conn: Connection[Any] | None = getattr(self._own, "conn", None)
        if conn is not None and not _is_gone(conn):
            return conn
        self._forget()
        if self._away_s is not None and monotonic() - self._tried_s < PAUSE_S:
            raise UnreachableError(self._why)
        try:
            made = connect_shared(
                self._dsn, role="gateway", connect_timeout_s=self._connect_timeout_s
            )
        except (psycopg.Error, ConnectError):
            self._tried_s = monotonic()  # here, not for who was turned away: there are always some
            raise
        require_schema(made)
        self._own.conn = made
        with self._lock:
            self._all.add(made)
        return made

    def _has_lost(self) -> bool:
        """Forget this thread's session if it is of no use any more; tell whether there is none."""
        conn: Connection[Any] | None = getattr(self._own, "conn", None)
        if conn is not None and not _is_gone(conn):
            return False
        self._forget()
        return True

    def _forget(self) -> None:
        conn: Connection[Any] | None = getattr(self._own, "conn", None)
        self._own.conn = None
        if conn is not None:
            conn.close()
            with self._lock:
                self._all.discard(conn)

    def _note_away(self, error: BaseException) -> None:
        with self._lock:
            self._why = one_line(error)
            if self._away_s is None:
                self._away_s = monotonic()
                log.warning("the database is away, requests get 503: %s", self._why)

    def _note_back(self) -> None:
        if self._away_s is None:
            return
        with self._lock:
            if self._away_s is not None:
                log.info("the database is back after %.1f s", monotonic() - self._away_s)
                self._away_s = None


def _is_gone(conn: Connection[Any]) -> bool:
    """Tell whether a session that is idle has ended: nothing else would make it readable."""
    return bool(conn.closed) or readable(0, conn.fileno())
