"""Look at a topic's events in the order of their offsets, slice by slice, without being a group.

Nothing is claimed and no offset of a group moves; the memory that is used is bounded, for any size
of the log and of its events.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from heapq import merge
from typing import Any, TypeVar
from uuid import UUID

from psycopg import Connection
from psycopg.rows import class_row

from gapless.db.queries import query
from gapless.errors import UsageError
from gapless.log.filter import ALL, Filter
from gapless.log.topics import Topic

_SLICE_EVENTS_MAX = 500
_SLICES_BYTES_MAX = 16 * 1024 * 1024
_Row = TypeVar("_Row")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """An offset of a partition."""

    partition: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """The oldest and the newest offset of a partition; 1 and 0 when it has no event."""

    partition: int
    first_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An event with its place; headers and payload are JSON text, the payload perhaps cut short."""

    partition: int
    offset: int
    message_id: int
    created_ts: datetime
    key: str | None
    event_type: str | None
    host_id: str | None
    user_id: str | None
    transaction_id: UUID
    headers: str | None
    payload: str | None


class Tail:
    """A reader's place in some partitions of a topic. Set a start, then read repeatedly.

    key: only events with it. only: events that a filter keeps. payload_chars: the length at which
    payloads are cut; None: they are whole.
    """

    def __init__(
        self,
        conn: Connection[Any],
        topic: Topic,
        partitions: Sequence[int],
        *,
        key: str | None = None,
        only: Filter = ALL,
        payload_chars: int | None = None,
    ) -> None:
        self._conn = conn
        self._topic = topic
        self._partitions = list(partitions)
        self._key = key
        self._only = only
        self._keeps_all = key is None and only == ALL
        self._payload_chars = payload_chars
        self._next_offset = dict.fromkeys(partitions, 1)

    def start_at(self, offset: int) -> None:
        """Begin at this offset of each partition, or at its oldest event if that comes later."""
        for ends in self._ends():
            self._next_offset[ends.partition] = max(offset, ends.first_offset)

    def start_behind(self, count: int) -> None:
        """Begin at the newest `count` events; 0: read only new events."""
        for ends in self._ends():
            self._next_offset[ends.partition] = ends.last_offset + 1
            if count and not self._keeps_all:
                self._next_offset[ends.partition] = self._search_back(ends, count)
        if count and self._keeps_all:
            what = {"partitions": self._partitions, "count": count}
            for place in self._rows(Place, "newest", topic_id=self._topic.topic_id, **what):
                self._next_offset[place.partition] = place.offset

    def follow(self, partitions: Sequence[int]) -> list[int]:
        """Also read these from now on, from their first event; return those that are new."""
        new = [number for number in partitions if number not in self._next_offset]
        self._partitions += new
        self._next_offset |= dict.fromkeys(new, 1)
        return new

    def read(self) -> Iterator[Entry]:
        """Read to the present end: each partition in offset order, all in publishing order."""
        runs = (self._partition(ends) for ends in self._ends())
        for _, entry in merge(*runs, key=lambda item: item[0]):
            # Here, not at the fetch: merging looks ahead, and the caller may stop.
            self._next_offset[entry.partition] = entry.offset + 1
            yield entry

    def _partition(self, ends: Ends) -> Iterator[tuple[int, Entry]]:
        """Yield entries with the highest id so far: so merging keeps the order of offsets."""
        highest_id = 0
        pace = SlicePace(_SLICES_BYTES_MAX // len(self._partitions))
        first = max(self._next_offset[ends.partition], ends.first_offset)
        while first <= ends.last_offset:
            last = min(first + pace.events - 1, ends.last_offset)
            entries = self._slice(ends.partition, first, last, self._payload_chars)
            pace.adapt(entries)
            for entry in entries:
                highest_id = max(highest_id, entry.message_id)
                yield highest_id, entry
            first = self._next_offset[ends.partition] = last + 1

    def _search_back(self, ends: Ends, count: int) -> int:
        """Return the offset of the count-th newest event that is wanted."""
        high = ends.last_offset
        start = high + 1
        while high >= ends.first_offset and count > 0:
            low = max(ends.first_offset, high - _SLICE_EVENTS_MAX + 1)
            found = self._slice(ends.partition, low, high, 0)[-count:]
            if found:
                start = found[0].offset
            count -= len(found)
            high = low - 1
        return start

    def _slice(self, partition: int, first: int, last: int, chars: int | None) -> list[Entry]:
        return self._rows(
            Entry,
            "slice",
            topic=self._topic.name,
            partition=partition,
            first_offset=first,
            last_offset=last,
            key=self._key,
            payload_chars=chars,
            **self._only.query_params,
        )

    def _ends(self) -> list[Ends]:
        return self._rows(Ends, "ends", topic_id=self._topic.topic_id, partitions=self._partitions)

    def _rows(self, kind: type[_Row], name: str, **params: object) -> list[_Row]:
        with self._conn.cursor(row_factory=class_row(kind)) as cursor:
            return cursor.execute(query("tail", name), params).fetchall()


class SlicePace:
    """The number of events in the next slice: more while they are small."""

    def __init__(self, bytes_max: int) -> None:
        self.events = 10
        self._bytes_max = bytes_max

    def adapt(self, entries: Sequence[Entry]) -> None:
        size = sum(len(e.payload or "") + len(e.headers or "") + 200 for e in entries)
        if size > self._bytes_max:
            self.events = max(1, self.events * self._bytes_max // size)
        elif size * 4 < self._bytes_max:
            self.events = min(self.events * 2, _SLICE_EVENTS_MAX)


def partitions_of(conn: Connection[Any], topic: Topic, key: str | None = None) -> list[int]:
    """Return the partitions in which a topic, or a key of it, may have events, in their order.

    After their number was changed: more than the topic has now, or than one for a key.
    """
    rows = conn.execute(query("tail", "partitions"), {"topic_id": topic.topic_id, "key": key})
    return [row[0] for row in rows]


def choose_partitions(
    conn: Connection[Any], topic: Topic, *, key: str | None = None, only: int | None = None
) -> list[int]:
    """Return the partitions in which events can be: those of this key, or `only` that partition.

    Raises UsageError for a partition that the topic does not have, or in which the key is not.
    """
    there_are = partitions_of(conn, topic)
    if only is not None and only not in there_are:
        raise UsageError(f'topic "{topic.name}" has partitions 0 to {there_are[-1]}, no {only}')
    partitions = there_are if key is None else partitions_of(conn, topic, key)
    if only is None:
        return partitions
    if only not in partitions:
        of_key = " and ".join(map(str, partitions))
        raise UsageError(
            f"key {key!r} is in partition {of_key}, not in {only}: leave --partition out"
        )
    return [only]
