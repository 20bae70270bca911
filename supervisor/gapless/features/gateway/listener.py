"""One session of a gateway that listens for all its streams, on a thread of its own.

A notification only makes a wait shorter: without a session that can listen (through a pooler, or
while the database is away) feeds look by themselves.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from typing import Any

import psycopg
from psycopg import Connection

from gapless.db.connect import connect
from gapless.db.listen import Notifications, listen, readable
from gapless.errors import ConnectError, UnreachableError
from gapless.features.gateway.trouble import RepeatedFailure

RETRY_S = 1.0
REFUSED_S = 60.0  # a failure that no seconds repair: a pooler in transaction mode


class ChannelListener:
    """Calls `ring` in the loop, with the channel, at each notification of a channel of its own."""

    def __init__(self, dsn: str, connect_timeout_s: int, ring: Callable[[str], None]) -> None:
        self._dsn = dsn
        self._connect_timeout_s = connect_timeout_s
        self._ring = ring
        self._loop = asyncio.get_running_loop()
        self._channels: set[str] = set()
        self._trouble = RepeatedFailure(
            "no notifications: streams and waits see events up to 1 s later"
        )
        self._has_ended = False
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        self._thread = threading.Thread(target=self._run, name="bell", daemon=True)
        self._thread.start()

    def listen_to(self, channels: set[str]) -> None:
        """Listen to these channels as well."""
        if channels - self._channels:
            self._channels |= channels
            os.write(self._writer, b".")

    def close(self) -> None:
        """End the session and its thread."""
        self._has_ended = True
        os.write(self._writer, b".")
        self._thread.join()
        os.close(self._reader)
        os.close(self._writer)

    def _run(self) -> None:
        while not self._has_ended:
            if not self._channels:
                self._rest(None)
                continue
            try:
                with connect(
                    self._dsn, role="gateway", connect_timeout_s=self._connect_timeout_s
                ) as conn:
                    self._trouble.end()
                    self._hear(conn)
            except (psycopg.Error, ConnectError) as error:
                self._trouble.note(error)
                passes = isinstance(error, psycopg.Error | UnreachableError)
                self._rest(RETRY_S if passes else REFUSED_S)

    def _hear(self, conn: Connection[Any]) -> None:
        heard = Notifications(conn)
        known: set[str] = set()
        while not self._has_ended:
            for channel in sorted(self._channels - known):
                listen(conn, channel)
                known.add(channel)
                self._tell(channel)  # for notifications that came before
            for channel in heard.channels():
                self._tell(channel)
            self._rest(None, conn.fileno())

    def _tell(self, channel: str) -> None:
        if not self._has_ended:
            self._loop.call_soon_threadsafe(self._ring, channel)

    def _rest(self, timeout_s: float | None, *others: int) -> None:
        readable(timeout_s, self._reader, *others)
        try:
            os.read(self._reader, 4096)
        except BlockingIOError:
            return
