"""What was written down of queue groups, read from the tables and the clients' records."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from psycopg import Connection

from chaos.checker.rows import fetch
from chaos.history import Answered, Grouped, Record, select

Row = TypeVar("Row")
Place = tuple[str, str, int]  # group, topic, partition


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Somebody did something with an event; is_call: outside of the acknowledging transaction."""

    id: int
    place: Place
    c_offset: int
    tag: str
    who: str
    receipt: str | None
    is_call: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """A range that was written, or a floor that moved to first_offset; ids grow."""

    id: int
    what: str
    place: Place
    first_offset: int
    last_offset: int
    is_finished: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Queues:
    """Of queue groups. letters: every event that was ever set aside; dead: that is so now.

    floors: where each partition's floor is at the end.
    """

    groups: dict[str, Grouped]
    jobs: list[Job]
    changes: list[Changed]
    letters: frozenset[tuple[Place, int]]
    dead: frozenset[tuple[Place, int]]
    floors: dict[Place, int]
    answers: list[Answered]


def names(records: Iterable[Record]) -> frozenset[str]:
    """Return the names of the queue groups."""
    return frozenset(each.group for each in select(records, Grouped) if each.mode == "queue")


def ordered(records: Iterable[Record], rows: Sequence[Row]) -> list[Row]:
    """Return the rows of groups that keep an order."""
    queues = names(records)
    return [row for row in rows if getattr(row, "group_id", None) not in queues]


def gather_queues(conn: Connection[Any], records: Sequence[Record]) -> Queues:
    """Read all there is about queue groups."""
    wanted = [[*names(records)]]
    return Queues(
        groups={each.group: each for each in select(records, Grouped) if each.mode == "queue"},
        jobs=[_placed(row) for row in fetch(conn, Job, _JOBS, wanted)],
        changes=[_placed(row) for row in fetch(conn, Changed, _CHANGES, wanted)],
        letters=_places(conn, _LETTERS, wanted),
        dead=_places(conn, _DEAD, wanted),
        floors={
            (group, topic, partition): offset
            for group, topic, partition, offset in conn.execute(_FLOORS, wanted).fetchall()
        },
        answers=select(records, Answered),
    )


def _placed(row: Any) -> Any:
    group, topic, partition = row.place
    object.__setattr__(row, "place", (group, topic, int(partition)))
    return row


def _places(
    conn: Connection[Any], statement: str, wanted: list[list[str]]
) -> frozenset[tuple[Place, int]]:
    rows = conn.execute(statement.encode(), wanted).fetchall()
    return frozenset(
        ((group, topic, partition), offset) for group, topic, partition, offset in rows
    )


_JOBS = """
select j.id, array[j.group_id, j.topic, j.partition_id::text] as place, j.c_offset, j.tag, j.who,
  j.receipt, j.is_call
from chaos.job j where j.group_id = any (%s) order by j.id
"""
_CHANGES = """
select c.id, c.what, array[l.group_id, t.name, l.partition_id::text] as place, c.first_offset,
  coalesce(c.last_offset, c.first_offset) as last_offset, coalesce(c.is_finished, false) as is_finished
from chaos.queue_change c
join gapless.lease l using (lease_no)
join gapless.topic t using (topic_id)
where l.group_id = any (%s)
order by c.id
"""
_LETTERS = """
select a.group_id, t.name, a.partition_id, n
from chaos.aside a
join gapless.topic t using (topic_id)
cross join lateral generate_series(a.first_offset, a.last_offset) n
where a.group_id = any (%s)
"""
_DEAD = """
select d.group_id, t.name, e.partition_id, e.c_offset
from gapless.dead_letter d
join gapless.dead_letter_event e using (group_id, topic_id, partition_id, first_offset)
join gapless.topic t using (topic_id)
where d.group_id = any (%s) and d.state in ('dead', 'discarded')
"""
_FLOORS = """
select c.group_id, t.name, c.partition_id, c.next_offset
from gapless.consumer_offsets c join gapless.topic t using (topic_id)
where c.group_id = any (%s)
"""
