"""Did the run meet what it was meant to meet? A run that did not is inconclusive, not green.

Each rule counts something that must have happened at least once: a fault that hit a worker inside
its handler, a COMMIT without an answer, a take-over, a fall-back to savepoints, and so on.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from psycopg import Connection

from chaos.chain import GROUPS as CHAIN
from chaos.chain_coverage import chains
from chaos.checker.queue_rows import names
from chaos.deeds import KILLERS
from chaos.history import Fault, Handling, Outcome, Record, select
from chaos.later_coverage import later
from chaos.policies import policies
from chaos.queue_coverage import queues

_HIT = ("kill_worker", "kill_machine", "pause_worker", "pause_machine", "kill_supervisor")
_COUNTS = """
with commits as (
  select xid, group_id, partition_id, count(*) as effects, count(distinct transaction_id) as units
  from chaos.effect group by xid, group_id, partition_id
)
select
  (select count(*) from chaos.lease where owner is not null and old_owner is null
    and epoch > old_epoch and old_epoch > 0),
  (select count(*) from chaos.lease where epoch > old_epoch and old_owner is not null
    and owner is distinct from old_owner and not old_owner_lives),
  (select count(*) from chaos.member where what = 'DELETE'),
  (select count(*) from commits where effects > %(batch_size)s and group_id <> all (%(chain)s)),
  (select count(distinct l.xid) from chaos.letter l join commits c
    on c.xid = l.xid and c.group_id = l.group_id and c.partition_id = l.partition_id),
  (select count(*) from gapless.dead_letter_queue where exception like '%%worker died%%'),
  (select count(*) from commits where units > 1),
  (select count(distinct (d.group_id, d.partition_id, d.first_offset))
    from gapless.dead_letter_queue d
    where d.exception like '%%worker died%%' and not exists (
      select from gapless.dead_letter_queue c
      where (c.group_id, c.partition_id, c.first_offset)
        = (d.group_id, d.partition_id, d.first_offset)
        and c.payload ->> 'do' = any (%(killers)s)
    )),
  (select max(layout) from gapless.topic)
"""
UNLUCKY = "healthy units set aside, for faults ended their workers three times"  # need not happen
_COUNTED = (
    "partitions handed over",
    "partitions taken over from a member that was gone",
    "members gone",
    "batches extended to the end of a unit",
    "fall-backs to savepoints with healthy neighbours",
    "dead letters of a unit that killed its workers",
    "commits of several units",
    UNLUCKY,
    "changes of the number of partitions",
)


def coverage(
    conn: Connection[Any], records: Sequence[Record], batch_size: int, eaten: int
) -> dict[str, int]:
    """Return how often each thing that a run is about happened."""
    chain = [group.group for group in CHAIN]  # they have batch sizes of their own
    params = {"batch_size": batch_size, "killers": list(KILLERS), "chain": chain}
    row = conn.execute(_COUNTS, params).fetchone()
    assert row is not None
    inside, outside = hits(records)
    outcomes = [outcome.ended for outcome in select(records, Outcome)]
    undone = sum(event.undone for record in records for event in getattr(record, "events", ()))
    return {
        "faults that hit a worker inside its handler": inside,
        "faults that hit a worker between handlers": outside,
        "COMMITs without an answer": outcomes.count("info"),
        "of these, found done by their key": outcomes.count("already"),
        "COMMITs whose answer the network lost": eaten,
        "transactions rolled back": outcomes.count("fail"),
        "events of savepoints rolled back": undone,
        **dict(zip(_COUNTED, row, strict=True)),
        **policies(conn, records),
        **chains(conn, records),
        **later(conn, records),
        **(queues(conn, records) if names(records) else {}),
    }


def missing(counts: dict[str, int], kinds: Iterable[str], done: dict[str, int]) -> list[str]:
    """Say what never happened; empty when the run is conclusive."""
    never = [what for what, count in counts.items() if count == 0 and what != UNLUCKY]
    return never + [f"the fault {kind}" for kind in kinds if done.get(kind, 0) == 0]


def hits(records: Sequence[Record]) -> tuple[int, int]:
    """Count the faults that hit a worker inside its handler, and those that hit one outside."""
    handlings: dict[int, list[Handling]] = {
        pid: list(of_pid)
        for pid, of_pid in groupby(
            sorted(select(records, Handling), key=lambda h: (h.pid, h.at_ns)), key=lambda h: h.pid
        )
    }
    inside = outside = 0
    for fault in select(records, Fault):
        if fault.kind not in _HIT or fault.phase != "begin":
            continue
        for pid in map(int, fault.target.split()):
            if pid not in handlings:
                continue
            times = [each.at_ns for each in handlings[pid]]
            n = bisect_right(times, fault.at_ns)
            if n and handlings[pid][n - 1].phase == "begin":
                inside += 1
            else:
                outside += 1
    return inside, outside
