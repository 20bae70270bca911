"""How a handler of a run writes down what it was given: one row an event, one statement a unit.

Exactly-once handlers do it in the transaction they are given, at-least-once ones over sessions of
their own that stand for the world outside.
"""

import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import psycopg
from psycopg import Connection

from chaos.history import digest
from gapless.consume.unit import Unit
from gapless.log.event import Event

TABLES = [
    Path(__file__).with_name(name)
    for name in ("tables.sql", "queue_tables.sql", "later_tables.sql")
]

_WRITE = """
insert into chaos.effect
  (group_id, topic, partition_id, c_offset, transaction_id, position, key, tag, seen, epoch, pid)
select %(group)s, %(topic)s, %(partition)s, u.c_offset, u.transaction_id, u.n - 1, u.key, u.tag,
  %(seen)s::jsonb -> (u.n - 1)::int,
  (
    select c.epoch from gapless.consumer_offsets c
    join gapless.topic t on t.topic_id = c.topic_id and t.name = %(topic)s
    where c.group_id = %(group)s and c.partition_id = %(partition)s
  ), %(pid)s
from unnest(
  %(offsets)s::bigint[], %(transactions)s::uuid[], %(keys)s::text[], %(tags)s::text[]
) with ordinality as u (c_offset, transaction_id, key, tag, n)
"""


_CALL = """
insert into chaos.call
  (group_id, topic, partition_id, first_offset, last_offset, seen, phase, attempt, idempotency_key, pid)
values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
"""
CONNECT_TIMEOUT_S = 3


def make_tables(conn: Connection[Any]) -> None:
    """Make schema `chaos` in a database that has the schema of gapless."""
    for path in TABLES:
        conn.execute(path.read_bytes())


def seen(events: Sequence[Event]) -> str:
    """Return all that a handler can see of events, as JSON; rows.py makes the same of the log."""
    return json.dumps(
        [
            {
                "id": event.id,
                "key": event.key,
                "event_type": event.event_type,
                "payload": None
                if event.payload_json is None
                else digest(event.payload_json.decode()),
                "headers": event.headers,
                "host_id": event.host_id,
                "user_id": event.user_id,
                "transaction_id": str(event.transaction_id),
                "created_us": (event.created_ts - _EPOCH) // timedelta(microseconds=1),
                "cause": event.cause and "{}/{}/{}@{}".format(*event.cause),
                "correlation": str(event.correlation),
            }
            for event in events
        ]
    )


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def write_effects(group: str, unit: Unit, conn: Connection[Any]) -> None:
    """Record a unit in the transaction of its handler."""
    events = list(unit)
    conn.execute(
        _WRITE,
        {
            "group": group,
            "topic": unit.topic,
            "partition": unit.partition,
            "offsets": [event.offset for event in events],
            "transactions": [event.transaction_id for event in events],
            "keys": [event.key for event in events],
            "tags": [event.event_type for event in events],
            "seen": seen(events),
            "pid": os.getpid(),
        },
    )


def session(dsn: str, who: str) -> Connection[Any]:
    """Open a session of a run's own, in autocommit."""
    return psycopg.connect(
        dsn,
        autocommit=True,
        connect_timeout=CONNECT_TIMEOUT_S,
        application_name=f"chaos/{who}",
    )


class Desk:
    """Sessions in autocommit for the calls of at-least-once handlers, which are on threads."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._free: SimpleQueue[Connection[Any]] = SimpleQueue()

    def write(self, group: str, unit: Unit, phase: str) -> None:
        """Record that a call begins or ends. Raises psycopg's errors."""
        try:
            conn = self._free.get_nowait()
        except Empty:
            conn = session(self._dsn, "outside")
        place = [group, unit.topic, unit.partition, unit.first_offset, unit.last_offset]
        place.append(seen(list(unit)))
        try:
            conn.execute(_CALL, [*place, phase, unit.attempt, unit.idempotency_key, os.getpid()])
        except psycopg.Error:
            conn.close()
            raise
        self._free.put(conn)

    def close(self) -> None:
        """Close the sessions, when no call is going on."""
        while not self._free.empty():
            self._free.get().close()
