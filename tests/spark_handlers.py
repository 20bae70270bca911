"""Handlers that the test of the Spark engine runs in Spark's tasks."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from psycopg import Connection

import gapless


@gapless.handler(topic="outbox", group="on-spark", batch_size=20)
def note(unit: gapless.Unit, conn: Connection[Any]) -> None:
    """Write each event down; kill this process once, in the middle of a transaction."""
    for event in unit:
        conn.execute(
            "insert into effect (partition_id, c_offset, n) values (%s, %s, %s)",
            [event.partition, event.offset, event.payload["n"]],
        )
        once = event.payload.get("kill")
        if once is not None and not Path(once).exists():
            Path(once).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if event.payload.get("bad"):
            raise ValueError("refused")
