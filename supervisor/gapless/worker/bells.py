"""Notifications of a supervisor's session: for itself, and for workers without LISTEN (auto)."""

from __future__ import annotations

from typing import Any

from psycopg import Connection

from gapless.db.listen import Notifications, listen, unlisten
from gapless.keys import Partition


def bell_of(partition: Partition) -> str:
    """Return where it is told that a partition has something to do."""
    return f"gapless_p_{partition.topic_id}_{partition.partition_id}"


class Bells:
    """Of one session: with the next one all begins anew, and everybody is rung once.

    payloads: of notifications on other channels than those of partitions.
    """

    def __init__(self, conn: Connection[Any]) -> None:
        self.payloads: list[str] = []
        self._conn = conn
        self._notifications = Notifications(conn)
        self._channels: set[str] = set()
        self._rung: set[str] = set()

    def keep(self, channels: set[str]) -> None:
        """Listen for these partitions and no others; one that is new rings, for what came before.

        Raises psycopg.Error.
        """
        for channel in self._channels - channels:
            unlisten(self._conn, channel)
        for channel in channels - self._channels:
            listen(self._conn, channel)
        self._rung |= channels - self._channels
        self._channels = channels

    def take(self) -> set[str]:
        """Return the channels of partitions that were heard of. Raises psycopg.Error."""
        for channel, payload in self._notifications.take():
            if channel in self._channels:
                self._rung.add(channel)
            else:
                self.payloads.append(payload)
        rung, self._rung = self._rung, set()
        return rung
