"""A log that tests of a file share, and the rows that one run of the sequencer writes to it.

Runs cannot be taken back: each test makes topics of its own, and compares the runs with them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any

from psycopg import Connection

PUBLISH = (
    "insert into gapless.outbox_message_t (topic_id, key, transaction_id, cause)"
    " values (%s, %s, %s, %s) returning id"
)
SEGMENTS = (
    "select partition_id, base_offset, last_offset, message_ids, unit_ends::text, run, layout, timeline"
    " from gapless.log_segment where topic_id = %s and run > %s order by 1, 2"
)
KEYS = (
    "select 'k' || n from generate_series(1, 200) n"
    " where gapless.partition_of('k' || n, %s) = %s limit 1"
)
STATE = (
    "select run, floor_id, stragglers::text[], next_floor_id, next_floor_xid::text::bigint, events, has_unrouted,"
    " system_identifier from gapless.sequencer order by run desc limit 1"
)
UNROUTED = "select topic_id, events, first_id, last_id from gapless.unrouted order by 1"
_topics = count(1)


@dataclass(frozen=True, kw_only=True)
class Newest:
    """The newest row of the sequencer's memory."""

    run: int
    floor_id: int
    stragglers: list[str]
    next_floor_id: int
    next_floor_xid: int
    events: int
    has_unrouted: bool
    system_identifier: int


class SequencedLog:
    """The log, in two sessions: one that publishes and sequences, another that only publishes."""

    def __init__(self, conn: Connection[Any], other: Connection[Any]) -> None:
        self.conn = conn
        self.other = other
        self.passing = self.topic(1)

    def topic(self, partitions: int = 2, *, layout: int | None = None) -> int:
        (topic_id,) = self.row(
            "select gapless.create_topic(%s, %s)", f"t{next(_topics)}", partitions
        )
        if layout:
            self.conn.execute(
                "update gapless.topic set layout = %s where topic_id = %s", [layout, topic_id]
            )
        return int(topic_id)

    def row(self, statement: str, *params: object) -> Any:
        (row,) = self.conn.execute(statement, params).fetchall()  # type: ignore[arg-type]
        return row

    def key(self, partition: int, partitions: int = 2) -> str:
        return str(self.row(KEYS, partitions, partition)[0])

    def publish(
        self,
        topic_id: int,
        key: str | None = "k",
        transaction_id: str | None = None,
        cause: str | None = None,
        *,
        conn: Connection[Any] | None = None,
    ) -> int:
        row = (
            (conn or self.conn).execute(PUBLISH, [topic_id, key, transaction_id, cause]).fetchone()
        )
        assert row is not None
        return int(row[0])

    def state(self) -> Newest:
        names = Newest.__dataclass_fields__
        return Newest(**dict(zip(names, self.row(STATE), strict=True)))

    def allocated(self) -> int:
        return int(self.row("select last_value from gapless.outbox_message_id_seq")[0])

    def segments(self, topic_id: int, after: int = -1) -> list[tuple[Any, ...]]:
        return self.conn.execute(SEGMENTS, [topic_id, after]).fetchall()

    def units(self, topic_id: int) -> list[tuple[int, list[int], str]]:
        """Return partition, ids and ends of units of each segment."""
        return [(row[0], row[3], row[4]) for row in self.segments(topic_id)]

    def unrouted(self) -> list[tuple[int, int, int, int]]:
        return self.conn.execute(UNROUTED).fetchall()

    @contextmanager
    def open(self) -> Iterator[None]:
        """Open a transaction of the other session, which commits at the end."""
        with self.other.transaction():
            self.other.execute("select pg_current_xact_id()")
            yield
