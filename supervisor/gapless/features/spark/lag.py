"""The lag of streaming queries: events and seconds that each is behind the log.

Spark keeps no source metrics of a Python stream. A query's progress tells its position instead, and
the log is asked how far that is behind: at each progress, and whenever metrics are read, so that a
query that makes no progress is seen to fall behind.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from threading import Lock
from typing import Any

import psycopg
from psycopg import Connection
from psycopg.rows import class_row

from gapless.db.connect import connect
from gapless.db.queries import query
from gapless.errors import GaplessError, one_line
from gapless.features.spark.offsets import Offsets, from_json, timeline_in
from gapless.features.spark.options import read_options

log = logging.getLogger("gapless.spark")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    """The lag of one partition.

    next_offset: is read next. events: those with an offset that are not read yet. seconds: the age
    of the oldest of them, 0 without any; None: it is not in the log any more.
    """

    topic: str
    partition: int
    next_offset: int
    events: int
    seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryLag:
    """The lag of a streaming query; query: its name, its id if it has none."""

    query: str
    partitions: tuple[PartitionLag, ...]

    @property
    def events(self) -> int:
        """Return the events that it has not read."""
        return sum(each.events for each in self.partitions)

    @property
    def seconds(self) -> float:
        """Return the age of the oldest of them, 0 without any."""
        return max((each.seconds or 0.0 for each in self.partitions), default=0.0)

    def __str__(self) -> str:
        return f"query {self.query} is {self.events} events and {self.seconds:.1f} s behind"


class LagWatch:
    """The positions of queries, and their lag; any thread may call it.

    url: the database; None: as for a read without the option. told: gets the lag at each progress.
    """

    def __init__(self, url: str | None, told: Callable[[QueryLag], object] | None) -> None:
        given = {"subscribe": "any"} if url is None else {"subscribe": "any", "url": url}
        self._dsn = read_options(given).dsn
        self._told = told
        self._positions: dict[str, Offsets] = {}
        self._conn: Connection[Any] | None = None
        self._lock = Lock()

    def note(self, name: str, end_offsets: Iterable[str | None]) -> QueryLag | None:
        """Take a progress of a query: its sources' end offsets. None: no source is a log.

        The lag is logged, and told; a log that does not answer is logged.
        """
        position = position_in(end_offsets)
        if not position:
            return None
        try:
            with self._lock:
                self._positions[name] = position
                found = self._lag(name, position)
        except (psycopg.Error, GaplessError) as error:
            log.warning("the lag of query %s is not known: %s", name, one_line(error))
            return None
        log.info("%s", found)
        if self._told is not None:
            self._told(found)
        return found

    def forget(self, name: str) -> None:
        """Take the end of a query: it has no lag any more."""
        with self._lock:
            self._positions.pop(name, None)

    def lags(self) -> list[QueryLag]:
        """Return the present lag of all queries. Raises psycopg.Error, ConnectError."""
        with self._lock:
            return [self._lag(*each) for each in self._positions.items()]

    def close(self) -> None:
        """End the session; the next call opens another."""
        with self._lock:
            self._close()

    def _lag(self, name: str, position: Offsets) -> QueryLag:
        if self._conn is None or self._conn.closed:
            self._conn = connect(self._dsn, role="spark lag", connect_timeout_s=5)
        try:
            partitions = lag_at(self._conn, position)
        except psycopg.Error:
            self._close()
            raise
        return QueryLag(query=name, partitions=tuple(partitions))

    def _close(self) -> None:
        if self._conn is not None:
            self._conn.close()


def position_in(end_offsets: Iterable[str | None]) -> Offsets:
    """Return the position that sources' end offsets tell; those of other formats are left out.

    Of two sources that read one partition, the one further behind counts.
    """
    found: Offsets = {}
    for text in end_offsets:
        document = json.loads(text) if text is not None and text.startswith("{") else {}
        if not isinstance(document.get(""), dict) or timeline_in(document) is None:
            continue
        for topic, partitions in from_json(document).items():
            there = found.setdefault(topic, {})
            for partition_id, offset in partitions.items():
                there[partition_id] = min(offset, there.get(partition_id, offset))
    return found


def lag_at(conn: Connection[Any], position: Offsets) -> list[PartitionLag]:
    """Return how far a position is behind the log, by topic and partition."""
    places = [
        (topic, partition_id, offset)
        for topic, partitions in position.items()
        for partition_id, offset in partitions.items()
    ]
    params = {
        "topics": [topic for topic, _, _ in places],
        "partition_ids": [partition_id for _, partition_id, _ in places],
        "next_offsets": [offset for _, _, offset in places],
    }
    with conn.cursor(row_factory=class_row(PartitionLag)) as cursor:
        return cursor.execute(query("spark", "lag_at"), params).fetchall()
