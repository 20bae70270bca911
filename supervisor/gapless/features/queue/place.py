"""The partitions of a queue's topics, as a worker sees them: how full, and where to look next."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any
from uuid import UUID

from psycopg import Connection

from gapless.consume.job import Job
from gapless.consume.terms import Terms
from gapless.consume.user.handler import Handler
from gapless.consume.verdict.patience import Patience
from gapless.db.inherited import keep_from_children
from gapless.db.wire import fetch_all
from gapless.features.queue.direct import addressed
from gapless.keys import Assignment, Partition
from gapless.log.topics import require_topic

_NOBODY = UUID(int=0)  # a queue has no owner, so there is no fence to compare


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A queue group as one worker serves it.

    topics: name and topic_id, in order of preference. worker: a name that no other process has.
    holds: called with the events in hand, by lease_no and offsets, both inclusive; lease_no 0:
    none.
    reserve_s: the longest reservation of an event that is handled alone, exactly once, in seconds.
    """

    conn: Connection[Any]
    handler: Handler
    terms: Terms
    group_id: str
    topics: Mapping[str, int]
    worker: str
    reserve_s: float
    holds: Callable[[int, int, int], None] = lambda *_: None
    patience: Patience | None = None

    def job(self, topic: str, partition_id: int) -> Job:
        """Return the job of a step in one partition."""
        partition = Partition(
            group_id=self.group_id,
            topic=topic,
            topic_id=self.topics[topic],
            partition_id=partition_id,
        )
        return Job(
            conn=self.conn,
            assignment=Assignment(partition=partition, epoch=0, token=_NOBODY),
            handler=self.handler,
            terms=self.terms,
            patience=self.patience,
        )


@dataclass(slots=True)
class QueuePlace:
    """A partition of a queue. open: known events to take; more may have come.

    unfinished: events that are open, in hand, or between such ones, at the last look.

    block: the largest number of events that one worker has in hand, locked as one. hint: the offset
    at which to look next; None: from the floor on, for events that others released. grew: the open
    events have just come, so nothing is looked for before the hint. claims: takes since the last
    sweep. stopped_until_s (time.monotonic): when to look whether a hole was filled. again_s: when
    to look whether the rest of a block that others had in hand is open.
    """

    queue: Queue
    job: Job
    lease_no: int
    block: int
    open: int
    unfinished: int = 0
    hint: int | None = None
    grew: bool = False
    claims: int = field(default=0)
    stopped_until_s: float = 0.0
    again_s: float = inf

    @property
    def partition(self) -> Partition:
        return self.job.assignment.partition

    def took(self, last_offset: int) -> None:
        """Note the last offset that was taken: the next events are after it."""
        self.hint = last_offset + 1
        self.claims += 1

    def asked(self, outcome: str, events: int, size: int, *, from_floor: bool) -> None:
        """Note the result of a claim of `size` events: whether there is more, and where to look."""
        is_cut = self.hint is not None and (self.hint - 1) % self.block == 0  # at a block's end
        if outcome == "claimed" and (is_cut or events == 0 or events >= size):
            self.open = max(self.open, 1)
            return
        if from_floor or self.grew or outcome in ("moved", "busy"):
            self.open = 0
        if not self.grew:
            self.hint = None


def open_queue(
    conn: Connection[Any], handler: Handler, terms: Terms, group_id: str, **more: Any
) -> Queue:
    """Return a queue to work on. Raises UsageError for an unknown topic."""
    topics = {name: require_topic(conn, name).topic_id for name in terms.topics}
    handler = addressed(handler, group_id)
    keep_from_children(conn)
    return Queue(conn=conn, handler=handler, terms=terms, group_id=group_id, topics=topics, **more)


def find_places(queue: Queue, topic: str, known: Mapping[int, QueuePlace]) -> dict[int, QueuePlace]:
    """Return the partitions of a topic by number, the laggiest first; known: the earlier ones."""
    found: dict[int, QueuePlace] = {}
    params = {"group_id": queue.group_id, "topic_id": queue.topics[topic]}
    for partition_id, lease_no, block, is_open, unfinished in fetch_all(
        queue.conn, "queue", "queue_places", params
    ):
        place = known.get(partition_id)
        if place is None or (place.lease_no, place.block) != (lease_no, block):
            place = QueuePlace(queue, queue.job(topic, partition_id), lease_no, block, is_open)
        place.open, place.unfinished = is_open, unfinished
        found[partition_id] = place
    return found


def is_aside_due(queue: Queue, topic: str) -> tuple[bool, float | None]:
    """Tell whether an event that lapsed, failed or was released is due; else in how many seconds.

    (False, None): nothing waits. This only reads.
    """
    params = {"group_id": queue.group_id, "topic_id": queue.topics[topic]}
    rows = fetch_all(queue.conn, "queue", "queue_aside", params)
    if not rows:
        return False, None
    due, wait_s = rows[0]
    return bool(due), None if wait_s is None else float(wait_s)


def channel_of(place: QueuePlace) -> str:
    """Return the channel that notifies when a partition grew, or events of it were released."""
    return f"gapless_p_{place.partition.topic_id}_{place.partition.partition_id}"


def channels_of(queue: Queue) -> list[str]:
    """Return the channels that notify when the group is paused, resumed or moved."""
    found: list[str] = []
    for topic_id in queue.topics.values():
        params = {"group_id": queue.group_id, "topic_id": topic_id}
        found += [name for (name,) in fetch_all(queue.conn, "queue", "group_channel", params)]
    return found


def sweep(place: QueuePlace) -> None:
    """Move the floor over finished events; this waits for no lock, and is safe at any time."""
    fetch_all(place.queue.conn, "queue", "sweep", {"lease_no": place.lease_no})
