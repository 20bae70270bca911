"""Consumer groups: list them, show the progress of one, create one, remove one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gapless.consume.user.check import Mode
from gapless.db.queries import query
from gapless.errors import GaplessError, RefusedError, UsageError
from gapless.lease.member import ServedTopic
from gapless.lease.member import create_group as make_group
from gapless.log.topics import require_topic
from gapless.ops.doctor.places import UnplacedGroup
from gapless.ops.place import EARLIEST, GroupPlace, Point
from gapless.ops.rows import row, rows
from gapless.ops.text import quantity

if TYPE_CHECKING:
    from psycopg import Connection

__all__ = [
    "CreatedGroup", "GroupInfo", "GroupPartition", "RemovedGroup", "create_group", "list_groups",
    "remove_group", "show_group",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupInfo:
    """A group and one of its topics.

    lag: events it has not passed; dead_letters: units that are dead.

    state: Empty (no member), Stable (every partition is where the plan wants it), Rebalancing, or
    Paused (all of it). members: supervisors in it. partitions: of the topic. mode: ordered, or
    queue. workers: of a queue, the processes on all machines that handle its events. takes: its
    filter, or the number of its subscriptions; None: it takes all events.
    """

    group: str
    topic: str
    mode: str
    state: str
    members: int
    workers: int | None
    partitions: int
    lag: int
    dead_letters: int
    takes: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPartition:
    """A partition of a group.

    current_offset: the offset handled next. log_end_offset: the offset that the next event gets.
    lag: events between them. member: the supervisor that owns it, with the epoch of its lease.
    error: the error that stops it.
    """

    group: str
    topic: str
    partition: int
    current_offset: int
    log_end_offset: int
    lag: int
    member: str | None
    epoch: int | None
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedGroup:
    """A group that is there now; start: its first place, None if it was there before."""

    group: str
    topic: str
    created: bool
    start: Point | None

    def __str__(self) -> str:
        name = f"group {self.group} of topic {self.topic}"
        if not self.created:
            return f"nothing to do: there is a {name}"
        return f"created {name}, from {self.start}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedGroup:
    """The losses with a group: its offsets in these topics. dead_letters: units that are dead.

    removed: it is gone; False: nothing was changed.
    """

    group: str
    topics: Sequence[str]
    dead_letters: int
    removed: bool

    def __str__(self) -> str:
        what = f"group {self.group} of {', '.join(self.topics)}"
        return f"removed {what}, and {quantity(self.dead_letters, 'dead letter')}"


def list_groups(conn: Connection[Any]) -> list[GroupInfo]:
    """Return every group with each of its topics, by name, without scratch groups of replays."""
    return rows(conn, GroupInfo, query("cli", "groups"))


def show_group(conn: Connection[Any], place: GroupPlace) -> list[GroupPartition]:
    """Return all partitions of a group, or of one topic of it.

    Raises UsageError for a place with a partition, RefusedError (GL404) when there is none.
    """
    if place.partition is not None:
        raise UsageError(f"{place}: a group, or one of its topics, is shown with all partitions")
    where = {"group": place.group, "topic": place.topic}
    found = rows(conn, GroupPartition, query("cli", "group_partitions"), **where)
    if not found:
        of_topic = f' of topic "{place.topic}"' if place.topic else ""
        raise _missing(place.group, of_topic)
    return found


def create_group(
    conn: Connection[Any],
    group: str,
    topic: str,
    *,
    start: Point = EARLIEST,
    mode: Mode | None = None,
) -> CreatedGroup:
    """Create a group before its first worker; do nothing if it is there.

    mode: "ordered" (of a new group, the default), or "queue": any number of workers share a
    partition, in no order. A group that is there may change its mode until it has handled events.
    start: where it begins in each partition; a Point of a transaction is not allowed.
    Raises UsageError for an invalid group name; GaplessError for a
    group that is there and has no place in the log; RefusedError for a topic that is not there,
    a start outside of the log, or (GL409) a group of the other mode.
    """
    if start.transaction is not None:
        raise UsageError(f"a group begins at an end, an offset or a time, not at {start}")
    require_topic(conn, topic)
    where = {"group": group, "topic": topic}
    for each in rows(conn, UnplacedGroup, query("cli", "group_astray"), **where):
        raise GaplessError(f"{each}: {each.remedy}")
    is_new = not rows(conn, GroupPartition, query("cli", "group_partitions"), **where)
    if is_new:
        _create_at(conn, group, topic, start, mode or "ordered")
    elif mode is not None:
        _make(conn, group, topic, mode=mode)
    return CreatedGroup(group=group, topic=topic, created=is_new, start=start if is_new else None)


def remove_group(conn: Connection[Any], group: str, *, dry_run: bool = False) -> RemovedGroup:
    """Remove a group: its offsets, pauses and dead letters; dry_run: only return the losses.

    Raises RefusedError (GL404) when there is none, and while it has members.
    """
    found = [each for each in list_groups(conn) if each.group == group]
    if not found:
        raise _missing(group)
    if not dry_run:
        row(conn, query("control", "drop_group"), group=group)
    return RemovedGroup(
        group=group,
        topics=[each.topic for each in found],
        dead_letters=sum(each.dead_letters for each in found),
        removed=not dry_run,
    )


def _missing(group: str, of_topic: str = "") -> RefusedError:
    return RefusedError(
        f'there is no group "{group}"{of_topic}: gapless groups lists them', sqlstate="GL404"
    )


def _create_at(conn: Connection[Any], group: str, topic: str, start: Point, mode: Mode) -> None:
    """Create the group at a place: no other session sees it before it is there."""
    what = {"group": group, "topic": topic, "partition": None, "transaction": None}
    with conn.transaction():
        _make(conn, group, topic, mode=mode, start=start.end or "earliest")
        if start.end is None:
            to = {"end": None, "offset": start.offset, "time": start.time, "holder": None}
            row(conn, query("control", "seek"), **what, **to)


def _make(
    conn: Connection[Any], group: str, topic: str, *, mode: Mode, start: str = "earliest"
) -> None:
    topic_id = require_topic(conn, topic).topic_id
    wanted = ServedTopic(group_id=group, topic=topic, topic_id=topic_id, start=start, mode=mode)
    make_group(conn, wanted)


def one_topic(conn: Connection[Any], place: GroupPlace) -> str:
    """Return the topic of a place, for options that concern the events of one topic.

    Raises UsageError where a group has several and none is named.
    """
    topics = sorted({each.topic for each in show_group(conn, place)})
    if len(topics) > 1:
        raise UsageError(f"{place} consumes several topics: {', '.join(topics)}; name one")
    return topics[0]
