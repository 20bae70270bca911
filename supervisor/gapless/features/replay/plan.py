"""The existing replays, and the plan of a new one: offsets, partition by partition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from gapless.consume.terms import Terms, agree, require_fit
from gapless.consume.unit import Unit
from gapless.consume.user.handler import Handler
from gapless.consume.user.load import load_handlers
from gapless.consume.verdict.policy import Policy
from gapless.db.queries import query
from gapless.errors import RefusedError, UsageError
from gapless.log.topics import require_topic
from gapless.ops.place import EARLIEST, Point
from gapless.ops.rows import row, rows
from gapless.settings import Settings

if TYPE_CHECKING:
    from psycopg import Connection

__all__ = [
    "ReplayInfo", "ReplayPlan", "ReplayRange", "ReplaySlice", "create_replay", "find_replay",
    "list_replays", "plan_replay", "remove_replay", "replay_terms",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayInfo:
    """An unfinished replay.

    events: those in its range; done counts events. dead_letters: units. running: a session is at
    it.
    """

    name: str
    topic: str
    events: int
    done: int
    dead_letters: int
    running: bool
    created: datetime


def _new_name() -> str:
    return f"replay-{uuid4().hex[:4]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRange:
    """The range of a replay: a topic or one partition of it, from `begin` to before `stop`.

    begin: an end, an offset or a time. stop: an offset or a time; None, or the end `latest`, is the
    present end of the log. name: of the scratch group, by default replay- and four digits.
    """

    topic: str
    partition: int | None = None
    begin: Point = EARLIEST
    stop: Point | None = None
    name: str = field(default_factory=_new_name)

    def __post_init__(self) -> None:
        if self.stop == EARLIEST:
            raise UsageError("--to earliest: that is before every event")
        if self.begin.transaction or (self.stop and self.stop.transaction):
            raise UsageError("a replay begins and ends at an end, an offset or a time")

    @property
    def params(self) -> dict[str, object]:
        """The parameters of create_replay()."""
        return {
            "group": self.name,
            "topic": self.topic,
            "partition": self.partition,
            "from_end": self.begin.end,
            "from_offset": self.begin.offset,
            "from_time": self.begin.time,
            "to_offset": self.stop.offset if self.stop else None,
            "to_time": self.stop.time if self.stop else None,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayBounds:
    """A partition of a replay; stop_offset is exclusive. The times are those of both ends."""

    partition_id: int
    start_offset: int
    stop_offset: int
    first_event: datetime | None
    last_event: datetime | None

    @property
    def events(self) -> int:
        return self.stop_offset - self.start_offset


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySlice:
    """The part of a partition to handle; offsets are inclusive, times those of both ends."""

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    events: int
    first_event: datetime | None
    last_event: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayPlan:
    """The plan of a replay: its handler, its events, and the place of its effects.

    batch: the handler takes a whole claim at once; batch_size: events of a claim. takes: the filter
    that the handler declares, None for all; `events` are those of the log, taken or not.
    """

    handler: str
    topic: str
    events: int
    partitions: Sequence[ReplaySlice]
    delivery: str
    database: str
    server: str
    batch: bool
    batch_size: int
    group_by: str
    takes: str | None = None


def replay_terms(handler: Handler, settings: Settings, topic: str | None = None) -> Terms:
    """Return the terms of a handler in a replay, of `topic` or else its own.

    A queue handler is called in the order of the log, by one process for each partition: see
    singly(). The filter is the one that the handler declares, even if an operator set another for
    its group. Raises UsageError if the handler is at-least-once, or not of two arguments.
    """
    terms = agree(handler, settings)
    if terms.delivery == "at-least-once":
        raise UsageError(f"{handler.name} is at-least-once: a replay would send it all again")
    require_fit(handler, terms)
    # Its own policy does not count: a replay neither retries later nor blocks a partition.
    policy = Policy(crashes_max=terms.policy.crashes_max)
    topic = topic or terms.topic
    return replace(terms, topic=topic, topics=(topic,), mode="ordered", policy=policy)


def choose_handler(reference: str, settings: Settings, topic: str | None = None) -> Handler:
    """Load the handler that `module:handler` names; of several, the one for this topic.

    Raises UsageError for a reference that cannot be loaded, and where several handlers are left.
    """
    found = load_handlers(reference)
    if len(found) > 1 and topic:
        found = [each for each in found if agree(each, settings).topic == topic] or found
    if len(found) > 1:
        names = ", ".join(each.name for each in found)
        raise UsageError(f"{reference} has several handlers: say which one of {names}")
    return found[0]


def singly(handler: Handler) -> Handler:
    """Return the handler to call in a replay: a queue's takes the events of a unit one by one.

    A replay keeps the units of the log: a failed event takes the other events of its transaction
    along.
    """
    if handler.is_ordered:
        return handler
    function = handler.function

    def each(unit: Unit, conn: Connection[Any]) -> None:
        for single in unit.singles():
            function(single, conn)

    each.__module__, each.__qualname__ = function.__module__, function.__qualname__
    return replace(handler, function=each)


def list_replays(conn: Connection[Any]) -> list[ReplayInfo]:
    """Return the unfinished replays, the oldest first."""
    return rows(conn, ReplayInfo, query("replay", "replays"))


def find_replay(conn: Connection[Any], name: str) -> ReplayInfo:
    """Return the replay of that name. Raises RefusedError (GL404) when there is none."""
    for each in list_replays(conn):
        if each.name == name:
            return each
    raise RefusedError(
        f'there is no replay "{name}": gapless replay --list shows them', sqlstate="GL404"
    )


def create_replay(conn: Connection[Any], wanted: ReplayRange) -> int:
    """Create the scratch group of a replay; return the number of events in its range.

    Nothing is handled before run_replay(). Raises UsageError for an unknown topic, RefusedError for
    a range outside of the log, or a name that is taken.
    """
    require_topic(conn, wanted.topic)
    (events,) = row(conn, query("replay", "create_replay"), **wanted.params)
    return int(events)


def remove_replay(conn: Connection[Any], name: str) -> ReplayInfo:
    """Forget a replay and its dead letters; return its last state.

    Raises RefusedError when there is none (GL404), or a session is at it.
    """
    found = find_replay(conn, name)
    row(conn, query("control", "drop_group"), group=name)
    return found


def plan_replay(
    conn: Connection[Any], wanted: ReplayRange, handler: Handler, terms: Terms
) -> ReplayPlan:
    """Return the plan of a replay; nothing is kept. Raises the errors of create_replay()."""
    slices = [
        ReplaySlice(
            topic=wanted.topic,
            partition=each.partition_id,
            first_offset=each.start_offset,
            last_offset=each.stop_offset - 1,
            events=each.events,
            first_event=each.first_event,
            last_event=each.last_event,
        )
        for each in find_bounds(conn, wanted)
        if each.events
    ]
    return ReplayPlan(
        handler=handler.name,
        topic=wanted.topic,
        events=sum(each.events for each in slices),
        partitions=slices,
        delivery=terms.delivery,
        database=conn.info.dbname,
        server=f"{conn.info.host}:{conn.info.port}",
        batch=handler.batch,
        batch_size=terms.batch_size,
        group_by=terms.group_by,
        takes=None if terms.filter is None or terms.filter.takes_all else str(terms.filter),
    )


def find_bounds(conn: Connection[Any], wanted: ReplayRange) -> list[ReplayBounds]:
    """Return the bounds that create_replay() would set; a scratch group is made and rolled back."""
    with conn.transaction(force_rollback=True):
        create_replay(conn, wanted)
        return rows(conn, ReplayBounds, query("replay", "replay_ranges"), group=wanted.name)
