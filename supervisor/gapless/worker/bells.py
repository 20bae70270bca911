"""Notifications that a supervisor's session receives: its own, and those of workers on auto."""

from __future__ import annotations

from typing import Any

from psycopg import Connection

from gapless.db.listen import Notifications, listen, unlisten
from gapless.keys import Partition


def bell_of(partition: Partition) -> str:
    """Return the channel on which a partition is notified of work."""
    return f"gapless_p_{partition.topic_id}_{partition.partition_id}"


class Bells:
    """The channels of one session. The next session starts anew and rings every partition once.

    payloads: those of notifications on channels that belong to no partition.
    """

    def __init__(self, conn: Connection[Any]) -> None:
        self.payloads: list[str] = []
        self._conn = conn
        self._notifications = Notifications(conn)
        self._channels: set[str] = set()
        self._rung: set[str] = set()

    def keep(self, channels: set[str]) -> None:
        """Listen for these partitions only; ring a new one, for events that came earlier.

        Raises psycopg.Error.
        """
        for channel in self._channels - channels:
            unlisten(self._conn, channel)
        for channel in channels - self._channels:
            listen(self._conn, channel)
        self._rung |= channels - self._channels
        self._channels = channels

    def take(self) -> set[str]:
        """Return the channels of partitions that were notified. Raises psycopg.Error."""
        for channel, payload in self._notifications.take():
            if channel in self._channels:
                self._rung.add(channel)
            else:
                self.payloads.append(payload)
        rung, self._rung = self._rung, set()
        return rung
