"""Did every policy meet every way to fail? What a run is about besides faults (coverage.py)."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from psycopg import Connection

from chaos.chain import GROUPS as CHAIN
from chaos.counts import count
from chaos.deeds import ALL, KILLERS
from chaos.history import Asked, Grouped, Handling, Record, select

_OVER = """
with
units as (
  select a.group_id, a.topic_id, a.partition_id, a.first_offset,
    min(a.at) filter (where a.state = 'parked') as parked,
    min(a.at) filter (where a.state = 'redriven') as handled,
    bool_or(a.state = 'dead') as died
  from chaos.aside a group by 1, 2, 3, 4
),
begun as (select c.* from chaos.call c where c.phase = 'begin'),
ended as (select c.* from chaos.call c where c.phase = 'end')
"""
_COUNTS = {
    "units parked behind another one": "select count(*) from units u where u.parked is not null",
    "of these, handled when it was their turn": "select count(*) from units u where u.handled > u.parked",
    "units handled at a later attempt": "select count(*) from units u where u.handled is not null and u.parked is null and not u.died",
    "dead letters redriven, and handled then": "select count(*) from units u where u.handled is not null and u.died",
    "units that ended their worker, dead with its exit code": """
        select count(distinct (a.group_id, a.partition_id, a.first_offset)) from chaos.aside a
          where a.state = 'dead' and a.reason like '%worker died%the last one: exit code%'
    """,
    "units that ended their worker, dead with its signal": """
        select count(distinct (a.group_id, a.partition_id, a.first_offset)) from chaos.aside a
          where a.state = 'dead' and a.reason like '%worker died%the last one: signal%'
    """,
    "units parked after a change of the number of partitions": """
        select count(*) from units u join gapless.log_segment s
          on (s.topic_id, s.partition_id) = (u.topic_id, u.partition_id)
          and u.first_offset between s.base_offset and s.last_offset
          where u.parked is not null and s.layout > 0
    """,
    "calls of at-least-once handlers side by side": """
        select count(*) from begun b where exists (
          select from begun o join ended e using (group_id, partition_id, first_offset, attempt, pid)
          where o.pid = b.pid and o.id < b.id and e.id > b.id and o.first_offset <> b.first_offset)
    """,
    "calls of at-least-once handlers told that they are not the first": "select count(*) from begun b where b.attempt > 1",
}


def policies(conn: Connection[Any], records: Sequence[Record]) -> dict[str, int]:
    """Return how often each policy met each deed, and what came of it."""
    chain = {each.group for each in CHAIN}  # chain_coverage.py counts what they meet
    groups = [
        each.group
        for each in select(records, Grouped)
        if each.group not in chain and each.mode == "ordered"
    ]
    met: Counter[tuple[str, str]] = Counter()
    begun: Counter[tuple[str, int, int]] = Counter()
    for each in select(records, Handling):
        if each.phase == "begin":
            deeds = set(each.does.split())
            met.update((each.group, deed) for deed in deeds)
            begun[each.group, each.partition, each.first_offset] += bool(deeds & set(KILLERS))
    most = {
        group: max((n for (of, *_), n in begun.items() if of == group), default=0)
        for group in groups
    }
    return {
        **{f"{group}: {deed}": met[group, deed] for group in groups for deed in ALL},
        **{f"{group}: most calls of a unit that kills": most[group] for group in groups},
        **count(conn, _COUNTS, over=_OVER),
        **people(records),
    }


def people(records: Sequence[Record]) -> dict[str, int]:
    """Two asked for the same at once: both were told what became of it, one of them did it."""
    told: dict[tuple[str, str], list[str]] = {}
    verbs: dict[str, list[str]] = {}
    for asked in select(records, Asked):
        verbs.setdefault(asked.together, []).append(asked.verb)
        for place, outcome in asked.units:
            told.setdefault((asked.together, place), []).append(outcome)
    pairs = [(sorted(verbs[together]), outcomes) for (together, _), outcomes in told.items()]
    return {
        "units redriven by two people at once": sum(
            verb == ["redrive", "redrive"] and "asked" in outcomes for verb, outcomes in pairs
        ),
        "units discarded by two people at once, by one of them": sum(
            verb == ["discard", "discard"] and outcomes.count("discarded") == 1
            for verb, outcomes in pairs
        ),
        "units redriven by one and discarded by another": sum(
            verb == ["discard", "redrive"] and "discarded" in outcomes for verb, outcomes in pairs
        ),
    }
