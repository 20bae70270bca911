"""Queue groups by hand: take events, say what became of them, look at what is open.

What a handler of a queue does by returning or raising, these do by a receipt. In a transaction of
the caller, acknowledge() commits with whatever else it writes: exactly once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, get_args
from uuid import UUID

from gapless.db.queries import query
from gapless.errors import RefusedError, UsageError
from gapless.ops.place import GroupPlace
from gapless.ops.rows import row, rows

if TYPE_CHECKING:
    from psycopg import Connection

__all__ = [
    "QueueJob", "QueuePartition", "Receipt", "TakenEvent", "acknowledge", "extend", "peek",
    "queue_state", "reject", "release", "take",
]  # fmt: skip

SECONDS_MAX = 366 * 86_400
QueueJobState = Literal["ENQUEUED", "PROCESSING", "PROCESSED", "FAILED"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What somebody has in hand: all that a receipt holds, or the event at an offset of it."""

    group: str
    topic: str
    receipt: str
    offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenEvent:
    """An event that was taken. receipt: what says so; others taken with it may have the same.

    attempt: takes so far (calls), this one included. payload and headers: as JSON is read.
    """

    group: str
    topic: str
    receipt: str
    partition: int
    offset: int
    attempt: int
    key: str | None
    event_type: str | None
    payload: Any
    headers: Any = field(metadata={"only_json": True})
    host_id: str | None = field(metadata={"only_json": True})
    user_id: str | None = field(metadata={"only_json": True})
    transaction_id: UUID | None = field(metadata={"only_json": True})
    created: datetime

    @property
    def held(self) -> Receipt:
        """This event alone, for acknowledge() and the others."""
        return Receipt(group=self.group, topic=self.topic, receipt=self.receipt, offset=self.offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueJob:
    """An event of a queue group, as a status table would have it.

    state: ENQUEUED (open, or waiting for another attempt), PROCESSING (in hand), PROCESSED, FAILED
    (a dead letter). attempts: calls that failed, or takes, so far. holder: who has it in hand, as
    far as that is written down.
    """

    group: str
    topic: str
    partition: int
    offset: int
    state: str
    attempts: int
    holder: str | None
    since: datetime | None
    key: str | None
    event_type: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePartition:
    """How a partition of a queue group stands.

    next_offset: the offset below which all is finished, or set aside. end_offset: the offset that
    the next event gets. open: events that nobody has. in_hand: events that are reserved, until a
    deadline. in_work: sessions that handle some of the open ones now. lapsed: events that were, and
    past it. waiting: events set aside for another attempt. dead: events that are dead letters.
    finished_ahead: events finished above next_offset. oldest_open_s: how long ago the oldest open
    event was published, in seconds.
    """

    group: str
    topic: str
    partition: int
    next_offset: int
    end_offset: int
    open: int
    in_hand: int
    in_work: int
    waiting: int
    dead: int
    lapsed: int
    finished_ahead: int
    oldest_open_s: float | None


def take(
    conn: Connection[Any], group: str, topic: str, *, max_events: int = 1, visibility_s: float = 60
) -> list[TakenEvent]:
    """Take at most max_events (1 or more) that nobody has, for visibility_s seconds (above 0).

    In autocommit, or commit soon: until then nobody else sees that they are taken.
    Raises UsageError for a time above 366 days; RefusedError for what is out of range (GL400), not
    there (GL404), or an ordered group (GL409).
    """
    params = take_params(group, topic, max_events, visibility_s)
    return rows(conn, TakenEvent, query("queue", "take"), **params)


def take_params(group: str, topic: str, max_events: int, visibility_s: float) -> dict[str, object]:
    """Return what the query of take() needs. Raises UsageError as take() does."""
    return {
        "group": group,
        "topic": topic,
        "max_events": max_events,
        "visibility_s": _seconds("visibility", visibility_s),
    }


def acknowledge(conn: Connection[Any], held: Receipt) -> int:
    """Say that what is in hand is handled; return how many events.

    Raises RefusedError: GL003 when it is not in hand any more (its time was over and another took
    it, or it is finished), GL400 for what is no receipt, or one of another group or topic.
    """
    (events,) = row(conn, query("queue", "people_acknowledge"), **asdict(held))
    return int(events)


def release(
    conn: Connection[Any], held: Receipt, *, delay_s: float = 0, reason: str | None = None
) -> int:
    """Give back what is in hand; return how many events. Others may have it after delay_s seconds.

    Raises RefusedError as acknowledge() does, and GL400 for a delay below 0.
    """
    what = {**asdict(held), "delay_s": _seconds("delay", delay_s), "reason": reason}
    (events,) = row(conn, query("queue", "people_release"), **what)
    return int(events)


def reject(conn: Connection[Any], held: Receipt, reason: str) -> int:
    """Put what is in hand into the dead letter queue; return how many events.

    Raises RefusedError as acknowledge() does, and GL400 without a reason.
    """
    (events,) = row(conn, query("queue", "people_reject"), **asdict(held), reason=reason)
    return int(events)


def extend(conn: Connection[Any], held: Receipt, visibility_s: float) -> datetime:
    """Keep all that a receipt holds for visibility_s seconds from now on; return until when.

    Raises RefusedError as acknowledge() does, and GL400 for a time that is not above 0.
    """
    what = {**asdict(held), "visibility_s": _seconds("visibility", visibility_s)}
    (until,) = row(conn, query("queue", "people_extend"), **what)
    assert isinstance(until, datetime)
    return until


def peek(
    conn: Connection[Any],
    place: GroupPlace,
    *,
    states: Sequence[QueueJobState] = ("ENQUEUED", "PROCESSING", "FAILED"),
    limit: int = 20,
) -> list[QueueJob]:
    """Return the oldest events of a queue group in these states. Takes nothing.

    place: a group, one topic of it, or a partition. limit: at most so many events a partition.
    Raises UsageError for a state that there is not, RefusedError as queue_state() does.
    """
    unknown = set(states) - set(get_args(QueueJobState))
    if unknown:
        known = ", ".join(get_args(QueueJobState))
        raise UsageError(f"{', '.join(sorted(unknown))}: a state is one of {known}")
    queue_state(conn, place.group)
    what = {**place.range, "states": list(states), "limit": limit}
    return rows(conn, QueueJob, query("queue", "peek"), **what)


def queue_state(conn: Connection[Any], group: str) -> list[QueuePartition]:
    """Return how each partition of a queue group stands, by topic and number.

    Raises RefusedError (GL404) when there is no such group, (GL409) when it is an ordered one.
    """
    found = rows(conn, QueuePartition, query("queue", "queue_state"), group=group)
    if not found:
        raise RefusedError(
            f'there is no group "{group}": gapless groups lists them', sqlstate="GL404"
        )
    return found


def _seconds(name: str, seconds: float) -> float:
    """Return a time that PostgreSQL can take. Raises UsageError; what is too short, it refuses."""
    if not abs(seconds) <= SECONDS_MAX:  # so is not a number
        raise UsageError(f"a {name} of {seconds} seconds: at most {SECONDS_MAX}")
    return seconds
