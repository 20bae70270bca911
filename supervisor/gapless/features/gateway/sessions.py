"""Sessions for requests; a lost one is replaced; a request waits while all of them are busy.

gapless.ops uses ordinary connections, so a request runs in a thread, and holds a session for as
long. publish() also has an async form, so it uses the same session in the loop: that saves the way
to a thread and the threads' turns at the interpreter, a third of the cost of a publish
(docs/why/decisions/0039). A request that waits for an event holds no session.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from time import monotonic
from typing import Any, TypeVar

import psycopg
from psycopg import AsyncConnection, Connection
from psycopg.pq import TransactionStatus

from gapless.db.connect import connect_shared, is_transient
from gapless.db.listen import readable
from gapless.db.migrate import require_schema
from gapless.db.twin import over_session
from gapless.errors import ConnectError, UnreachableError, one_line
from gapless.features.gateway.problem import Problem

log = logging.getLogger("gapless.gateway")

Result = TypeVar("Result")
WAITING_REQUESTS_MAX = 2_000  # further requests are refused
PAUSE_S = 0.5  # from a failed attempt to connect to the next one


@dataclass(frozen=True, slots=True, eq=False)
class Session:
    """A session, for a thread and for the loop; never used by both at a time."""

    conn: Connection[Any]
    in_loop: AsyncConnection[Any]

    def is_gone(self) -> bool:
        """Tell whether an idle session has ended: nothing else would make it readable."""
        return bool(self.conn.closed) or readable(0, self.conn.fileno())


def too_many() -> Problem:
    """Return the problem of a request that is refused because too many wait."""
    return Problem(503, "too many requests wait for a session", headers={"Retry-After": "1"})


class Sessions:
    """Lends sessions, in autocommit; logs once that the database is away, and that it is back."""

    def __init__(self, dsn: str, *, sessions: int, connect_timeout_s: int) -> None:
        self.dsn = dsn
        self.connect_timeout_s = connect_timeout_s
        self._threads = ThreadPoolExecutor(sessions, thread_name_prefix="session")
        self._free = asyncio.Semaphore(sessions)
        self._all: set[Session] = set()
        self._idle: list[Session] = []
        self._checking = threading.Lock()
        self._waiting_requests = 0
        self._away_s: float | None = None  # monotonic: the start of an outage
        self._tried_s = 0.0  # monotonic: the time of the last failure
        self._why = ""

    async def run(self, work: Callable[[Connection[Any]], Result]) -> Result:
        """Call `work` in a thread with a session of its own, and return its result.

        Raises Problem (503) when too many wait; UnreachableError or psycopg.Error while the
        database is away: a transaction that was to commit then may be committed, or not.
        """
        session = await self._take()
        done = asyncio.get_running_loop().run_in_executor(self._threads, work, session.conn)
        # The caller may be cancelled, a thread may not: the session is free when the thread is.
        done.add_done_callback(lambda _: self._put_back(session, done.exception()))
        return await asyncio.shield(done)

    async def speak(self, work: Callable[[AsyncConnection[Any]], Awaitable[Result]]) -> Result:
        """Call `work` in the loop with a session of its own, and return its result.

        For short work: between two awaits no other request is served. Raises as run() does.
        """
        session = await self._take()
        try:
            result = await work(session.in_loop)
        except BaseException as error:
            self._put_back(session, error)
            raise
        self._put_back(session, None)
        return result

    def close(self) -> None:
        """End all sessions, after the loop; busy ones finish first."""
        self._threads.shutdown(cancel_futures=True)
        for session in self._all:
            session.conn.close()

    async def _take(self) -> Session:
        if self._waiting_requests >= WAITING_REQUESTS_MAX:
            raise too_many()
        self._waiting_requests += 1
        try:
            await self._free.acquire()
        finally:
            self._waiting_requests -= 1
        try:
            while self._idle:
                session = self._idle.pop()
                if not session.is_gone():
                    return session
                self._forget(session)
            return await self._open()
        except BaseException:
            self._free.release()
            raise

    async def _open(self) -> Session:
        if self._away_s is not None and monotonic() - self._tried_s < PAUSE_S:
            raise UnreachableError(self._why)
        made = asyncio.get_running_loop().run_in_executor(self._threads, self._connect)
        try:
            return await asyncio.shield(made)
        except asyncio.CancelledError:
            made.add_done_callback(self._keep)
            raise
        except (psycopg.Error, ConnectError) as error:
            self._tried_s = monotonic()  # not for refused requests: there are always some
            self._note_away(error)
            raise

    def _keep(self, made: asyncio.Future[Session]) -> None:
        """Keep a session for which the caller did not wait."""
        if not made.cancelled() and made.exception() is None:
            self._idle.append(made.result())

    def _connect(self) -> Session:
        conn = connect_shared(self.dsn, role="gateway", connect_timeout_s=self.connect_timeout_s)
        try:
            with self._checking:
                if not self._all:  # reading all files of the schema takes longer than a request
                    require_schema(conn)
                session = Session(conn, over_session(conn, AsyncConnection))
                self._all.add(session)
        except BaseException:
            conn.close()
            raise
        return session

    def _put_back(self, session: Session, error: BaseException | None) -> None:
        if error is None:
            is_of_use = True
            if self._away_s is not None:
                log.info("the database is back after %.1f s", monotonic() - self._away_s)
                self._away_s = None
        else:
            is_idle = session.conn.info.transaction_status is TransactionStatus.IDLE
            is_of_use = is_idle and not session.is_gone()
        if is_of_use:
            self._idle.append(session)
        else:
            self._forget(session)
            self._note_away(error)
        self._free.release()

    def _forget(self, session: Session) -> None:
        session.conn.close()
        self._all.discard(session)

    def _note_away(self, error: BaseException | None) -> None:
        if not isinstance(error, psycopg.Error | ConnectError) or not is_transient(error):
            return
        self._why = one_line(error)
        if self._away_s is None:
            self._away_s = monotonic()
            log.warning("the database is away, requests get 503: %s", self._why)
