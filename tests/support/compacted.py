"""Twins with compacted topics: each event's key names it, and a test fills latest."""

from typing import Any

from support.twins import Twins

COLUMNS = (
    "partition_id, c_offset, timeline, id, xid, key, host_id, user_id, transaction_id, event_type, payload,"
    " headers, created_ts, cause, correlation"
)
LOG = """
select s.topic_id, gapless.key_digest(m) as key_digest, s.partition_id, s.base_offset + u.n - 1 as c_offset,
  s.timeline, m.id, m.xid, m.key, m.host_id, m.user_id, m.transaction_id, m.event_type,
  coalesce(m.payload, 'null') as payload, m.headers, m.created_ts, m.cause, m.correlation
from gapless.log_segment s
cross join lateral unnest(s.message_ids) with ordinality as u (id, n)
join gapless.outbox_message_t m on m.id = u.id
"""
WRITE = """
update gapless.outbox_message_t o
set key = %(key)s::text || s.partition_id, host_id = %(host_id)s, payload = %(payload)s::json, headers = %(headers)s,
  user_id = 'u' || o.id, transaction_id = case when o.id %% 2 = 0 then md5(o.id::text)::uuid end,
  event_type = %(event_type)s, cause = 'c' || o.id, correlation = md5('c' || o.id)::uuid
from gapless.log_segment s
where o.id = s.message_ids[%(at)s - s.base_offset + 1]
"""


def is_here(twins: Twins) -> str:
    """Return the condition of the place that tests are about."""
    return f"topic_id = {twins.topic_ids['orders']} and partition_id = 1"


def write(
    twins: Twins, at: int, key: str | None, payload: str | None, event_type: str | None = None,
    *, host_id: str | None = None, headers: str | None = None,
) -> None:  # fmt: skip
    """Give the event at an offset of each partition this key, with the partition's number, and these fields."""
    said = {
        "at": at, "key": key, "payload": payload, "event_type": event_type, "host_id": host_id,
        "headers": headers,
    }  # fmt: skip
    twins.conn.execute(WRITE, said)


def keep(twins: Twins, where: str, *offsets: int) -> None:
    """Copy events of the log into latest; where: a condition on e, an event with its place."""
    twins.conn.execute(
        f"insert into gapless.latest (topic_id, key_digest, {COLUMNS})"
        f" select topic_id, key_digest, {COLUMNS} from ({LOG}) e"
        f" where ({where}) and c_offset = any (%s)".encode(),
        [list(offsets)],
    )


def logged(twins: Twins, partition: int, *offsets: int) -> list[Any]:
    """Return events of orders in the form that latest has, in offset order."""
    return _texts(twins, f"({LOG}) e", partition, "and c_offset = any (%s)", [list(offsets)])


def kept(twins: Twins, partition: int = 1) -> list[Any]:
    """Return the rows of latest for a partition of orders, in offset order."""
    return _texts(twins, "gapless.latest e", partition, "", [])


def _texts(twins: Twins, table: str, partition: int, more: str, params: list[Any]) -> list[Any]:
    topic = twins.topic_ids["orders"]
    query = (
        f"select (to_jsonb(x) || jsonb_build_object('payload', x.payload::text))::text"
        f" from (select key_digest, {COLUMNS} from {table} where topic_id = {topic} and partition_id = {partition} {more}) x"
        " order by c_offset"
    )
    return [row for (row,) in twins.conn.execute(query.encode(), params)]
