"""A place from Spark's checkpoint: it is one of this log, or the query is refused."""

from __future__ import annotations

from collections.abc import Sequence

from gapless.db.queries import query
from gapless.errors import UsageError
from gapless.features.spark.offsets import Json, Offsets, created_in, from_json, timeline_in
from gapless.features.spark.options import ReadOptions
from gapless.features.spark.place import End, earliest
from gapless.features.spark.standby import BehindError, Servers, server_of

_UNSEEN = "it lags, or it is of another database"


def start_of(done: Json, ends: Sequence[End], servers: Servers, options: ReadOptions) -> Offsets:
    """Return a place from the checkpoint, with the partitions that are new since.

    ends: of the partitions that the query reads. Raises UsageError when it is of others, or of
    another log, BehindError for one that a standby may not have replayed yet.
    """
    start = from_json(done)
    _refuse_strangers(start, ends, servers, options)
    found = earliest(ends)
    for end in ends:
        offset = start.get(end.topic, {}).get(end.partition_id)
        if offset is None:
            continue
        if created_in(done, end.topic) not in (None, end.created_us):
            raise UsageError(
                f"the checkpoint belongs to topic {end.topic} of another database, or to one that "
                "was created anew since: give the query a checkpointLocation of its own"
            )
        if offset > end.next_offset:
            _refuse_beyond(end, offset, servers)
        _refuse_replaced(end, offset, timeline_in(done), servers)
        found[end.topic][end.partition_id] = offset
    return found


def _refuse_strangers(
    start: Offsets, ends: Sequence[End], servers: Servers, options: ReadOptions
) -> None:
    """Raise BehindError or UsageError for partitions that are not there.

    Without them their events would be left out, or read again. One of which nothing was read may
    go: it does so when a topic gets fewer partitions.
    """
    known: dict[str, set[int]] = {}
    for end in ends:
        known.setdefault(end.topic, set()).add(end.partition_id)
    for topic, partitions in start.items():
        there = known.get(topic, set())
        gone = [p for p, offset in partitions.items() if p not in there and offset > 1]
        if there and not gone:
            continue
        what = f"partition {gone[0]} of topic {topic}" if there else f"topic {topic}"
        if servers.is_standby and options.reads(topic, *gone[:1]):
            raise BehindError(
                f"the checkpoint has {what}, and the standby, {server_of(servers.log)}, has not: "
                f"{_UNSEEN}"
            )
        read = f"{', '.join(map(str, sorted(there)))} of {topic}"
        raise UsageError(
            f"the checkpoint belongs to {what}, and this query reads "
            f"{read if there else ', '.join(sorted(known))}: give it a checkpointLocation of its "
            "own"
        )


def _refuse_beyond(end: End, offset: int, servers: Servers) -> None:
    """Raise BehindError or UsageError for a place beyond the end of the log."""
    where = f"the checkpoint is at offset {offset} of {end.topic}/{end.partition_id}"
    if servers.is_standby:
        raise BehindError(
            f"{where}, and the standby, {server_of(servers.log)}, has replayed up to "
            f"{end.next_offset - 1} only: {_UNSEEN}"
        )
    raise UsageError(
        f"{where}, but the log goes to {end.next_offset - 1} only: it is another database, or an "
        "older copy of it"
    )


def _refuse_replaced(end: End, offset: int, timeline: int | None, servers: Servers) -> None:
    """Raise UsageError for a place behind events that a failover has lost."""
    if timeline is None or end.timeline <= timeline:
        return
    where = {"topic_id": end.topic_id, "partition": end.partition_id}
    params = {**where, "next_offset": offset, "timeline": timeline}
    ((first_offset,),) = servers.log.execute(query("tail", "replaced_from"), params).fetchall()
    if first_offset is not None:
        raise UsageError(
            f"the checkpoint is at offset {offset} of {end.topic}/{end.partition_id}, and a "
            f"failover has lost events before it: from {first_offset} on the log has others, "
            "which were not read; begin there, with startingOffsets and a checkpointLocation of "
            "its own"
        )
