"""psycopg alone reading our log: the cost of any consumer in Python, with or without commits."""

from __future__ import annotations

from collections.abc import Sequence

import psycopg
from psycopg import Connection
from psycopg.types.numeric import Int8Dumper
from psycopg.types.string import ByteaBinaryLoader

from benchmarks.queries import query
from gapless.consume.read.backlog import EVENTS_MAX

COMMITTED = "psycopg, each batch committed"


class BareReader:
    """Reads events of a partition by their ids: binary, one statement a batch.

    is_committed: read as a worker that is behind does, EVENTS_MAX at once, and commit after each
    batch only the position of this reader: the bound of any design that does so.
    is_decoded: payloads become Python's objects, as json.loads makes them; else they stay bytes.
    """

    def __init__(
        self, conn: Connection[object], batch_size: int, *, is_committed: bool, is_decoded: bool
    ) -> None:
        self._batch_size = batch_size
        self._is_committed = is_committed
        self._handled = 0
        self._at_once = max(batch_size, EVENTS_MAX) if is_committed else batch_size
        self._offset = psycopg.ClientCursor(conn)
        if is_committed:
            self._offset.execute(query("committed_offset"))
        self._cursor = conn.cursor(binary=True)
        if not is_decoded:
            self._cursor.adapters.register_loader("json", ByteaBinaryLoader)
        self._cursor.adapters.register_loader("jsonb", ByteaBinaryLoader)
        self._cursor.adapters.register_dumper(int, Int8Dumper)  # or the type changes from 32 768 on

    def portions(self, ids: Sequence[int]) -> list[Sequence[int]]:
        """Cut ids into portions that are read at once."""
        return [ids[at : at + self._at_once] for at in range(0, len(ids), self._at_once)]

    def read(self, portion: Sequence[int]) -> None:
        rows = self._cursor.execute(query("raw_read"), {"ids": portion}, prepare=True).fetchall()
        assert len(rows) == len(portion)
        for start in range(0, len(portion) if self._is_committed else 0, self._batch_size):
            self._handled += len(portion[start : start + self._batch_size])
            self._offset.execute(query("commit_offset"), {"handled": self._handled})


def event_ids(conn: Connection[object], topic_id: int) -> list[int]:
    """Return the ids of all events of a topic's first partition, in the order of their offsets."""
    found = conn.execute(query("ids"), {"topic_id": topic_id}).fetchall()
    return [message_id for (message_id,) in found]
