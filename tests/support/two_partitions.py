"""The repeated actions of tests of control: publish to a partition, handle, look, query."""

from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import Connection

from gapless.consume.unit import Unit
from gapless.consume.user.handler import handler
from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.sequence import sequence
from gapless.log.topics import ensure_topic
from gapless.testing import Drained, drain


class World:
    """Topic orders (partitions 0 and 1) and group billing."""

    def __init__(self, dsn: str, conn: Connection[Any]) -> None:
        self.dsn = dsn
        self.conn = conn
        conn.execute("create table handled (n serial, partition_id int, c_offset bigint)")
        self.keys = {
            self.value("select gapless.partition_of(%s, 2)", f"k{n}"): f"k{n}" for n in range(20)
        }

    def publish(self, partition: int = 0, *, events: int = 1, payload: object = None) -> UUID:
        """Publish one transaction; it gets its offsets at once."""
        one = NewEvent(payload=payload, key=self.keys[partition])
        transaction_id = publish(self.conn, "orders", [one] * events)
        sequence(self.conn)
        return transaction_id

    def drain(self) -> Drained:
        """Handle all events; refuse those that say "refuse"."""

        @handler(topic="orders", group="billing")
        def write(unit: Unit, conn: Connection[Any]) -> None:
            for event in unit:
                conn.execute(
                    "insert into handled (partition_id, c_offset) values (%s, %s)",
                    [event.partition, event.offset],
                )
                if event.payload == "refuse":
                    raise ValueError("refused")

        return drain(self.dsn, write)

    def handled(self, partition: int = 0) -> list[int]:
        """Return the handled offsets, in that order."""
        rows = self.conn.execute(
            "select c_offset from handled where partition_id = %s order by n", [partition]
        )
        return [row[0] for row in rows]

    def next_offsets(self) -> list[int]:
        rows = self.conn.execute(
            "select next_offset from gapless.consumer_offsets order by partition_id"
        )
        return [row[0] for row in rows]

    def letters(self) -> list[tuple[int, int, str]]:
        """Return partition, first offset and state of the units that were set aside."""
        return self.conn.execute(
            "select partition_id, first_offset, state from gapless.dead_letter order by 1, 2"
        ).fetchall()

    def value(self, statement: str, *params: object) -> Any:
        row = self.conn.execute(statement, params).fetchone()
        return None if row is None else row[0]

    def refused(self, statement: str, *params: object) -> tuple[str, str]:
        """Run a statement that must fail; return SQLSTATE and message."""
        with pytest.raises(psycopg.Error) as caught:
            self.conn.execute(statement, params)
        return caught.value.sqlstate or "", caught.value.diag.message_primary or ""


@pytest.fixture
def world(dsn: str, conn: Connection) -> World:
    ensure_topic(conn, "orders", partitions=2)
    conn.execute("select gapless.create_group('billing', 'orders')")
    return World(dsn, conn)
