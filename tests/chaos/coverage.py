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
from chaos.counts import count
from chaos.deeds import KILLERS
from chaos.history import Answered, Cancelled, Fault, Handling, Outcome, Record, select
from chaos.policies import policies

_HIT = ("kill_worker", "kill_machine", "pause_worker", "pause_machine", "kill_supervisor")
_OVER = """
with commits as (
  select xid, group_id, partition_id, count(*) as effects, count(distinct transaction_id) as units
  from chaos.effect group by xid, group_id, partition_id
)
"""
UNLUCKY = "healthy units set aside, for faults ended their workers three times"  # need not happen
_COUNTS = {
    "partitions handed over": """
        select count(*) from chaos.lease where owner is not null and old_owner is null
          and epoch > old_epoch and old_epoch > 0
    """,
    "partitions taken over from a member that was gone": """
        select count(*) from chaos.lease where epoch > old_epoch and old_owner is not null
          and owner is distinct from old_owner and not old_owner_lives
    """,
    "members gone": "select count(*) from chaos.member where what = 'DELETE'",
    "batches extended to the end of a unit": """
        select count(*) from commits
          where effects > %(batch_size)s and group_id <> all (%(chain)s)
    """,
    "fall-backs to savepoints with healthy neighbours": """
        select count(distinct l.xid) from chaos.letter l join commits c
          on c.xid = l.xid and c.group_id = l.group_id and c.partition_id = l.partition_id
    """,
    "dead letters of a unit that killed its workers": """
        select count(*) from gapless.dead_letter_queue
          where exception like '%%worker died%%'
    """,
    "commits of several units": "select count(*) from commits where units > 1",
    UNLUCKY: """
        select count(distinct (d.group_id, d.partition_id, d.first_offset))
          from gapless.dead_letter_queue d
          where d.exception like '%%worker died%%' and not exists (
          select from gapless.dead_letter_queue c
          where (c.group_id, c.partition_id, c.first_offset)
          = (d.group_id, d.partition_id, d.first_offset)
          and c.payload ->> 'do' = any (%(killers)s)
          )
    """,
    "changes of the number of partitions": "select max(layout) from gapless.topic",
}
_PROMOTED = """
with promoted as (
  select w.xid, w.scheduled_xid, w.deliver_at, count(*) as events from chaos.wait w
  where w.what = 'DELETE' and w.application not like 'chaos/%' group by 1, 2, 3
)
"""
_LATER = {
    "events for later promoted": "select sum(events) from promoted",
    "units of several events promoted": "select count(*) from promoted where events > 1",
    "promotions of several units": """
        select count(*) from (select xid from promoted group by 1 having count(*) > 1) x
    """,
    "due times of schedules": "select count(*) from chaos.fired where events = 1",
    "due times made up for together (all)": "select count(*) from chaos.fired where events > 1",
    "due times let go (skip)": "select count(*) from chaos.fired where events = 0",
    "due times of which the newest came (once)": """
        select count(*) from chaos.fired f
          where f.events = 1 and f.name = 'pulse' and f.next_due - f.old_due > interval '1 s'
    """,
    "steps of the clock": "select count(*) from chaos.clock_step where confirmed is not null",
}
_QUEUES = {
    "jobs of exactly-once workers": """
        select count(*) from chaos.job
          where group_id = 'sender' and who = 'worker'
    """,
    "jobs of at-least-once workers": """
        select count(*) from chaos.job
          where group_id = 'caller' and who = 'worker'
    """,
    "jobs of SQL clients": "select count(*) from chaos.job where who <> 'worker'",
    "jobs given out again": "select count(*) from chaos.queue_change where tries > 1",
    "floors of queue groups": "select count(*) from chaos.queue_change where what = 'floor'",
}
_ANSWERS = ("acknowledge", "release", "reject", "extend", "forget")


def coverage(
    conn: Connection[Any], records: Sequence[Record], batch_size: int, eaten: int
) -> dict[str, int]:
    """Return how often each thing that a run is about happened."""
    chain = [group.group for group in CHAIN]  # they have batch sizes of their own
    params = {"batch_size": batch_size, "killers": list(KILLERS), "chain": chain}
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
        **count(conn, _COUNTS, params, over=_OVER),
        **policies(conn, records),
        **chains(conn, records),
        **_later(conn, records),
        **(_queues(conn, records) if names(records) else {}),
    }


def _later(conn: Connection[Any], records: Sequence[Record]) -> dict[str, int]:
    """What events for later and schedules met."""
    cancels = select(records, Cancelled)
    told = [each.told for each in cancels if each.ended == "ok"]
    return {
        **count(conn, _LATER, over=_PROMOTED),
        "cancels in time": told.count(True),
        "cancels that came too late": told.count(False),
        "cancels rolled back": sum(each.ended == "fail" for each in cancels),
    }


def _queues(conn: Connection[Any], records: Sequence[Record]) -> dict[str, int]:
    """What queue groups met."""
    answers = select(records, Answered)
    said = [each for each in answers if each.ended == "ok"]
    return {
        **count(conn, _QUEUES),
        **{f"receipts: {how}": sum(each.how == how for each in said) for how in _ANSWERS},
        "receipts acknowledged too late, and refused": sum(
            each.ended == "lost" for each in answers
        ),
        "receipts acknowledged too late, and nobody had taken it": sum(each.late for each in said),
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
