"""psycopg alone reading our log: what any consumer in Python costs, with or without its commits."""

from __future__ import annotations

from collections.abc import Sequence

import psycopg
from psycopg import Connection
from psycopg.types.string import ByteaBinaryLoader

from benchmarks.crew import Cue, Job
from benchmarks.queries import query
from gapless.consume.read.backlog import EVENTS_MAX
from gapless.db.listen import heard, listen, wait

COMMITTED = "psycopg, each batch committed"
WARM_UP = 5  # statements until psycopg prepares one


class BareReader:
    """Reads events of a partition by their ids: binary, one statement a batch.

    committed_as: read as a worker does that is behind, EVENTS_MAX at once, and commit after each
    batch how far this reader is, and nothing else: the bound of any design that does so.
    is_decoded: payloads become Python's objects, as json.loads makes them; else they stay bytes.
    """

    def __init__(
        self,
        conn: Connection[object],
        batch_size: int,
        committed_as: int | None = None,
        *,
        is_decoded: bool = False,
    ) -> None:
        self._batch_size = batch_size
        self._reader = committed_as
        self.handled = 0
        self._at_once = batch_size if committed_as is None else max(batch_size, EVENTS_MAX)
        self._offset = psycopg.ClientCursor(conn)
        self._cursor = conn.cursor(binary=True)
        if not is_decoded:
            self._cursor.adapters.register_loader("json", ByteaBinaryLoader)
        self._cursor.adapters.register_loader("jsonb", ByteaBinaryLoader)

    def warm_up(self, ids: Sequence[int]) -> list[Sequence[int]]:
        """Cut ids into what is read at once, and read the first few; return all of them."""
        portions = [ids[at : at + self._at_once] for at in range(0, len(ids), self._at_once)]
        for portion in portions[:WARM_UP]:
            self.read(portion)
        return portions

    def read(self, portion: Sequence[int]) -> None:
        rows = self._cursor.execute(query("raw_read"), {"ids": portion}).fetchall()
        assert len(rows) == len(portion)
        if self._reader is None:
            return
        for start in range(0, len(portion), self._batch_size):
            self.handled += len(portion[start : start + self._batch_size])
            params = {"reader": self._reader, "handled": self.handled}
            self._offset.execute(query("commit_offset"), params)


def event_ids(conn: Connection[object], topic_id: int, partition_id: int = 0) -> list[int]:
    """Return the ids of all events of a partition, in the order of their offsets."""
    params = {"topic_id": topic_id, "partition_id": partition_id}
    return [message_id for (message_id,) in conn.execute(query("ids"), params).fetchall()]


def begin_offsets(dsn: str, readers: int) -> None:
    """Let so many readers have handled nothing yet."""
    with psycopg.connect(dsn) as conn:
        psycopg.ClientCursor(conn).execute(query("committed_offset"), {"readers": readers})


def reading(dsn: str, topic_id: int, partition_id: int, batch_size: int, number: int) -> Job:
    """Return a reader that reads a partition once, committing as number so-and-so."""

    def read(cue: Cue) -> int:
        with psycopg.connect(dsn, autocommit=True) as conn:
            ids = event_ids(conn, topic_id, partition_id)
            reader = BareReader(conn, batch_size, committed_as=number)
            portions = reader.warm_up(ids)
            cue.begin()
            for portion in portions:
                reader.read(portion)
        return len(ids)

    return read


def tailing(dsn: str, topic_id: int, partition_id: int, batch_size: int, number: int) -> Job:
    """Return a reader that reads what is added to a partition, woken as a worker is."""

    def read(cue: Cue) -> int:
        with psycopg.connect(dsn, autocommit=True) as conn:
            params = {"topic_id": topic_id, "partition_id": partition_id}
            reader = BareReader(conn, batch_size, committed_as=number)
            listen(conn, f"gapless_p_{topic_id}_{partition_id}")
            (start,) = conn.execute(query("log_end"), params).fetchone() or (0,)
            cue.begin()
            while cue.going():
                params |= {"after": start + reader.handled, "events": EVENTS_MAX}
                ids = [message_id for (message_id,) in conn.execute(query("ids_after"), params)]
                if ids:
                    reader.read(ids)
                else:
                    wait(conn, 0.1)
                    heard(conn)
            return reader.handled

    return read
