"""The rows the checker reads: the log, the groups, and the tables of tables.sql."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
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
    timeline: int | None = None
    cause: str | None = None
    correlation: UUID | None = None
    seen: dict[str, Any] | None = None  # what a handler is to see of it (chaos.effects.seen)


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
    seen: dict[str, Any] | None
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
    """A dead letter as it is now. other: the columns that are not the event's."""

    group_id: str
    topic: str
    partition_id: int
    c_offset: int
    status: str
    exception: str
    transaction_id: UUID | None
    other: list[str]


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


# A driver's tasks have sessions of their own; each says in its name under which epoch it works.
_TASK = r"substring(r.application from '^gapless/spark task (\d+) of ')::bigint"
_EXPRESSIONS = {
    "xid": "r.xid::text",
    "task_epoch": _TASK,
    **dict.fromkeys(("at", "due", "failed", "asked"), "extract(epoch from r.{})::float8"),
}


def _history(kind: type[Any], table: str) -> str:
    """Return the query of a table of tables.sql, in the order of its ids."""
    by_id = kind not in (Effect, Call)  # these have the name of their topic
    names = _EXPRESSIONS | ({"topic": "t.name"} if by_id else {})
    columns = ", ".join(
        f"{names.get(each.name, 'r.{}').format(each.name)} as {each.name}" for each in fields(kind)
    )
    topics = " join gapless.topic t using (topic_id)" if by_id else ""
    return f"select {columns} from chaos.{table} r{topics} order by r.id"


_QUERIES: dict[type[Any], str] = {
    Placed: r"""
        select t.name as topic, s.partition_id, s.base_offset + u.n - 1 as c_offset, u.id,
          o.event_type as tag, o.key, md5(o.payload::text) as digest, o.xid::text as xid,
          coalesce(o.transaction_id, gapless.transaction_uuid(o.xid, s.timeline)) as transaction_id,
          substring(s.unit_ends from u.n::int for 1) = b'1' as ends_unit, s.layout, s.timeline,
          o.cause, o.correlation,
          case when o.id is not null then jsonb_build_object(
            'id', o.id, 'key', o.key, 'event_type', o.event_type, 'payload', md5(o.payload::text),
            'headers', coalesce(o.headers, '{}'), 'host_id', o.host_id, 'user_id', o.user_id,
            'transaction_id', coalesce(o.transaction_id, gapless.transaction_uuid(o.xid, s.timeline)),
            'created_us', (extract(epoch from o.created_ts) * 1000000)::bigint,
            'cause', regexp_replace(o.cause, '(\.\.\d+)?(~\d+)?$', ''),
            'correlation', coalesce(
              o.correlation, o.transaction_id, gapless.transaction_uuid(o.xid, s.timeline)
            )
          ) end as seen
        from gapless.log_segment s
        join gapless.topic t using (topic_id)
        cross join unnest(s.message_ids) with ordinality u (id, n)
        left join gapless.outbox_message_t o on o.id = u.id
        order by 1, 2, 3""",
    Effect: _history(Effect, "effect"),
    Moved: _history(Moved, "cursor"),
    Leased: _history(Leased, "lease"),
    Lettered: _history(Lettered, "letter"),
    Aside: _history(Aside, "aside"),
    Call: _history(Call, "call"),
    Letter: """
        select d.group_id, t.name as topic, d.partition_id, d.c_offset, d.status, d.exception,
          d.transaction_id,
          array_remove(array[
            case when d.payload::text is distinct from o.payload::text then 'payload' end,
            case when d.headers is distinct from o.headers then 'headers' end,
            case when d.key is distinct from o.key then 'key' end,
            case when d.event_type is distinct from o.event_type then 'event_type' end,
            case when d.host_id is distinct from o.host_id then 'host_id' end,
            case when d.user_id is distinct from o.user_id then 'user_id' end,
            case when d.created_ts is distinct from o.created_ts then 'created_ts' end,
            case when d.transaction_id
              is distinct from coalesce(o.transaction_id, gapless.transaction_uuid(o.xid, s.timeline))
              then 'transaction_id' end,
            case when e.cause is distinct from o.cause then 'cause' end,
            case when e.correlation is distinct from o.correlation then 'correlation' end
          ], null) as other
        from gapless.dead_letter_queue d
        join gapless.topic t using (topic_id)
        join gapless.dead_letter_event e using (group_id, topic_id, partition_id, c_offset)
        left join gapless.outbox_message_t o on o.id = d.message_id
        left join gapless.log_segment s
          on (s.topic_id, s.partition_id) = (d.topic_id, d.partition_id)
          and d.c_offset between s.base_offset and s.last_offset
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
    return fetch(conn, kind, _QUERIES[kind])


def fetch(
    conn: Connection[Any], kind: type[Row], statement: str, params: Sequence[object] = ()
) -> list[Row]:
    """Return the rows of a statement, which has a column for each attribute of their kind."""
    with conn.cursor(row_factory=class_row(kind)) as cursor:
        return cursor.execute(statement.encode(), params or None).fetchall()
