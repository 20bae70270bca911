"""A batch read: fixed on the driver as a range of the log; every retry reads the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from psycopg import Connection

from gapless.errors import UsageError
from gapless.features.filters.stored import check_filter
from gapless.features.spark.archive import read_archived
from gapless.features.spark.fetch import read_ranges
from gapless.features.spark.latest import (
    LatestPart,
    LatestRead,
    find_latest,
    latest_tasks,
    read_latest,
)
from gapless.features.spark.offsets import (
    EARLIEST,
    LATEST,
    LATEST_PER_KEY,
    Offsets,
    StartPosition,
)
from gapless.features.spark.options import ReadOptions
from gapless.features.spark.place import (
    End,
    find_ends,
    newest_timeline,
    require_kept,
    require_order,
)
from gapless.features.spark.ranges import Range, plan_tasks
from gapless.features.spark.reach import Reached, reached
from gapless.features.spark.resolve import find_now, resolve
from gapless.features.spark.segments import ReadRequest
from gapless.features.spark.standby import (
    open_control,
    open_servers,
    require_replayed,
    steadily,
)
from gapless.log.filter import Filter

if TYPE_CHECKING:
    import pyarrow as pa

Task = tuple[Range | LatestPart, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPlan:
    """The plan of a batch read: the ranges of each task, all from the database that was reached."""

    reached: Reached
    tasks: list[Task]


@dataclass(frozen=True, slots=True, kw_only=True)
class AtLoad:
    """The ends of the log at load(), the moment by the database's clock, and the range to read.

    timeline: the newest one on which its events were given. latest_us: when the compaction of each
    topic began whose newest events before `start` are read, too. start, end and timeline are None
    for options that lead nowhere: a batch that is planned says so, and a stream has a checkpoint.
    """

    ends: list[End]
    now: datetime
    start: Offsets | None = None
    end: Offsets | None = None
    timeline: int | None = None
    latest_us: Mapping[str, int] = field(default_factory=dict)


def wanted(options: ReadOptions) -> ReadRequest:
    """Return the part of the options that tasks need."""
    return ReadRequest(
        dsn=options.dsn,
        columns=options.columns,
        event_types=options.event_types,
        where=options.where,
        params=options.params,
        formats=options.formats,
        fail_on_data_loss=options.fail_on_data_loss,
        identity=options.identity,
    )


@steadily
def look(options: ReadOptions) -> AtLoad:
    """Return the state of the log at load(), a consistent cut; a DataFrame reads up to there.

    Raises UsageError for topics and partitions that do not exist, RefusedError for an invalid
    `where`: here, rather than in the middle of a job.
    """
    with closing(open_servers(options)) as servers:
        if options.where is not None:
            check_filter(servers.log, Filter(None, options.where, options.params))
        servers.settle()
        loaded = AtLoad(ends=find_ends(servers.log, options), now=find_now(servers.log))
        with suppress(UsageError):
            return with_range(servers.log, options, loaded)
        return loaded


@steadily
def plan_batch(options: ReadOptions, loaded: AtLoad | None = None) -> ReadPlan:
    """Fix the range that a batch reads, by the state at load(), and the part of each task.

    Before PySpark 4.2 each job plans anew, and has to read the same range as the others: groups and
    the beginning of the log may have moved since. None: look now.
    """
    loaded = look(options) if loaded is None else loaded
    with closing(open_control(options.dsn, standby=True)) as conn:
        ends = find_ends(conn, options)
        require_replayed(conn, loaded.ends, ends)
        if loaded.start is None:
            loaded = with_range(conn, options, loaded)
        where = reached(conn)
        start, end = loaded.start, loaded.end
        assert start is not None
        assert end is not None
        require_order(options.starting, start, end)
        # A key whose event was replaced after load() has its newer one behind the end.
        newest = latest_tasks(
            conn,
            options,
            LatestRead(
                began_us=loaded.latest_us, start=start, end=end, others=options.takes_partitions
            ),
            ends,
        )
    tasks = tasks_between(options, start, end, ends, loaded.timeline)
    return ReadPlan(reached=where, tasks=[*newest, *tasks])


def with_range(conn: Connection[Any], options: ReadOptions, loaded: AtLoad) -> AtLoad:
    """Return it with the range of a batch, whose end is exclusive: all, unless options say less."""
    now, ends = loaded.now, loaded.ends
    place = options.starting or StartPosition(kind="earliest")
    start: Offsets = {}  # with an archive, the log begins at its first offset
    latest_us: Mapping[str, int] = {}
    if place.kind == LATEST_PER_KEY:
        start, latest_us = find_latest(conn, ends)
    elif place.kind != "earliest" or options.archive is None:
        start = resolve(conn, place, ends, now=now, otherwise=EARLIEST)
    place = options.ending or StartPosition(kind="latest")
    end = resolve(conn, place, ends, now=now, otherwise=LATEST)
    timeline = newest_timeline(conn, start, end, ends)
    return replace(loaded, start=start, end=end, timeline=timeline, latest_us=latest_us)


def tasks_between(
    options: ReadOptions, start: Offsets, end: Offsets, ends: list[End], timeline: int | None
) -> list[Task]:
    """Return the tasks that read from one place to another. Raises HoleError for dropped events.

    timeline: of the log in which `end` was found; None: it is not known.
    """
    dropped = _dropped(options, start, end, ends)
    kept = start if options.archive is None else earliest_of(start, ends)
    begin = require_kept(kept, ends, fail=options.fail_on_data_loss)
    ranges = [
        *dropped,
        *_live(begin, end, ends, timeline),
    ]
    return [
        *plan_tasks(ranges, events_max=options.records_per_task, tasks_min=options.min_partitions)
    ]


def read_task(options: ReadOptions, task: Task, where: Reached) -> Iterator[pa.RecordBatch]:
    """Read the ranges of a task; runs in Spark's tasks. where: the database of the driver."""
    options = replace(options, dsn=where.dsn, identity=where.identity)
    live: list[Range] = []
    for each in task:
        if isinstance(each, LatestPart):
            yield from read_latest(wanted(options), each)
        elif each.archive is not None:
            yield from read_archived(wanted(options), each)
        else:
            live.append(each)
    yield from read_ranges(wanted(options), live)


def earliest_of(start: Offsets, ends: list[End]) -> Offsets:
    """Return a place, or the beginning of the log if that is later."""
    return {
        topic: {
            end.partition_id: max(end.first_offset, start.get(topic, {}).get(end.partition_id, 1))
            for end in ends
            if end.topic == topic
        }
        for topic in {end.topic for end in ends}
    }


def _dropped(options: ReadOptions, start: Offsets, end: Offsets, ends: list[End]) -> list[Range]:
    """Return the ranges to read from the archive: from `start` to where the log begins."""
    if options.archive is None:
        return []
    return [
        Range(
            topic=each.topic,
            topic_id=each.topic_id,
            partition_id=each.partition_id,
            first_offset=start.get(each.topic, {}).get(each.partition_id, 1),
            last_offset=min(each.first_offset, end.get(each.topic, {}).get(each.partition_id, 1))
            - 1,
            archive=options.archive,
        )
        for each in ends
    ]


def _live(begin: Offsets, end: Offsets, ends: list[End], timeline: int | None) -> list[Range]:
    return [
        Range(
            topic=each.topic,
            topic_id=each.topic_id,
            partition_id=each.partition_id,
            first_offset=begin[each.topic][each.partition_id],
            last_offset=end.get(each.topic, {}).get(each.partition_id, 1) - 1,
            timeline=timeline,
        )
        for each in ends
    ]
