"""The handlers of the queue groups of a run, over the topic that is there; SQL clients share them.

An event that is poison is refused, as by everybody. What a worker does with others is a row.
"""

import os
from collections.abc import Callable
from typing import Any

from psycopg import Connection

import gapless
from chaos.effects import session
from chaos.history import Grouped
from gapless import Unit

TOPIC = "orders"
QUEUES = (
    Grouped(group="sender", mode="queue"),
    Grouped(group="caller", mode="queue", delivery="at-least-once"),
)
BLOCK = 8
WRITE = """
insert into chaos.job (group_id, topic, partition_id, c_offset, tag, who, receipt, is_call)
values (%s, %s, %s, %s, %s, %s, %s, %s)
"""


def make_groups(conn: Connection[Any], topic: str = TOPIC) -> None:
    """Make the groups, so that clients find them before any supervisor does."""
    for each in QUEUES:
        conn.execute(
            "select gapless.create_group(%s, %s, mode => 'queue', block => %s)",
            [each.group, topic, BLOCK],
        )


def once(topic: str = TOPIC) -> Any:
    """Return the handler whose effect commits with the acknowledgement."""

    @gapless.handler(topic=topic, group="sender", mode="queue", batch_size=BLOCK)
    def sender(unit: Unit, conn: Connection[Any]) -> None:
        _write(conn.execute, "sender", unit, is_call=False)

    return sender


def outside(dsn: str, topic: str = TOPIC) -> Any:
    """Return the handler whose effect is elsewhere."""

    @gapless.handler(
        topic=topic,
        group="caller",
        mode="queue",
        batch_size=BLOCK,
        delivery="at-least-once",
        concurrency=3,
        visibility_s=2,
    )
    def caller(unit: Unit) -> None:
        with session(dsn, "outside") as conn:
            _write(conn.execute, "caller", unit, is_call=True)

    return caller


def _write(execute: Callable[..., Any], group: str, unit: Unit, *, is_call: bool) -> None:
    (event,) = unit
    place = [group, unit.topic, unit.partition, event.offset]
    execute(WRITE, [*place, event.event_type, "worker", None, is_call])
    if event.payload.get("poison"):
        raise gapless.DeadLetter("poison")


if "CHAOS_FOLDER" in os.environ and "GAPLESS_DSN" in os.environ:  # in a supervisor of a run
    sender = once()
    caller = outside(os.environ["GAPLESS_DSN"])
