"""The rows the checker reads: the log, the groups, and the tables of tables.sql."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import UUID

from psycopg import Connection
from psycopg.rows import class_row

from chaos.checker.failures import Aside, Call

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """An event with its place in the log; tag None: its row is not in the outbox."""

    topic: str
    partition_id: int
    c_offset: int
    id: int
    tag: str | None
    key: str | None
    digest: str | None
    xid: str | None
    transaction_id: UUID | None
    ends_unit: bool
    layout: int = 0
    cause: str | None = None
    correlation: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What a handler did with one event; task_epoch: the one that a Spark task says it has."""

    id: int
    group_id: str
    topic: str
    partition_id: int
    c_offset: int
    transaction_id: UUID | None
    position: int
    key: str | None
    tag: str | None
    epoch: int | None
    pid: int | None
    backend_pid: int
    task_epoch: int | None
    xid: str
    at: float

    @property
    def worker(self) -> tuple[str, int]:
        """Who did it: a session, or, on Spark, all tasks that work under one epoch."""
        if self.task_epoch is not None:
            return ("tasks of epoch", self.task_epoch)
        return ("session", self.backend_pid)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """A version of a fence row: it moved (offset), changed its owner (epoch, token), or is new."""

    id: int
    group_id: str
    topic: str
    partition_id: int
    old_offset: int
    next_offset: int
    old_epoch: int
    epoch: int
    old_token: UUID | None
    token: UUID | None
    made: bool
    seek: bool
    backend_pid: int
    task_epoch: int | None
    xid: str
    at: float

    @property
    def is_batch(self) -> bool:
        """Whether a worker passed the offsets old_offset .. next_offset - 1."""
        return not self.made and not self.seek and self.next_offset != self.old_offset

    @property
    def is_install(self) -> bool:
        return (self.old_epoch, self.old_token) != (self.epoch, self.token)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leased:
    """A change of a lease row."""

    id: int
    group_id: str
    topic: str
    partition_id: int
    old_owner: UUID | None
    owner: UUID | None
    old_owner_lives: bool
    old_target: UUID | None
    target: UUID | None
    old_epoch: int
    epoch: int
    token: UUID | None
    worker_pid: int | None
    xid: str
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Lettered:
    """A change of a dead letter."""

    id: int
    what: str
    group_id: str
    topic: str
    partition_id: int
    c_offset: int
    status: str
    xid: str
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """A dead letter as it is now. same: its payload, headers and key are the event's."""

    group_id: str
    topic: str
    partition_id: int
    c_offset: int
    status: str
    exception: str
    transaction_id: UUID | None
    same: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Business:
    """What a producer wrote beside its events."""

    attempt: str
    order_key: str
    events: int
    xid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """Where a group stands in a partition, and where the log of the partition ends."""

    group_id: str
    topic: str
    partition_id: int
    next_offset: int
    last_offset: int
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """How many partitions of a group's topic are planned for a member."""

    group_id: str
    topic: str
    name: str
    capacity: int | None
    partitions: int


_AT = "extract(epoch from {0}.at)::float8 as at"
# A driver's tasks have sessions of their own; each says in its name under which epoch it works.
_TASK = "substring({0}.application from '^gapless/spark task (\\d+) of ')::bigint as task_epoch"
_QUERIES: dict[type[Any], str] = {
    Placed: """
        select t.name as topic, s.partition_id, s.base_offset + u.n - 1 as c_offset, u.id,
          o.event_type as tag, o.key, md5(o.payload::text) as digest, o.xid::text as xid,
          coalesce(o.transaction_id, gapless.transaction_uuid(o.xid)) as transaction_id,
          substring(s.unit_ends from u.n::int for 1) = b'1' as ends_unit, s.layout,
          o.cause, o.correlation
        from gapless.log_segment s
        join gapless.topic t using (topic_id)
        cross join unnest(s.message_ids) with ordinality u (id, n)
        left join gapless.outbox_message_t o on o.id = u.id
        order by 1, 2, 3""",
    Effect: f"""
        select e.id, e.group_id, e.topic, e.partition_id, e.c_offset, e.transaction_id, e.position,
          e.key, e.tag, e.epoch, e.pid, e.backend_pid, {_TASK.format("e")}, e.xid::text as xid, {_AT.format("e")}
        from chaos.effect e order by e.id""",
    Moved: f"""
        select c.id, c.group_id, t.name as topic, c.partition_id, c.old_offset, c.next_offset,
          c.old_epoch, c.epoch, c.old_token, c.token, c.made, c.seek, c.backend_pid,
          {_TASK.format("c")}, c.xid::text as xid, {_AT.format("c")}
        from chaos.cursor c join gapless.topic t using (topic_id) order by c.id""",
    Leased: f"""
        select l.id, l.group_id, t.name as topic, l.partition_id, l.old_owner, l.owner,
          l.old_owner_lives, l.old_target, l.target, l.old_epoch, l.epoch, l.token, l.worker_pid,
          l.xid::text as xid, {_AT.format("l")}
        from chaos.lease l join gapless.topic t using (topic_id) order by l.id""",
    Lettered: f"""
        select d.id, d.what, d.group_id, t.name as topic, d.partition_id, d.c_offset, d.status,
          d.xid::text as xid, {_AT.format("d")}
        from chaos.letter d join gapless.topic t using (topic_id) order by d.id""",
    Aside: f"""
        select a.id, a.what, a.group_id, t.name as topic, a.partition_id, a.first_offset,
          a.last_offset, a.old_state, a.state, a.attempts, a.crashes,
          extract(epoch from a.due)::float8 as due, extract(epoch from a.failed)::float8 as failed,
          extract(epoch from a.asked)::float8 as asked,
          a.reason, a.exception_class, a.sqlstate, a.discard_reason, a.xid::text as xid,
          {_AT.format("a")}
        from chaos.aside a join gapless.topic t using (topic_id) order by a.id""",
    Call: f"""
        select c.id, c.group_id, c.topic, c.partition_id, c.first_offset, c.last_offset, c.phase,
          c.attempt, c.idempotency_key, c.pid, {_AT.format("c")}
        from chaos.call c order by c.id""",
    Letter: """
        select d.group_id, t.name as topic, d.partition_id, d.c_offset, d.status, d.exception,
          d.transaction_id,
          coalesce(
            (d.payload::text, d.headers, d.key, d.event_type, d.host_id, d.user_id)
              is not distinct from
            (o.payload::text, o.headers, o.key, o.event_type, o.host_id, o.user_id), false
          ) as same
        from gapless.dead_letter_queue d
        join gapless.topic t using (topic_id)
        left join gapless.outbox_message_t o on o.id = d.message_id
        order by 1, 2, 3, 4""",
    Business: """
        select b.attempt::text as attempt, b.order_key, b.events, b.xid::text as xid
        from chaos.business b order by b.id""",
    Cursor: """
        select c.group_id, t.name as topic, c.partition_id, c.next_offset,
          coalesce(s.last_offset, 0) as last_offset, l.error
        from gapless.consumer_offsets c
        join gapless.topic t using (topic_id)
        left join (
          select topic_id, partition_id, max(last_offset) as last_offset
          from gapless.log_segment group by 1, 2
        ) s using (topic_id, partition_id)
        left join gapless.lease l using (group_id, topic_id, partition_id)
        order by 1, 2, 3""",
    Target: """
        select mg.group_id, t.name as topic, m.name, m.capacity,
          (
            select count(*) from gapless.lease l
            where (l.group_id, l.topic_id, l.target) = (mg.group_id, mg.topic_id, m.member_id)
          ) as partitions
        from gapless.member_group mg
        join gapless.member m using (member_id)
        join gapless.topic t using (topic_id)
        where m.state = 'active'
        order by 1, 2, 3""",
}


def load(conn: Connection[Any], kind: type[Row]) -> list[Row]:
    """Return all rows of one kind."""
    with conn.cursor(row_factory=class_row(kind)) as cursor:
        return cursor.execute(_QUERIES[kind].encode()).fetchall()
