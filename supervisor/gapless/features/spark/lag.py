"""The lag of streaming queries: events and seconds that each is behind the log.

Spark keeps no source metrics of a Python stream. A query's progress tells its position instead, and
the log is asked how far that is behind: at each progress, and whenever metrics are read, so that a
query that makes no progress is seen to fall behind.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

import psycopg
from psycopg import Connection
from psycopg.rows import class_row

from gapless.db.connect import connect
from gapless.db.queries import query
from gapless.errors import GaplessError, one_line
from gapless.features.spark.offsets import created_in, from_json
from gapless.features.spark.options import read_options

log = logging.getLogger("gapless.spark")

Place = tuple[str, int, int, int | None]
"""Topic, partition, next offset, and when the topic was created (offsets.py)."""


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
        self._places: dict[str, list[Place]] = {}
        self._conn: Connection[Any] | None = None
        self._lock = Lock()

    def note(self, name: str, end_offsets: Iterable[str | None]) -> QueryLag | None:
        """Take a progress of a query: its sources' end offsets.

        The lag is logged, and told; a log that does not answer is logged. None: that, and a query
        that reads no log of this database.
        """
        places = places_in(end_offsets)
        if not places:
            return None
        try:
            with self._lock:
                self._places[name] = places
                found = self._lag(name, places)
        except (psycopg.Error, GaplessError) as error:
            log.warning("the lag of query %s is not known: %s", name, one_line(error))
            return None
        if not found.partitions:
            return None
        log.info("%s", found)
        if self._told is not None:
            self._told(found)
        return found

    def forget(self, name: str) -> None:
        """Take the end of a query: it has no lag any more."""
        with self._lock:
            self._places.pop(name, None)

    def lags(self) -> list[QueryLag]:
        """Return the present lag of all queries. Raises psycopg.Error, ConnectError."""
        with self._lock:
            found = [self._lag(*each) for each in self._places.items()]
        return [each for each in found if each.partitions]

    def close(self) -> None:
        """End the session; the next call opens another."""
        with self._lock:
            self._close()

    def _lag(self, name: str, places: Sequence[Place]) -> QueryLag:
        if self._conn is None or self._conn.closed:
            self._conn = connect(self._dsn, role="spark lag", connect_timeout_s=5)
        try:
            partitions = lag_at(self._conn, places)
        except psycopg.Error:
            self._close()
            raise
        return QueryLag(query=name, partitions=tuple(partitions))

    def _close(self) -> None:
        if self._conn is not None:
            self._conn.close()


def places_in(end_offsets: Iterable[str | None]) -> list[Place]:
    """Return the places that sources' end offsets tell; those of other formats are left out.

    Of two sources that read one partition, the one further behind counts.
    """
    found: dict[tuple[str, int, int | None], int] = {}
    for text in end_offsets:
        try:
            document = json.loads(text or "null")
        except ValueError:  # a source may write anything
            continue
        if not isinstance(document, dict) or not isinstance(document.get(""), dict):  # the mark
            continue
        for topic, partitions in from_json(document).items():
            for partition_id, offset in partitions.items():
                key = topic, partition_id, created_in(document, topic)
                found[key] = min(offset, found.get(key, offset))
    return [(topic, part, offset, created) for (topic, part, created), offset in found.items()]


def lag_at(conn: Connection[Any], places: Sequence[Place]) -> list[PartitionLag]:
    """Return how far places are behind the log; those of another database are left out."""
    names = ("topics", "partition_ids", "next_offsets", "created_us")
    params = {name: [place[n] for place in places] for n, name in enumerate(names)}
    with conn.cursor(row_factory=class_row(PartitionLag)) as cursor:
        return cursor.execute(query("spark", "lag_at"), params).fetchall()
