"""Pause and resume a group; move it elsewhere in the log, or past a hole in it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID, uuid4

from gapless.db.connect import connect_shared
from gapless.db.queries import query
from gapless.errors import GaplessError, RefusedError, UsageError
from gapless.ops.place import GroupPlace, Point
from gapless.ops.rows import require_autocommit, row, rows
from gapless.ops.text import quantity

if TYPE_CHECKING:
    from psycopg import Connection

__all__ = [
    "Move", "Paused", "Resumed", "Skipped", "pause", "plan_seek", "resume", "seek", "seek_paused",
    "skip_hole",
]  # fmt: skip

_LOOK_AGAIN_S = 0.05
_BUSY = "GL423"

SeekStage = Literal["waiting", "undone", "still-paused"]
"""A stage of seek_paused(): it waits for workers; its pause has ended, and nothing moved; its pause
could not be ended, and resume() is needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Paused:
    """The result of a pause.

    new_pauses: one for each of its topics, or partitions, that was not paused.
    workers_finishing: partitions whose worker has a batch to finish.
    """

    group: str
    topic: str | None
    partition: int | None
    new_pauses: int
    workers_finishing: int

    def __str__(self) -> str:
        what = _in_words(self)
        text = f"paused {what}" if self.new_pauses else f"nothing to do: {what} is paused"
        if not self.workers_finishing:
            return text
        have = "has" if self.workers_finishing == 1 else "have"
        partitions = quantity(self.workers_finishing, "partition")
        return f"{text}\n{partitions} still {have} a worker; it goes when its batch is done"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """The result of a resume. ended_pauses: how many pauses, of topics or partitions; 0: none."""

    group: str
    topic: str | None
    partition: int | None
    ended_pauses: int

    def __str__(self) -> str:
        what = _in_words(self)
        return f"resumed {what}" if self.ended_pauses else f"nothing to do: {what} is not paused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """The effect of a seek on a partition.

    current_offset: the offset handled next, before. new_offset: the offset handled next, after.
    again: the number of events that are handled again. skipped: events that never are.
    dead_letters: units that leave the dead letter queue. worker: whether one owns the partition,
    so that seek() would be refused.
    """

    topic: str
    partition: int
    current_offset: int
    new_offset: int
    again: int
    skipped: int
    dead_letters: int
    worker: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """The part of the log that a group has passed; both offsets are inclusive.

    missing: events that were not there. passed: events and missing ones together.
    """

    group: str
    topic: str
    partition: int
    first_offset: int
    last_offset: int
    missing: int
    passed: int

    def __str__(self) -> str:
        whole = self.passed - self.missing
        torn = f", and {quantity(whole, 'event')} of the units that they tore" if whole else ""
        return (
            f"{self.group}/{self.topic}/{self.partition} passed offsets {self.first_offset} to "
            f"{self.last_offset}: {quantity(self.missing, 'event')} missing{torn}"
        )


def pause(conn: Connection[Any], place: GroupPlace, *, reason: str | None = None) -> Paused:
    """Let a group, one topic of it or one partition rest until resume() is called.

    Workers finish their batch and go; this call waits for none. The pause survives restarts.
    Raises UsageError for a place with an offset, RefusedError for one that is not there.
    """
    place.require_whole()
    (new,) = row(conn, query("control", "pause"), **place.range, reason=reason)
    (busy,) = row(conn, query("control", "busy"), **place.range)
    return Paused(
        group=place.group,
        topic=place.topic,
        partition=place.partition,
        new_pauses=new,
        workers_finishing=busy,
    )


def resume(conn: Connection[Any], place: GroupPlace) -> Resumed:
    """End every pause in that range, of any person; members continue within a moment.

    Raises UsageError for a place with an offset; RefusedError for one that is not there, or for a
    partition of a group or topic that is paused as a whole.
    """
    place.require_whole()
    (ended,) = row(conn, query("control", "resume"), **place.range, holder=None)
    return Resumed(
        group=place.group, topic=place.topic, partition=place.partition, ended_pauses=ended
    )


def skip_hole(conn: Connection[Any], place: GroupPlace) -> Skipped:
    """Let a group pass the missing events at this offset, and the units that the hole tore.

    Raises UsageError for a place without an offset, RefusedError where there is no hole, or the
    group does not stand there.
    """
    (done,) = rows(conn, Skipped, query("control", "skip_hole"), **place.event)
    return done


def plan_seek(conn: Connection[Any], place: GroupPlace, to: Point | None = None) -> list[Move]:
    """Return the effect of seek() on each partition; change nothing. Raises as seek() does."""
    return rows(conn, Move, query("control", "plan_seek"), **_where(place, to))


def seek(conn: Connection[Any], place: GroupPlace, to: Point | None = None) -> list[Move]:
    """Move a group, one topic of it or one partition; return the effect on each partition.

    to: the target; None: the offset of the place. A unit is never cut: an offset inside one means
    its first event. Events that are handled again leave the dead letter queue.
    Raises UsageError if no target is given, or two; RefusedError for a place that is not there,
    and (GL423) while a worker owns one of the partitions.
    """
    return rows(conn, Move, query("control", "seek"), **_where(place, to), holder=None)


def seek_paused(
    conn: Connection[Any],
    place: GroupPlace,
    to: Point | None = None,
    *,
    dsn: str,
    timeout_s: float = 60,
    tell: Callable[[SeekStage], None] = lambda _: None,
) -> list[Move]:
    """Do as seek(), under a pause of its own that waits until the workers have let go.

    Before: `conn` is in autocommit. dsn: of the same database, for a second session that ends the
    pause if anything goes wrong, KeyboardInterrupt included. A kill leaves one of three states:
    nothing happened; paused and nothing moved; all done.
    tell: called with `waiting` (for workers), and on a failure with `undone` (the pause has ended,
    and nothing moved) or `still-paused` (it could not be ended: resume() does).
    Raises as seek() does, and GaplessError when a worker has not let go after timeout_s seconds.
    """
    require_autocommit(conn, "seek_paused()")
    where = _where(place, to)
    plan_seek(conn, place, to)  # an impossible seek is refused before anything rests
    holder = uuid4()
    try:
        row(
            conn,
            query("control", "hold"),
            **place.range,
            holder=holder,
            reason="gapless seek --pause",
        )
        return _seek_when_free(conn, {**where, "holder": holder}, timeout_s, tell)
    except BaseException:
        _end_pause(dsn, place, holder, tell)
        raise


def _in_words(done: Paused | Resumed) -> str:
    """Name the paused or resumed topics or partitions."""
    topic = f", topic {done.topic}" if done.topic is not None else ""
    partition = f", partition {done.partition}" if done.partition is not None else ""
    return f"group {done.group}{topic}{partition}"


def _where(place: GroupPlace, to: Point | None) -> dict[str, object]:
    """Return the parameters of a seek. Raises UsageError unless exactly one target is given."""
    if (to is None) == (place.offset is None):
        what = "where to? " if to is None else f"{place} and {to}: which of the two? "
        raise UsageError(f"{what}A point, or a place with an offset")
    to = to or Point(offset=place.offset)
    ends = {"end": to.end, "offset": to.offset, "time": to.time, "transaction": to.transaction}
    return {**place.range, **ends}


def _seek_when_free(
    conn: Connection[Any],
    what: dict[str, Any],
    timeout_s: float,
    tell: Callable[[SeekStage], None],
) -> list[Move]:
    give_up_s = monotonic() + timeout_s
    told = False
    while True:
        try:
            return rows(conn, Move, query("control", "seek"), **what)
        except RefusedError as error:
            if error.sqlstate != _BUSY:
                raise
            if monotonic() > give_up_s:
                raise GaplessError(
                    f"a worker has not let go within {timeout_s:g} s: nothing was "
                    "changed; gapless status shows it, --timeout waits longer"
                ) from error
        if not told:
            tell("waiting")
            told = True
        sleep(_LOOK_AGAIN_S)


def _end_pause(
    dsn: str, place: GroupPlace, holder: UUID, tell: Callable[[SeekStage], None]
) -> None:
    """End our pause, from a session of its own: the first may be in the middle of anything."""
    ended = None
    with suppress(Exception), connect_shared(dsn, role="seek") as conn:
        (ended,) = row(conn, query("control", "resume"), **place.range, holder=holder)
    if ended is None:
        tell("still-paused")
    elif ended:
        tell("undone")
