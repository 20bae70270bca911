"""The places of a transaction's events in the log, for their publisher."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from psycopg import Connection
from psycopg.rows import class_row

from gapless.db.queries import query
from gapless.log.catch_up import sequence_if_alone


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """Events of a transaction in one partition: first_offset to last_offset, both inclusive.

    partition, first_offset, last_offset: None while these events have no offset.
    """

    topic: str
    partition: int | None
    first_offset: int | None
    last_offset: int | None
    events: int


def locate(conn: Connection[Any], transaction_id: UUID | str) -> list[Located]:
    """Return the places of a committed transaction's events; an empty list without any.

    Gives offsets itself when no sequencer is active. Scheduled events are not in the log yet.
    Before: `conn` is in autocommit.
    """
    sequence_if_alone(conn)
    with conn.cursor(row_factory=class_row(Located)) as cursor:
        params = {"transaction_id": str(transaction_id)}
        return cursor.execute(query("log", "locate"), params).fetchall()
