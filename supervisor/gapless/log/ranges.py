"""Read a range of a partition, as much of it as fits into memory at a time; nothing is claimed."""

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
    """The offsets that a partition holds: first_offset to next_offset - 1; 1 and 1: none yet.

    timeline: of the server that gave the last offset.
    """

    topic_id: int
    partition: int
    first_offset: int
    next_offset: int
    timeline: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeSlice:
    """Events of a partition; next_offset: behind the last one that was looked at."""

    entries: list[Entry]
    next_offset: int


def bounds_of(conn: Connection[Any], topic: str) -> dict[int, Bounds]:
    """Return what each partition of a topic holds, those of earlier numbers of partitions too.

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
    """Return from where on a reader that comes to this offset has read others than the log has.

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

    offsets: what is there of them is read; give no more than there is, as bounds_of() says.
    It stops once it has bytes_max of text, and reads at most about twice of that.
    Raises RefusedError for what is no filter.
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
