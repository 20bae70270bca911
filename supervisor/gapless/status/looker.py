"""Takes a snapshot whenever one is due and has it shown, whatever becomes of the connection."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from time import monotonic
from types import TracebackType
from typing import Any, Protocol, Self

import psycopg
from psycopg import Connection

from gapless.errors import GaplessError
from gapless.status.look import snapshot
from gapless.status.snapshot import Snapshot

RETRY_S = 0.5


class Display(Protocol):
    """Who shows the snapshots, or why there is none newer."""

    def update(self, snapshot: Snapshot, /) -> None: ...
    def lost(self, trouble: str, /) -> None: ...


class Looker:
    """Feeds a display such as the LiveConsole; `tick()` it from any loop. Use it in `with`.

    A lost connection (a restart of the server) is shown and made again. Bound of a tick: a round
    trip, or what `connect` takes; give it a connect_timeout_s that the loop can bear.
    """

    def __init__(
        self,
        connect: Callable[[], Connection[Any]],
        console: Display,
        *,
        interval_s: float = 1.0,
    ) -> None:
        self._connect = connect
        self._console = console
        self._interval_s = interval_s
        self._conn: Connection[Any] | None = None
        self._lost_s: float | None = None
        self.due_s = 0.0  # monotonic: when tick() has something to do

    def tick(self) -> None:
        """Look, if it is time."""
        if monotonic() < self.due_s:
            return
        try:
            self.look()
            self.due_s = monotonic() + self._interval_s
        except (psycopg.Error, GaplessError) as error:
            is_cut = self._conn is None or self._conn.broken
            self.close()
            self._tell("connection lost" if is_cut else "no answer", error)
            self.due_s = monotonic() + RETRY_S

    def look(self) -> None:
        """Look now. Raises psycopg.Error or GaplessError when that cannot be."""
        if self._conn is None:
            self._conn = self._connect()
        self._console.update(snapshot(self._conn))
        self._lost_s = None

    def filenos(self) -> list[int]:
        """Return the descriptors that a forked child must close."""
        return [] if self._conn is None or self._conn.closed else [self._conn.fileno()]

    def close(self) -> None:
        """Close the connection at once; safe in a signal handler, it never waits."""
        conn, self._conn = self._conn, None
        if conn is not None:
            with contextlib.suppress(psycopg.Error):
                conn.close()

    def _tell(self, what: str, error: Exception) -> None:
        now = monotonic()
        if self._lost_s is None:
            self._lost_s = now
        for_s = f" ({now - self._lost_s:.0f}s)" if now - self._lost_s >= 1 else ""
        why = " ".join(str(error).split()) or type(error).__name__
        self._console.lost(f"{what}, retrying{for_s}: {why}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
