"""The handlers of the replay tests: they write down what they see, and do what a payload says."""

from __future__ import annotations

import os
import time
from typing import Any

from psycopg import Connection

import gapless


@gapless.handler(topic="orders", group="billing", on_failure="park-key", retry_delays_s=[60])
def bill(unit: gapless.Unit, conn: Connection[Any]) -> None:
    for event in unit:
        conn.execute(
            "insert into handled (partition_id, c_offset, pid) values (%s, %s, %s)",
            [event.partition, event.offset, os.getpid()],
        )
        if event.payload == "refuse":
            raise ValueError("refused")
        if event.payload == "slow":
            time.sleep(0.05)


@gapless.handler(topic="other", group="x")
def other(unit: gapless.Unit, conn: Connection[Any]) -> None: ...
