"""Queue groups by hand: take events, acknowledge or reject them, look at the open ones.

A handler of a queue returns or raises; these functions do the same by a receipt. In a transaction
of the caller, acknowledge() commits with its other writes: exactly once.
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
    """A claim on taken events: on all events of a receipt, or on the event at one offset of it."""

    group: str
    topic: str
    receipt: str
    offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenEvent:
    """An event that was taken. receipt: its proof; events that were taken together may share one.

    attempt: takes so far (calls), this one included. payload and headers: decoded JSON.
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
        """The receipt for this event alone, as acknowledge() and the others take it."""
        return Receipt(group=self.group, topic=self.topic, receipt=self.receipt, offset=self.offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueJob:
    """An event of a queue group, as a status table would have it.

    state: ENQUEUED (open, or waiting for another attempt), PROCESSING (in hand), PROCESSED, FAILED
    (a dead letter). attempts: failed calls, or takes, so far. holder: the worker or client that has
    it in hand, as far as the database knows.
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
    """The state of a partition of a queue group.

    next_offset: the offset below which all is finished, or set aside. end_offset: the offset that
    the next event gets. open: events that are free. in_hand: events that are reserved, until a
    deadline. in_work: sessions that handle some of the open ones now. lapsed: events that were
    reserved until a deadline that has passed. waiting: events set aside for another attempt. dead:
    events that are dead letters. finished_ahead: events finished above next_offset. oldest_open_s:
    seconds since the oldest open event was published.
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
    """Take at most max_events (1 or more) available events, for visibility_s seconds (above 0).

    Use autocommit, or commit soon: until then no other session sees that they are taken.
    Raises UsageError for a time above 366 days; RefusedError for a value out of range (GL400), an
    unknown group or topic (GL404), or an ordered group (GL409).
    """
    params = take_params(group, topic, max_events, visibility_s)
    return rows(conn, TakenEvent, query("queue", "take"), **params)


def take_params(group: str, topic: str, max_events: int, visibility_s: float) -> dict[str, object]:
    """Return the parameters of the query of take(). Raises UsageError as take() does."""
    return {
        "group": group,
        "topic": topic,
        "max_events": max_events,
        "visibility_s": _seconds("visibility", visibility_s),
    }


def acknowledge(conn: Connection[Any], held: Receipt) -> int:
    """Acknowledge the events of a receipt; return how many events.

    Raises RefusedError: GL003 when they are no longer in hand (their time was over and another took
    them, or they are finished), GL400 for an invalid receipt, or one of another group or topic.
    """
    (events,) = row(conn, query("queue", "people_acknowledge"), **asdict(held))
    return int(events)


def release(
    conn: Connection[Any], held: Receipt, *, delay_s: float = 0, reason: str | None = None
) -> int:
    """Give events back; return how many events. Others may take them after delay_s seconds.

    Raises RefusedError as acknowledge() does, and GL400 for a delay below 0.
    """
    what = {**asdict(held), "delay_s": _seconds("delay", delay_s), "reason": reason}
    (events,) = row(conn, query("queue", "people_release"), **what)
    return int(events)


def reject(conn: Connection[Any], held: Receipt, reason: str) -> int:
    """Put events in hand into the dead letter queue; return how many events.

    Raises RefusedError as acknowledge() does, and GL400 without a reason.
    """
    (events,) = row(conn, query("queue", "people_reject"), **asdict(held), reason=reason)
    return int(events)


def extend(conn: Connection[Any], held: Receipt, visibility_s: float) -> datetime:
    """Keep all events of a receipt for visibility_s seconds from now on; return the new deadline.

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

    place: a group, one topic of it, or a partition. limit: events of each partition, at most.
    Raises UsageError for an unknown state, RefusedError as queue_state() does.
    """
    unknown = set(states) - set(get_args(QueueJobState))
    if unknown:
        known = ", ".join(get_args(QueueJobState))
        raise UsageError(f"{', '.join(sorted(unknown))}: a state is one of {known}")
    queue_state(conn, place.group)
    what = {**place.range, "states": list(states), "limit": limit}
    return rows(conn, QueueJob, query("queue", "peek"), **what)


def queue_state(conn: Connection[Any], group: str) -> list[QueuePartition]:
    """Return the state of each partition of a queue group, by topic and number.

    Raises RefusedError (GL404) when there is no such group, (GL409) when it is an ordered one.
    """
    found = rows(conn, QueuePartition, query("queue", "queue_state"), group=group)
    if not found:
        raise RefusedError(
            f'there is no group "{group}": gapless groups lists them', sqlstate="GL404"
        )
    return found


def _seconds(name: str, seconds: float) -> float:
    """Return a time that PostgreSQL can take. Raises UsageError; PostgreSQL refuses short times."""
    if not abs(seconds) <= SECONDS_MAX:  # true for NaN, too
        raise UsageError(f"a {name} of {seconds} seconds: at most {SECONDS_MAX}")
    return seconds
