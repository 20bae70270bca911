"""The newest event of each key of a compacted topic, then the log: the part that is no log.

A read begins in each partition at a place V up to which the compaction has come. Below V it reads
rows of `latest`, from V on the log. A row below V is never added later: it can only go, when a
newer event of its key, at V or behind it, replaces or removes it. So whenever a part is read, or
read again, it has for each key the newest event below V, unless the log has a newer one from V on.
A stream reads that later. A batch ends at a fixed place, so it takes such a newer event from
`latest`, too, if that lies behind the end.

Parts are stretches of the digests of keys, which are evenly spread: each key is read once, in one
snapshot, wherever its row is at that moment.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from psycopg import Connection, sql

from gapless.db.queries import query
from gapless.errors import GaplessError, UsageError
from gapless.features.spark.ahead import ahead
from gapless.features.spark.bulk import render, stream_arrow
from gapless.features.spark.columns import fetched, spark_types
from gapless.features.spark.offsets import LATEST_PER_KEY, Offsets
from gapless.features.spark.options import ReadOptions
from gapless.features.spark.place import End, earliest, latest, one_value
from gapless.features.spark.ranges import Range
from gapless.features.spark.segments import ReadRequest
from gapless.features.spark.shape import Slice, in_one_piece, shape
from gapless.features.spark.tries import CutError, Tries

if TYPE_CHECKING:
    import pyarrow as pa

QUERY_ROWS_MAX = 25_000  # a query has its snapshot until its last row is taken
_BITS = 32  # of a digest, by which parts are cut
_PLACED = ("key_digest", "partition_id", "c_offset", "timeline")


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestPart:
    """Keys of a compacted topic whose digests lie after one and before the other, both exclusive.

    until: None: no end. began_us: when the compaction began. before, since: for each partition, the
    place below which its rows are read, and that from which on they are; None: no such place.
    others: read the rows of other partitions, too.
    """

    topic: str
    topic_id: int
    began_us: int
    after: bytes
    until: bytes | None
    partition_ids: tuple[int, ...]
    before: tuple[int, ...]
    since: tuple[int | None, ...]
    others: bool


def find_latest(conn: Connection[Any], ends: list[End]) -> tuple[Offsets, dict[str, int]]:
    """Return where the log begins after the newest events, and when each compaction began.

    Raises UsageError for a topic that is not compacted.
    """
    topics = sorted({end.topic for end in ends})
    found, began_us = earliest(ends), {}
    newest = latest(ends)
    rows = conn.execute(query("spark", "latest_starts"), {"topics": topics}).fetchall()
    for topic, partition_id, upto, since_us in rows:
        began_us[topic] = since_us
        if partition_id in found[topic]:
            # The log may have grown since: any place before that of the compaction is right, too.
            found[topic][partition_id] = min(upto, newest[topic][partition_id])
    if plain := [topic for topic in topics if topic not in began_us]:
        raise UsageError(
            f"startingOffsets {LATEST_PER_KEY}: topic {plain[0]} is not compacted: gapless topics "
            f"alter {plain[0]} --compact keeps the newest event of each key"
        )
    return found, began_us


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestRead:
    """A read of the newest events before `start`; began_us: when each topic's compaction began.

    end: of a batch, which reads newer events of their keys from there on, too; others: also in
    other partitions, which are new. None: a stream reads those later.
    """

    began_us: Mapping[str, int]
    start: Offsets
    end: Offsets | None = None
    others: bool = False


def latest_tasks(
    conn: Connection[Any], options: ReadOptions, read: LatestRead, ends: list[End]
) -> list[tuple[LatestPart]]:
    """Return the parts that tasks read, of at most about recordsPerTask keys each."""
    tasks: list[tuple[LatestPart]] = []
    ids = {each.topic: each.topic_id for each in ends}
    for topic, began_us in read.began_us.items():
        places = sorted(read.start[topic].items())
        whole = LatestPart(
            topic=topic,
            topic_id=ids[topic],
            began_us=began_us,
            after=b"",
            until=None,
            partition_ids=tuple(partition_id for partition_id, _ in places),
            before=tuple(offset for _, offset in places),
            since=tuple(read.end[topic][each] if read.end else None for each, _ in places),
            others=read.others,
        )
        keys = one_value(conn, "latest_keys", topic_id=whole.topic_id)
        least = -(-options.min_partitions // len(read.began_us))
        tasks += [(part,) for part in _cut(whole, max(-(-keys // options.records_per_task), least))]
    return tasks


def _cut(whole: LatestPart, count: int) -> Iterator[LatestPart]:
    inner = [((n << _BITS) // count).to_bytes(_BITS // 8, "big") for n in range(1, count)]
    bounds: list[bytes | None] = [b"", *inner, None]
    for after, until in pairwise(bounds):
        yield replace(whole, after=after or b"", until=until)


def read_latest(wanted: ReadRequest, part: LatestPart) -> Generator[pa.RecordBatch]:
    """Yield the events of a part, in no order that means something; no empty batch.

    Raises GaplessError if the compaction has ended since the read was planned, or a standby does
    not replay its progress in time; CutError for a read that was cut again and again.
    """
    with closing(ahead(_resumed(wanted, part))) as made:
        yield from made


def _resumed(wanted: ReadRequest, part: LatestPart) -> Iterator[pa.RecordBatch]:
    tries = Tries(lambda: None)
    while True:
        count = 0
        try:
            for found in _rows(wanted, part):
                yield _shaped(wanted, part, found)
                part = replace(part, after=found["key_digest"][-1].as_py())
                count += found.num_rows
                tries = Tries(lambda: None)
        except CutError as error:
            tries.again(error)
        else:
            if count < QUERY_ROWS_MAX:
                return


def _rows(wanted: ReadRequest, part: LatestPart) -> Iterator[pa.Table]:
    import pyarrow as pa
    import pyarrow.compute as pc

    kinds = None if wanted.event_types is None else list(wanted.event_types)
    params: dict[str, object] = {
        "topic_id": part.topic_id,
        "began_us": part.began_us,
        "after": part.after,
        "until": part.until,
        "partition_ids": list(part.partition_ids),
        "before": list(part.before),
        "since": list(part.since),
        "others": part.others,
        "event_types": kinds,
        "where": wanted.where,
        "params": wanted.params,
        "rows_max": QUERY_ROWS_MAX,
    }
    _, _, tail = query("spark", "latest_between").partition("\nfrom ")
    names = [*_PLACED, *fetched(wanted.columns)]
    columns = sql.SQL(", ").join(sql.Identifier("l", name) for name in names)
    statement = sql.SQL("select v.problem, {} from ").format(columns) + render(tail, params)
    with closing(stream_arrow(wanted.dsn, statement, wanted.identity)) as batches:
        for batch in batches:
            found = pa.Table.from_batches([batch])
            _refuse(part, found["problem"][0].as_py() if found.num_rows else None)
            found = found.filter(pc.is_valid(found["id"]))
            if found.num_rows:
                yield found


def _refuse(part: LatestPart, problem: str | None) -> None:
    if problem == "behind":
        raise CutError(
            f"a standby has not replayed the compaction of topic {part.topic} up to the place at "
            "which the read was planned: it lags, or follows another server"
        )
    if problem == "ended":
        raise GaplessError(
            f"the compaction of topic {part.topic} was switched off, or began anew, since the read "
            "of its newest events was planned: plan the read anew, a stream with a "
            "checkpointLocation of its own"
        )


def _shaped(wanted: ReadRequest, part: LatestPart, found: pa.Table) -> pa.RecordBatch:
    import numpy as np

    partition_ids, numbers = np.unique(found["partition_id"].to_numpy(), return_inverse=True)
    offsets = found["c_offset"].to_numpy()
    placed = Slice(
        ranges=[
            Range(
                topic=part.topic,
                topic_id=part.topic_id,
                partition_id=int(each),
                first_offset=1,
                last_offset=int(offsets.max()),
            )
            for each in partition_ids
        ],
        range_nos=numbers,
        offsets=offsets,
        ids=in_one_piece(found["id"]).to_numpy(),
        timelines=found["timeline"].to_numpy(),
    )
    return shape(spark_types(wanted.columns, wanted.formats), placed, found)
