"""The newest look of an exporter, for all requests: taken at a request, at most every 5 s."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from time import monotonic
from typing import Any

import psycopg
from psycopg import Connection

from gapless.errors import ConnectError, one_line
from gapless.features.metrics.look import DatabaseLook, Standstill, take_look

LOOK_EVERY_S = 5.0
RETRY_S = 1.0  # after a look that failed


class Looks:
    """Looks over one session, which is replaced when it is lost; any thread may ask."""

    def __init__(self, connect: Callable[[], Connection[Any]]) -> None:
        self._connect = connect
        self._conn: Connection[Any] | None = None
        self._standstill = Standstill()
        self._lock = Lock()
        self._newest: DatabaseLook | str = "no look has been taken yet"
        self._due_s = 0.0

    def newest(self) -> DatabaseLook | str:
        """Return a look of the last 5 s, or the reason why the database does not answer."""
        with self._lock:
            if monotonic() >= self._due_s:
                self._newest = self._look()
                wait_s = RETRY_S if isinstance(self._newest, str) else LOOK_EVERY_S
                self._due_s = monotonic() + wait_s
            return self._newest

    def close(self) -> None:
        """End the session; the next look opens another one."""
        with self._lock:
            if self._conn is not None:
                self._conn.close()

    def _look(self) -> DatabaseLook | str:
        try:
            if self._conn is None or self._conn.closed:
                self._conn = self._connect()
            return take_look(self._conn, self._standstill)
        except (psycopg.Error, ConnectError) as error:
            if self._conn is not None and not isinstance(error, psycopg.errors.QueryCanceled):
                self._conn.close()
            return one_line(error) or type(error).__name__
