"""Begin and end of a read in the log: resolve options, cut consistently, record positions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from time import monotonic, sleep
from typing import Any

import psycopg
from psycopg import Connection
from psycopg.rows import class_row

from gapless.db.queries import query
from gapless.errors import HoleError, UsageError
from gapless.features.spark.offsets import EARLIEST, LATEST, Offsets, StartPosition
from gapless.features.spark.options import ReadOptions
from gapless.log.catch_up import sequence_if_alone

SETTLE_S_MAX = 5.0
_PAUSE_S = 0.002


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The offsets of a partition in the log: first_offset inclusive to next_offset exclusive.

    timeline: of the server that gave the last offset.
    """

    topic: str
    topic_id: int
    partition_id: int
    first_offset: int
    next_offset: int
    timeline: int


def wait_for_offsets(conn: Connection[Any]) -> None:
    """Return when all events committed before the call have offsets; sequence if no sequencer runs.

    It waits at most SETTLE_S_MAX for a sequencer: the events with offsets are consistent in any
    case.
    """
    xid = _value(conn, "now_xid")
    give_up_s = monotonic() + SETTLE_S_MAX
    while True:
        sequence_if_alone(conn)
        if _value(conn, "is_sequenced_up_to", xid=xid) or monotonic() > give_up_s:
            return
        sleep(_PAUSE_S)


def find_ends(conn: Connection[Any], options: ReadOptions) -> list[End]:
    """Return the ends of the partitions to be read, from one snapshot, so of one consistent cut.

    Raises UsageError for a topic or partition that does not exist.
    """
    with conn.cursor(row_factory=class_row(End)) as cursor:
        every = cursor.execute(query("spark", "ends"), {"topics": list(options.topics)}).fetchall()
    for topic in options.topics:
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
    return _collect((end, end.next_offset) for end in ends)


def earliest(ends: Iterable[End]) -> Offsets:
    """Return the beginning of the log as a place."""
    return _collect((end, end.first_offset) for end in ends)


def resolve(
    conn: Connection[Any], place: StartPosition, ends: Sequence[End], *, option: str, otherwise: int
) -> Offsets:
    """Turn a named place into offsets; a partition that it leaves out gets `otherwise`."""
    if place.kind == "earliest":
        return earliest(ends)
    if place.kind == "latest":
        return latest(ends)
    if place.kind == "group":
        named: Mapping[str, Mapping[int, int]] = _position(conn, place.group_id, ends)
    else:
        named = place.offsets or {}
    _refuse_strangers(named, ends, option)
    found = _collect((end, _one(named, end, otherwise)) for end in ends)
    for end in ends:
        offset = found[end.topic][end.partition_id]
        if offset > end.next_offset:
            raise UsageError(
                f"{option}: offset {offset} of {end.topic}/{end.partition_id} lies beyond the end "
                f"of the log, where {end.next_offset} comes next"
            )
    return found


def at_moment(conn: Connection[Any], moment: datetime, ends: Iterable[End]) -> Offsets:
    """Return the place from which on events were published at a moment or later."""
    return _collect(
        (
            end,
            _value(
                conn,
                "offset_since",
                topic_id=end.topic_id,
                partition_id=end.partition_id,
                moment=moment,
            ),
        )
        for end in ends
    )


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


def require_kept(start: Offsets, ends: Iterable[End], *, fail: bool) -> Offsets:
    """Return `start`, or where the log begins if that is later: retention dropped the rest.

    Raises HoleError for dropped events if `fail`.
    """
    moved: list[tuple[End, int]] = []
    for end in ends:
        offset = start.get(end.topic, {}).get(end.partition_id, end.first_offset)
        if offset < end.first_offset and fail:
            raise HoleError(
                f"offsets {offset} to {end.first_offset - 1} of {end.topic}/{end.partition_id} are "
                "no longer in the log; failOnDataLoss=false continues without them"
            )
        moved.append((end, max(offset, end.first_offset)))
    return _collect(moved)


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
    return _collect((end, found[end.topic_id, end.partition_id]) for end in ends)


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


def _position(conn: Connection[Any], group_id: str, ends: Sequence[End]) -> Offsets:
    topics = sorted({end.topic for end in ends})
    rows = conn.execute(
        query("spark", "position"), {"group_id": group_id, "topics": topics}
    ).fetchall()
    if not rows:
        raise UsageError(
            f'there is no group "{group_id}" of {", ".join(topics)}: gapless groups lists them'
        )
    offsets: Offsets = {}
    known = {(end.topic, end.partition_id) for end in ends}
    for topic, partition_id, offset in rows:
        if (topic, partition_id) in known:
            offsets.setdefault(topic, {})[partition_id] = offset
    return offsets


def _refuse_strangers(
    named: Mapping[str, Mapping[int, int]], ends: Sequence[End], option: str
) -> None:
    known = {(end.topic, end.partition_id) for end in ends}
    topics = {end.topic for end in ends}
    for topic, partitions in named.items():
        if topic not in topics:
            raise UsageError(f'{option}: topic "{topic}" is not among {", ".join(sorted(topics))}')
        for partition_id in partitions:
            if (topic, partition_id) not in known:
                raise UsageError(f"{option}: partition {partition_id} of {topic} is not read here")


def _one(named: Mapping[str, Mapping[int, int]], end: End, otherwise: int) -> int:
    offset = named.get(end.topic, {}).get(end.partition_id, otherwise)
    return {EARLIEST: end.first_offset, LATEST: end.next_offset}.get(offset, offset)


def _collect(pairs: Iterable[tuple[End, int]]) -> Offsets:
    offsets: Offsets = {}
    for end, offset in pairs:
        offsets.setdefault(end.topic, {})[end.partition_id] = offset
    return offsets


def _value(conn: Connection[Any], statement: str, **params: object) -> Any:
    row = conn.execute(query("spark", statement), params).fetchone()
    assert row is not None
    return row[0]
