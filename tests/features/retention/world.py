"""What tests of retention do again and again: fill chunks, handle, look, drop."""

import time
from typing import Any

from psycopg import Connection

from gapless.consume.unit import Unit
from gapless.consume.user.handler import handler
from gapless.features.retention.chunks import (
    HistoryRetention,
    Retention,
    apply_retention,
    plan_retention,
    set_retention,
)
from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.sequence import sequence
from gapless.testing import Drained, drain
from support.chunks import next_chunk, small_chunks

FOR_EVER = HistoryRetention(letters_s=86_400, audit_s=86_400)


class World:
    """Topic orders with two partitions, and as many events in a chunk as a test puts there."""

    def __init__(self, dsn: str, conn: Connection[Any]) -> None:
        self.dsn = dsn
        self.conn = conn
        small_chunks(conn)
        conn.execute("create table handled (n serial, partition_id int, c_offset bigint)")
        self.keys = {
            self.value("select gapless.partition_of(%s, 2)", f"k{n}"): f"k{n}" for n in range(20)
        }

    def publish(self, partition: int = 0, *, events: int = 1, topic: str = "orders") -> None:
        """Publish transactions of one event, each with its offset at once."""
        for _ in range(events):
            publish(self.conn, topic, NewEvent(payload="x", key=self.keys[partition]))
            sequence(self.conn)

    def next_chunk(self) -> None:
        """Let the next event be the first of another chunk."""
        next_chunk(self.conn)

    def history(self, chunks: int = 3, *, events: int = 4, topic: str = "orders") -> None:
        """Fill so many chunks with events in both partitions, and begin another."""
        for _ in range(chunks):
            for partition in (0, 1):
                self.publish(partition, events=events, topic=topic)
            self.next_chunk()
        self.publish(0, events=3, topic=topic)

    def expire(self, topic: str = "orders", **more: Any) -> None:
        """Let all that is there be older than its topic wants it."""
        set_retention(self.conn, topic, Retention(keep_s=0.000_001, **more))

    def apply(self) -> int:
        """Drop what may go; return how many chunks that were."""
        return len(apply_retention(self.conn, FOR_EVER))

    def reasons(self) -> list[str]:
        """Why the oldest chunk stays."""
        return list(plan_retention(self.conn)[0].reasons)

    def ends(self) -> list[tuple[int, int]]:
        """First offset and next offset of both partitions."""
        return self.conn.execute(
            "select first_offset, next_offset from gapless.ends(array['orders'])"
        ).fetchall()

    def group(self, name: str = "billing", start: str = "earliest") -> None:
        self.conn.execute("select gapless.create_group(%s, 'orders', %s)", [name, start])

    def drain(self, group: str = "billing", *, refuse: int = 0, **more: Any) -> Drained:
        """Handle what there is; refuse one offset of partition 0."""

        @handler(topic="orders", group=group)
        def write(unit: Unit, conn: Connection[Any]) -> None:
            for event in unit:
                if (event.partition, event.offset) == (0, refuse):
                    raise ValueError("refused")
                conn.execute(
                    "insert into handled (partition_id, c_offset) values (%s, %s)",
                    [event.partition, event.offset],
                )

        return drain(self.dsn, write, **more)

    def until_nobody_works(self) -> None:
        """Wait until the server has noticed that the sessions of workers are gone."""
        while self.value("select exists (select from pg_locks where classid = 7427003)"):
            time.sleep(0.01)

    def handled(self, partition: int = 0) -> list[int]:
        rows = self.conn.execute(
            "select c_offset from handled where partition_id = %s order by n", [partition]
        )
        return [row[0] for row in rows]

    def chunks(self) -> int:
        """How many chunks there are, the emptied ones included."""
        return int(self.value("select count(*) from gapless.chunk"))

    def value(self, statement: str, *params: object) -> Any:
        row = self.conn.execute(statement, params).fetchone()
        return None if row is None else row[0]
