"""Did the chain of a run meet what it is about? What a run is about besides faults (coverage.py)."""

from collections.abc import Sequence
from typing import Any

from psycopg import Connection

from chaos.history import Linked, Record, select

_HANDLED = """
with units as (
  select e.xid, e.partition_id, e.c_offset from chaos.effect e
  where (e.group_id, e.topic) = (%(group)s, %(topic)s) and e.position = 0
)
select
  (select count(*) from units),
  (select max(n) from (select count(*) as n from units group by xid) c),
  (select count(distinct (d.partition_id, d.first_offset)) from gapless.dead_letter_event d
    join gapless.topic t using (topic_id) where (d.group_id, t.name) = (%(group)s, %(topic)s))
"""
_PUBLISHED = """
with published as (
  select o.id, o.xid, o.cause, o.payload ->> 'way' as way from gapless.outbox_message_t o
  where o.topic_id = gapless.topic_id(%(into)s)
),
placed as (
  select p.cause, count(distinct s.partition_id) as partitions
  from gapless.log_segment s cross join unnest(s.message_ids) m (id) join published p using (id)
  where s.topic_id = gapless.topic_id(%(into)s) group by p.cause
)
select
  (select count(*) from published),
  (select count(distinct cause) from published),
  (select count(*) from placed where partitions > 1),
  (select count(*) from (select from published group by xid having count(distinct cause) > 1) c),
  (select jsonb_object_agg(w.way, w.n)
    from (select way, count(*) as n from published group by way) w)
"""
_CHAINS = """
select count(distinct split_part(e.tag, '>', 1)) from chaos.effect e where e.group_id = %s
"""


def chains(conn: Connection[Any], records: Sequence[Record]) -> dict[str, int]:
    """Return what each link of the chain was given, and what it published."""
    counts: dict[str, int] = {}
    links: list[Linked] = select(records, Linked)
    for link in links:
        params = {"group": link.group, "topic": link.topic, "into": link.into}
        units, most, dead = conn.execute(_HANDLED, params).fetchone() or (0, 0, 0)
        found = {
            "batchSize": link.batch_size,
            "units handled": units,
            "at most in a commit": most or 0,
            "set aside": dead,
        }
        if link.into is not None:
            found |= _published(conn, link, params, units)
        counts |= {f"{link.group}: {what}": count for what, count in found.items()}
    if links:
        row = conn.execute(_CHAINS, [links[-1].group]).fetchone()
        counts["units of orders that came to the end of the chain"] = row[0] if row else 0
    return counts


def _published(
    conn: Connection[Any], link: Linked, params: dict[str, Any], units: int
) -> dict[str, int]:
    row = conn.execute(_PUBLISHED, params).fetchone()
    assert row is not None
    events, causes, wide, shared, ways = row
    found = {
        "events published": events,
        "units that published": causes,
        "of these, into several partitions": wide,
        "units that published nothing": units - causes,
    }
    if link.batch_size > 1 and "late" not in link.ways:
        found["commits in which several units published"] = shared
    return found | {f"events by {way}": (ways or {}).get(way, 0) for way in link.ways}
