"""The handlers of the history: they write down which value of which key they saw, and when."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from psycopg import Connection

import gapless

SEE = "insert into public.seen (group_id, key, value) values (%s, %s, %s)"


def recorder(group: str) -> Callable[..., Any]:
    """Make the handler of a group."""

    def record(unit: gapless.Unit, conn: Connection[Any]) -> None:
        for event in unit:
            value = (event.headers or {}).get("n")  # a tombstone has one, too
            conn.execute(SEE, [group, event.key, value])

    return record


for name in os.environ["HISTORY_GROUPS"].split(","):
    globals()[name] = gapless.handler(
        topic="prices", group=name, start="latest-per-key", batch_size=20
    )(recorder(name))
