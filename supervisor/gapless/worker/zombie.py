"""An evicted owner whose session lives on, and keeps its lock from its successor."""

from __future__ import annotations

import logging
from typing import Any

import psycopg
from psycopg import Connection

from gapless.errors import one_line
from gapless.keys import Partition
from gapless.lease import hold
from gapless.lease.room import missing_grant

log = logging.getLogger("gapless.worker")


class Zombie:
    """The former owner that may hold a partition we wait for."""

    def __init__(self, conn: Connection[Any], partition: Partition) -> None:
        self._conn = conn
        self._partition = partition
        self._is_said = False

    def end(self) -> bool:
        """End its session; without the right to, log that once and wait until it ends."""
        try:
            return hold.break_zombie(self._conn, self._partition) > 0
        except psycopg.errors.InsufficientPrivilege as error:
            if not self._is_said:
                self._is_said = True
                why = missing_grant(self._conn) or one_line(error)
                log.warning("%s: an evicted owner still holds it: %s", self._partition, why)
            return False
