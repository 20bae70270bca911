"""How a handler of a run writes down what it was given: one row an event, one statement a unit."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from psycopg import Connection

from gapless.consume.unit import Unit

TABLES = Path(__file__).with_name("tables.sql")

_WRITE = """
insert into chaos.effect
  (group_id, topic, partition_id, c_offset, transaction_id, position, key, tag, epoch, pid)
select %(group)s, %(topic)s, %(partition)s, u.c_offset, u.transaction_id, u.n - 1, u.key, u.tag,
  (
    select c.epoch from gapless.consumer_offsets c
    join gapless.topic t on t.topic_id = c.topic_id and t.name = %(topic)s
    where c.group_id = %(group)s and c.partition_id = %(partition)s
  ), %(pid)s
from unnest(
  %(offsets)s::bigint[], %(transactions)s::uuid[], %(keys)s::text[], %(tags)s::text[]
) with ordinality as u (c_offset, transaction_id, key, tag, n)
"""


def make_tables(conn: Connection[Any]) -> None:
    """Make schema `chaos` in a database that has the schema of gapless."""
    conn.execute(TABLES.read_bytes())


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
            "pid": os.getpid(),
        },
    )
