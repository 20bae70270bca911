"""Read a range of a partition, a part that fits into memory at a time; nothing is claimed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from psycopg import Connection
from psycopg.rows import class_row

from gapless.db.queries import query
from gapless.db.refused import refused
from gapless.log.filter import ALL, Filter
from gapless.log.tail import Entry, SlicePace
from gapless.log.topics import require_topic


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The offsets of a partition: first_offset to next_offset - 1; 1 and 1 before its first event.

    timeline: of the server that gave the last offset.
    """

    topic_id: int
    partition: int
    first_offset: int
    next_offset: int
    timeline: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeSlice:
    """Events of a partition; next_offset: the offset after the last one that was read."""

    entries: list[Entry]
    next_offset: int


def bounds_of(conn: Connection[Any], topic: str) -> dict[int, Bounds]:
    """Return the bounds of each partition of a topic, also of those before a repartitioning.

    Raises RefusedError (GL404) when there is no such topic.
    """
    with conn.cursor(row_factory=class_row(Bounds)) as cursor:
        found = cursor.execute(query("tail", "ends_of"), {"topic": topic}).fetchall()
    if not found:
        require_topic(conn, topic)
    return {each.partition: each for each in found}


def timeline_of(bounds: Mapping[int, Bounds]) -> int:
    """Return the timeline of a log: each promotion of a standby begins another one."""
    return max(each.timeline for each in bounds.values())


def replaced_from(
    conn: Connection[Any], here: Bounds, next_offset: int, timeline: int | None
) -> int | None:
    """Return the first offset whose event was replaced after this reader had read it; or None.

    timeline: that of the log when it was read; None: unknown. A failover to a server that lacks the
    newest events gives their offsets to others.
    """
    if timeline is None or here.timeline <= timeline:
        return None
    where = {"topic_id": here.topic_id, "partition": here.partition}
    params = {**where, "next_offset": next_offset, "timeline": timeline}
    row = conn.execute(query("tail", "replaced_from"), params).fetchone()
    return None if row is None else row[0]


def read_range(
    conn: Connection[Any],
    topic: str,
    partition: int,
    offsets: range,
    *,
    bytes_max: int,
    only: Filter = ALL,
) -> RangeSlice:
    """Return the events at these offsets that a filter keeps, or the first of them.

    offsets: give none beyond those of bounds_of(). Stops after bytes_max of text, and reads at most
    about twice of that.
    Raises RefusedError for a filter that is none.
    """
    pace = SlicePace(bytes_max)
    entries: list[Entry] = []
    size = 0
    at = offsets.start
    while at < offsets.stop and size < bytes_max:
        stop = min(at + pace.events, offsets.stop)
        params = {
            "topic": topic,
            "partition": partition,
            "first_offset": at,
            "last_offset": stop - 1,
            "key": None,
            "payload_chars": None,
            **only.query_params,
        }
        with refused(), conn.cursor(row_factory=class_row(Entry)) as cursor:
            found = cursor.execute(query("tail", "slice"), params).fetchall()
        pace.adapt(found)
        size += sum(len(each.payload or "") + len(each.headers or "") + 200 for each in found)
        entries += found
        at = stop
    return RangeSlice(entries=entries, next_offset=at)
