"""Ordered groups without a supervisor: join as a client, poll, commit; all by SQL functions.

A program in Python has handlers for that; these serve the gateway, and programs that want no
supervisor. Every call is one transaction, and works over a pooler in transaction mode.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from psycopg.rows import class_row
from psycopg.types.json import set_json_loads

from gapless.db.queries import query
from gapless.db.refused import refused
from gapless.features.queue.taken import as_it_is, event_json
from gapless.ops.rows import row, rows

if TYPE_CHECKING:
    from psycopg import Connection

_TEXTS = ("payload", "headers")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientMember:
    """The client of a group that calls; the token proves its identity."""

    group: str
    member_id: str
    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedClient:
    """A client that joined. token: shown only once. expires_at: its deadline, unless it calls."""

    member_id: UUID
    token: str
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class PolledEvent:
    """An event for a client; its unit is first_offset to last_offset, both inclusive.

    attempt: deliveries of the unit so far, this one included. redriven: from the dead letter queue,
    out of order. payload, headers: JSON texts.
    """

    partition: int
    offset: int
    first_offset: int
    last_offset: int
    attempt: int
    redriven: bool
    key: str | None
    event_type: str | None
    payload: Any
    headers: Any
    host_id: str | None
    user_id: str | None
    transaction_id: UUID
    created: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientStanding:
    """The partitions of a client, and its deadline; problem: why some stand still, if any do."""

    expires_at: datetime
    partitions: list[int]
    problem: str | None
    topic: str


_NAMES = tuple(each.name for each in fields(PolledEvent) if each.name not in _TEXTS)


def join_group(
    conn: Connection[Any], group: str, topic: str, *, ttl_s: float = 30, name: str | None = None
) -> JoinedClient:
    """Join an ordered group as a client that has to call at least every ttl_s seconds (3 to 3600).

    Raises RefusedError: GL404 for an unknown group, GL409 for one that no client can serve, GL400.
    """
    what = {"group": group, "topic": topic, "ttl_s": ttl_s, "name": name}
    (joined,) = rows(conn, JoinedClient, query("client", "join"), **what)
    return joined


def poll_group(
    conn: Connection[Any],
    member: ClientMember,
    *,
    max_events: int = 100,
    partitions: Sequence[int] | None = None,
) -> list[PolledEvent]:
    """Return the next events, whole units in order; payload and headers as they were written.

    Events that are not committed come again. partitions: only events of these, among those that the
    member holds.
    Raises RefusedError: GL006 when the deadline has passed, GL404 for a token of another member.
    """
    wanted = None if partitions is None else list(partitions)
    what = {**asdict(member), "max_events": max_events, "partitions": wanted}
    with refused(), conn.cursor(row_factory=class_row(PolledEvent)) as cursor:
        set_json_loads(as_it_is, cursor)
        return cursor.execute(query("client", "poll"), what).fetchall()


def commit_offset(
    conn: Connection[Any], member: ClientMember, partition: int, next_offset: int
) -> bool:
    """Commit all events below next_offset as handled; tell whether the group's offset moved.

    In a transaction of the caller it commits with the caller's other writes.
    Raises RefusedError: GL006 when the deadline has passed, GL007 when another member has the
    partition by now, GL409 for an offset that was not delivered to this member, or lies before the
    group's.
    """
    what = {**asdict(member), "partition": partition, "next_offset": next_offset}
    (moved,) = row(conn, query("client", "commit"), **what)
    return bool(moved)


def commit_redriven(
    conn: Connection[Any], member: ClientMember, partition: int, first_offset: int
) -> None:
    """Commit a redriven unit as handled. Raises RefusedError as commit_offset() does."""
    what = {**asdict(member), "partition": partition, "first_offset": first_offset}
    row(conn, query("client", "commit_redriven"), **what)


def reject_unit(
    conn: Connection[Any], member: ClientMember, partition: int, first_offset: int, reason: str
) -> None:
    """Put the first unit in hand of a partition, or a redriven one, into the dead letter queue.

    Raises RefusedError as commit_offset() does; GL400 without a reason.
    """
    what = {**asdict(member), "partition": partition, "first_offset": first_offset}
    row(conn, query("client", "reject"), **what, reason=reason)


def renew_member(conn: Connection[Any], member: ClientMember) -> ClientStanding:
    """Renew the deadline while work takes long. Raises RefusedError: GL006 when it has passed."""
    (standing,) = rows(conn, ClientStanding, query("client", "heartbeat"), **asdict(member))
    return standing


def leave_group(conn: Connection[Any], member: ClientMember) -> bool:
    """Leave: others get the partitions at once. False: it was not a member."""
    (left,) = row(conn, query("client", "leave"), **asdict(member))
    return bool(left)


def polled_json(polled: PolledEvent) -> str:
    """Write an event as one line of JSON."""
    return event_json(
        {name: getattr(polled, name) for name in _NAMES}, polled.payload, polled.headers
    )
