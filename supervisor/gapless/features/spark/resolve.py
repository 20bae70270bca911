"""Turn places that options name into offsets."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from psycopg import Connection

from gapless.db.queries import query
from gapless.errors import UsageError
from gapless.features.spark.offsets import EARLIEST, LATEST, Offsets, StartPosition
from gapless.features.spark.place import End, collect, latest, one_value

log = logging.getLogger("gapless.spark")

_NAMED_MAX = 5  # partitions, in a line of the log
_ENDS = {"earliest": EARLIEST, "latest": LATEST}


def resolve(
    conn: Connection[Any],
    place: StartPosition,
    ends: Sequence[End],
    *,
    now: datetime,
    otherwise: int,
) -> Offsets:
    """Turn a named place into offsets; a partition that it leaves out gets `otherwise`.

    now: the moment, by the database's clock, from which a time ago is counted. A moment, and a
    group that has moved on since, lead to `ends` at most: they are one cut of the log. Raises
    UsageError for topics and partitions that are not read, and for offsets beyond the end.
    """
    if place.kind in _ENDS:
        return collect((end, _one({}, end, _ENDS[place.kind])) for end in ends)
    if place.kind == "back":
        return _back(place, ends)
    if place.kind in ("group", "offsets"):
        named = place.offsets or {}
        if place.kind == "group":
            named = _bounded(_position(conn, place.group_id, ends), ends)
        return _named(place.option, named, ends, otherwise)
    return _since(conn, place, ends, now, otherwise)


def find_now(conn: Connection[Any]) -> datetime:
    """Return the moment by the database's clock, by which events have their timestamps."""
    now: datetime = one_value(conn, "now")
    return now


def _named(
    option: str, named: Mapping[str, Mapping[int, int]], ends: Sequence[End], otherwise: int
) -> Offsets:
    _refuse_strangers(named, ends, option)
    found = collect((end, _one(named, end, otherwise)) for end in ends)
    for end in ends:
        offset = found[end.topic][end.partition_id]
        if offset > end.next_offset:
            raise UsageError(
                f"{option}: offset {offset} of {end.topic}/{end.partition_id} lies beyond the end "
                f"of the log, where {end.next_offset} comes next"
            )
    return found


def _back(place: StartPosition, ends: Sequence[End]) -> Offsets:
    short = [end for end in ends if end.next_offset - end.first_offset < place.back]
    _tell_short(place.option, short)
    return collect((end, max(end.first_offset, end.next_offset - place.back)) for end in ends)


def _since(
    conn: Connection[Any],
    place: StartPosition,
    ends: Sequence[End],
    now: datetime,
    otherwise: int,
) -> Offsets:
    """Return the place from which on events were published at a moment or later."""
    _refuse_strangers(place.moments or {}, ends, place.option)
    found = collect((end, _one({}, end, otherwise)) for end in ends)
    for end in ends:
        moment = place.moment
        if place.moments is not None:
            moment = place.moments.get(end.topic, {}).get(end.partition_id)
        elif place.kind == "ago":
            moment = now - place.ago
        if moment is not None:
            where = {"topic_id": end.topic_id, "partition_id": end.partition_id}
            offset = one_value(conn, "offset_since", **where, moment=moment)
            found[end.topic][end.partition_id] = offset
    found = _bounded(found, ends)
    if place.kind == "ago":
        short = [end for end in ends if found[end.topic][end.partition_id] == end.first_offset]
        _tell_short(place.option, short)
    return found


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


def _bounded(found: Offsets, ends: Sequence[End]) -> Offsets:
    """Return places, none of them beyond `ends`; the log may have grown since."""
    last = latest(ends)
    return {
        topic: {p: min(offset, last[topic][p]) for p, offset in partitions.items()}
        for topic, partitions in found.items()
    }


def _tell_short(option: str, ends: Sequence[End]) -> None:
    """Log that a relative place lies before the first event of some partitions."""
    held = [end for end in ends if end.next_offset > end.first_offset]
    if held:
        names = ", ".join(f"{end.topic}/{end.partition_id}" for end in held[:_NAMED_MAX])
        more = f" and {len(held) - _NAMED_MAX} more" if len(held) > _NAMED_MAX else ""
        log.warning(
            "%s goes back to the first event that the log has of %s%s: it has none before",
            option, names, more,
        )  # fmt: skip


def _refuse_strangers(
    named: Mapping[str, Mapping[int, object]], ends: Sequence[End], option: str
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
