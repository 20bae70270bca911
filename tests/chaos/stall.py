"""The longest time a partition stood still while an event was there, and what happened meanwhile (I8)."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from psycopg import Connection

from chaos.history import Fault, Record

# Since when an event was there and nothing of its partition was handled, until it was. What was set
# aside had a reason to wait; so had what waits at a barrier, while other partitions come to theirs:
# `freed` is when the last of them handled the last event before its own.
_WAITS = """
with effect as materialized (
  select f.group_id, f.topic, f.partition_id, f.c_offset, f.tag, f.at, t.topic_id,
    lag(f.at) over (partition by f.group_id, f.topic, f.partition_id order by f.id) as before,
    coalesce(
      (
        select min(b.layout) from gapless.barrier b
        where b.topic_id = t.topic_id and b.partition_id = f.partition_id
          and b.last_offset >= f.c_offset
      ),
      t.layout
    ) as layout
  from chaos.effect f
  join gapless.topic t on t.name = f.topic
),
freed as materialized (
  select p.group_id, p.topic, p.partition_id, p.layout,
    (
      select max(before.at)
      from gapless.layout n
      join gapless.layout o on o.topic_id = n.topic_id and o.layout < n.layout
      join gapless.barrier b on b.topic_id = o.topic_id and b.layout = o.layout
        and b.partition_id <> p.partition_id
        and (b.partition_id - p.partition_id) % gcd(o.partitions, n.partitions) = 0
      cross join lateral (
        select f.at from chaos.effect f
        where f.group_id = p.group_id and f.topic = p.topic and f.partition_id = b.partition_id
          and f.c_offset <= b.last_offset
        order by f.c_offset desc limit 1
      ) before
      where n.topic_id = p.topic_id and n.layout = p.layout
    ) as at
  from (select distinct group_id, topic, partition_id, topic_id, layout from effect) p
)
select e.group_id, e.topic, e.partition_id, extract(epoch from e.at)::float8 as at,
  extract(epoch from least(e.at, greatest(o.created_ts, e.before, r.at)))::float8 as since
from effect e
join gapless.outbox_message_t o on o.event_type = e.tag
join freed r on r.group_id = e.group_id and r.topic = e.topic
  and r.partition_id = e.partition_id and r.layout = e.layout
where not exists (
  select from chaos.aside a
  where (a.group_id, a.partition_id) = (e.group_id, e.partition_id)
    and e.c_offset between a.first_offset and a.last_offset
)
"""
_LONGEST = f"""
select w.group_id, w.topic, w.partition_id, w.since, w.at - w.since from ({_WAITS}) w
order by w.at - w.since desc limit 1
"""
LEASES = """
select extract(epoch from at)::float8, 'lease ' || partition_id || ': owner ' || coalesce(left(old_owner::text, 4), '-')
  || ' -> ' || coalesce(left(owner::text, 4), '-')
  || ', target ' || coalesce(left(old_target::text, 4), '-')
  || ' -> ' || coalesce(left(target::text, 4), '-') || ', epoch ' || epoch
from chaos.lease where group_id = coalesce(%(group)s, group_id)
  and partition_id = coalesce(%(partition)s, partition_id)
union all
select extract(epoch from at)::float8, 'member ' || left(member_id::text, 4) || ' ' || name || ' ' || what
from chaos.member
"""


@dataclass
class Stall:
    """A partition without an effect: since and for how long, in seconds of the server's clock."""

    partition: str
    since: float
    seconds: float
    story: list[str]


def longest_stall(conn: Connection[Any], records: list[Record], folder: Path) -> Stall | None:
    """Return the longest pause between two effects of a partition, with its story."""
    row = conn.execute(_LONGEST).fetchone()
    if row is None:
        return None
    group, topic, partition, since, seconds = row
    name = f"{group}/{topic}/{partition}"
    clock_s = time.clock_gettime(time.CLOCK_REALTIME) - time.monotonic()
    lines = [
        *conn.execute(LEASES, {"group": group, "partition": partition}).fetchall(),
        *((f.at_ns / 1e9 + clock_s, _fault(f)) for f in records if isinstance(f, Fault)),
        *(line for path in folder.glob("s*.log") for line in _logged(path, name)),
    ]
    story = [
        f"{at - since:8.3f} s  {what}"
        for at, what in sorted(lines)
        if -2 < at - since < seconds + 0.1
    ]
    return Stall(name, since, seconds, story)


def _fault(fault: Fault) -> str:
    return f"FAULT {fault.kind} {fault.phase} {fault.target}"


def _logged(path: Path, name: str) -> Iterator[tuple[float, str]]:
    """Yield what a supervisor and its children logged of a partition, and of themselves."""
    for line in path.read_text(errors="replace").splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        text = entry["message"]
        if name in text or text.startswith(("supervisor:", "sequencer")):
            at_s = datetime.fromisoformat(entry["ts"]).timestamp()
            yield at_s, f"{path.stem} {entry['pid']}: {text[:140]}"
