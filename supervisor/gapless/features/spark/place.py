"""Begin and end of a read in the log: find the ends, cut consistently, record positions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Any

import psycopg
from psycopg import Connection
from psycopg.rows import class_row

from gapless.db.queries import query
from gapless.errors import HoleError, UsageError
from gapless.features.spark.offsets import EARLIEST, Offsets, StartPosition
from gapless.features.spark.options import ReadOptions
from gapless.log.catch_up import sequence_if_alone

SETTLE_S_MAX = 5.0
_PAUSE_S = 0.002


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The offsets of a partition in the log: first_offset inclusive to next_offset exclusive.

    timeline: of the server that gave the last offset. created_us: when the topic was created, in
    microseconds since 1970.
    """

    topic: str
    topic_id: int
    partition_id: int
    first_offset: int
    next_offset: int
    timeline: int
    created_us: int


def wait_for_offsets(conn: Connection[Any]) -> None:
    """Return when all events committed before the call have offsets; sequence if no sequencer runs.

    It waits at most SETTLE_S_MAX for a sequencer: the events with offsets are consistent in any
    case.
    """
    xid = one_value(conn, "now_xid")
    give_up_s = monotonic() + SETTLE_S_MAX
    while True:
        sequence_if_alone(conn)
        if one_value(conn, "is_sequenced_up_to", xid=xid) or monotonic() > give_up_s:
            return
        sleep(_PAUSE_S)


def find_ends(conn: Connection[Any], options: ReadOptions) -> list[End]:
    """Return the ends of the partitions to be read, from one snapshot, so of one consistent cut.

    Raises UsageError for a topic or partition that does not exist, and if no topic is matched.
    """
    topics = options.topics if options.pattern is None else _matched(conn, options.pattern)
    with conn.cursor(row_factory=class_row(End)) as cursor:
        every = cursor.execute(query("spark", "ends"), {"topics": list(topics)}).fetchall()
    for topic in topics:
        there = {end.partition_id for end in every if end.topic == topic}
        if not there:
            raise UsageError(
                f'topic "{topic}" does not exist: create it with gapless topics create {topic}'
            )
        named = set(options.partitions or ()) | set((options.assigned or {}).get(topic, ()))
        for stranger in sorted(named - there):
            raise UsageError(
                f'topic "{topic}" has no partition {stranger}: it has 0 to {max(there)}'
            )
    return [end for end in every if options.wants(end.topic, end.partition_id)]


def latest(ends: Iterable[End]) -> Offsets:
    """Return the end of the log as a place."""
    return collect((end, end.next_offset) for end in ends)


def earliest(ends: Iterable[End]) -> Offsets:
    """Return the beginning of the log as a place."""
    return collect((end, end.first_offset) for end in ends)


def require_order(place: StartPosition | None, start: Offsets, end: Offsets) -> None:
    """Raise UsageError when a named start lies behind the end: nothing could be read.

    A group may be beyond an end, and the log may begin later: then no events are left.
    """
    if place is None or place.kind not in ("latest", "offsets"):
        return
    for topic, partitions in start.items():
        named = partitions if place.offsets is None else place.offsets.get(topic, {})
        for partition_id in sorted(set(named) & set(end.get(topic, {}))):
            first, after = partitions[partition_id], end[topic][partition_id]
            if first > after and named[partition_id] != EARLIEST:
                raise UsageError(
                    f"startingOffsets of {topic}/{partition_id} is {first}, and endingOffsets is "
                    f"{after}: the wrong way round"
                )


def require_kept(
    start: Offsets,
    ends: Iterable[End],
    *,
    fail: bool,
    remedy: str = "failOnDataLoss=false continues without them",
) -> Offsets:
    """Return `start`, or where the log begins if that is later: retention dropped the rest.

    Raises HoleError for dropped events, with the remedy, if `fail`.
    """
    moved: list[tuple[End, int]] = []
    for end in ends:
        offset = start.get(end.topic, {}).get(end.partition_id, end.first_offset)
        if offset < end.first_offset and fail:
            raise HoleError(
                f"offsets {offset} to {end.first_offset - 1} of {end.topic}/{end.partition_id} are "
                f"no longer in the log; {remedy}"
            )
        moved.append((end, max(offset, end.first_offset)))
    return collect(moved)


def cut(conn: Connection[Any], start: Offsets, ends: Sequence[End], events_max: int) -> Offsets:
    """Return a consistent place after `start`, with at most events_max events between the two.

    All events of a publishing transaction lie before it, or none; a larger transaction stays whole.
    """
    rows = conn.execute(
        query("spark", "cut"),
        {
            "topic_ids": [end.topic_id for end in ends],
            "partition_ids": [end.partition_id for end in ends],
            "next_offsets": [start[end.topic][end.partition_id] for end in ends],
            "events_max": events_max,
        },
    ).fetchall()
    found = {(topic_id, partition_id): offset for topic_id, partition_id, offset in rows}
    return collect((end, found[end.topic_id, end.partition_id]) for end in ends)


def newest_timeline(
    conn: Connection[Any], start: Offsets, end: Offsets, ends: Sequence[End]
) -> int:
    """Return the newest timeline on which events between two places were given, or the last ones.

    It need not be that of the last ones: after pg_upgrade they are given on the first one again.
    """
    moved = [
        (each, start.get(each.topic, {}).get(each.partition_id, 1), after)
        for each in ends
        if (after := end.get(each.topic, {}).get(each.partition_id)) is not None
    ]
    found = one_value(
        conn,
        "newest_timeline",
        topic_ids=[each.topic_id for each, _, _ in moved],
        partition_ids=[each.partition_id for each, _, _ in moved],
        first_offsets=[first for _, first, _ in moved],
        next_offsets=[after for _, _, after in moved],
    )
    return max([int(found), *(each.timeline for each in ends)])


def record_position(conn: Connection[Any], group_id: str, offsets: Offsets) -> None:
    """Show a query's position as a group's. Raises UsageError if handlers own the group."""
    for topic, partitions in offsets.items():
        try:
            conn.execute(
                query("spark", "record_position"),
                {
                    "group_id": group_id,
                    "topic": topic,
                    "partition_ids": list(partitions),
                    "next_offsets": list(partitions.values()),
                },
            )
        except psycopg.Error as error:
            if error.sqlstate in ("GL400", "GL409"):
                raise UsageError(f"groupId: {error.diag.message_primary}") from error
            raise


def collect(pairs: Iterable[tuple[End, int]]) -> Offsets:
    """Return the offsets of some partitions, by topic."""
    offsets: Offsets = {}
    for end, offset in pairs:
        offsets.setdefault(end.topic, {})[end.partition_id] = offset
    return offsets


def one_value(conn: Connection[Any], statement: str, **params: object) -> Any:
    """Return the only value of a query of this room."""
    row = conn.execute(query("spark", statement), params).fetchone()
    assert row is not None
    return row[0]


def _matched(conn: Connection[Any], pattern: re.Pattern[str]) -> list[str]:
    """Return the topics, among those that the reader may see, whose whole name matches."""
    names = [name for name, _ in conn.execute(query("spark", "topic_ids")).fetchall()]
    topics = sorted(name for name in names if pattern.fullmatch(name))
    if not topics:
        raise UsageError(
            f"subscribePattern {pattern.pattern!r} matches no topic: it has to match a whole name, "
            "and gapless topics lists them"
        )
    return topics
