"""Everything that is known of a run, read once and indexed for the families of checks."""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any, Protocol, TypeVar

from psycopg import Connection

from chaos.chain import derived
from chaos.checker.attempts import Attempt, resolve
from chaos.checker.failures import Aside, Call
from chaos.checker.later_rows import Later, gather_later
from chaos.checker.queue_rows import Queues, gather_queues, ordered
from chaos.checker.rows import (
    Business,
    Cursor,
    Effect,
    Leased,
    Letter,
    Lettered,
    Moved,
    Placed,
    Target,
    load,
)
from chaos.history import Grouped, Handling, Linked, Record, Sent, select


class _InPartition(Protocol):
    @property
    def group_id(self) -> str: ...
    @property
    def topic(self) -> str: ...
    @property
    def partition_id(self) -> int: ...


At = tuple[str, str, int]  # group, topic, partition
Each = TypeVar("Each", bound=_InPartition)


@dataclass(frozen=True)
class Facts:
    """The whole run."""

    records: Sequence[Record]
    attempts: dict[str, Attempt]
    log: dict[tuple[str, int], list[Placed]]  # (topic, partition) -> in offset order
    business: list[Business]
    effects: list[Effect]
    moves: dict[At, list[Moved]]  # in the order of their commits
    leases: dict[At, list[Leased]]
    lettered: dict[At, list[Lettered]]
    letters: list[Letter]
    groups: dict[str, Grouped]  # that said what they promise
    handlings: list[Handling]
    asides: list[Aside]
    calls: list[Call]
    cursors: list[Cursor]
    targets: list[Target]
    unsequenced: frozenset[str]  # tags of committed events that have no offset yet
    moved_segments: list[tuple[str, int, int]]
    idle_in_transaction: list[str]
    queues: Queues
    later: Later
    clock_ns: float  # a time on the server's clock = monotonic + this

    @cached_property
    def sent(self) -> dict[str, tuple[Attempt, Sent]]:
        """Every event that some attempt wanted, by its tag."""
        return {
            event.tag: (attempt, event)
            for attempt in self.attempts.values()
            for event in attempt.invoke.events
        }

    @cached_property
    def links(self) -> list[Linked]:
        """The links of the chain, from its beginning; none where nobody publishes for a unit."""
        return select(self.records, Linked)

    def sent_as(self, tag: str | None) -> Sent | None:
        """What was to be published under a tag, by a producer or by a handler of the chain."""
        if tag is None or tag in self.sent:
            return self.sent[tag][1] if tag else None
        return derived(self.links, tag)

    def group(self, at: At) -> Grouped:
        """What the group of a partition promises."""
        return self.groups.get(at[0]) or Grouped(group=at[0])

    @cached_property
    def units(self) -> dict[tuple[str, int], list[list[Placed]]]:
        """The units of each partition (topic, number), in the order of their offsets."""
        return {where: list(log_units(events)) for where, events in self.log.items()}

    @cached_property
    def by_tag(self) -> dict[str, list[Placed]]:
        """The events that are in the log under each tag."""
        found: dict[str, list[Placed]] = defaultdict(list)
        for event in (event for events in self.log.values() for event in events):
            if event.tag is not None:
                found[event.tag].append(event)
        return dict(found)

    def keyed(self, topic: str) -> dict[str, list[tuple[int, list[Placed]]]]:
        """The units of each key of a topic, with their partitions, in the order of handling (I4)."""
        found: dict[str, list[tuple[int, list[Placed]]]] = defaultdict(list)
        for (of_topic, partition), units in self.units.items():
            for unit in units if of_topic == topic else ():
                for key in {event.key for event in unit if event.key is not None}:
                    found[key].append((partition, unit))
        for line in found.values():
            line.sort(key=lambda each: (each[1][0].layout, each[1][0].c_offset))
        return found

    @cached_property
    def placed_at(self) -> dict[tuple[str, int, int], Placed]:
        """The event at each place: topic, partition, offset."""
        return {
            (*where, event.c_offset): event
            for where, events in self.log.items()
            for event in events
        }

    @cached_property
    def first_of(self) -> dict[tuple[str, int, int], int]:
        """The first offset of the unit that an offset (topic, partition, offset) belongs to."""
        return {
            (*where, event.c_offset): unit[0].c_offset
            for where, units in self.units.items()
            for unit in units
            for event in unit
        }

    @cached_property
    def asides_of(self) -> dict[tuple[At, int], list[Aside]]:
        """What became of each unit that was set aside, by its first offset."""
        found: dict[tuple[At, int], list[Aside]] = defaultdict(list)
        for at, asides in by_partition(self.asides).items():
            for aside in asides:
                found[at, aside.first_offset].append(aside)
        return dict(found)

    @cached_property
    def calls_of(self) -> dict[tuple[At, int], list[Call]]:
        """The calls of at-least-once handlers for each unit, by its first offset."""
        found: dict[tuple[At, int], list[Call]] = defaultdict(list)
        for at, calls in by_partition(self.calls).items():
            for call in calls:
                found[at, call.first_offset].append(call)
        return dict(found)

    @cached_property
    def handlings_of(self) -> dict[tuple[At, int], list[Handling]]:
        """When a handler began and ended each unit, by its first offset."""
        found: dict[tuple[At, int], list[Handling]] = defaultdict(list)
        for each in self.handlings:
            found[(each.group, each.topic, each.partition), each.first_offset].append(each)
        return dict(found)

    def was_skipped(self, at: At, first_offset: int) -> bool:
        """Tell whether the handler asked to go on as if it had handled a unit."""
        return any(each.how == "skip" for each in self.handlings_of.get((at, first_offset), ()))

    def parks(self, group: str) -> bool:
        """Tell whether a group keeps the order of a key behind a unit that failed."""
        if group in self.groups:
            return self.groups[group].on_failure == "park-key"
        return any(aside.group_id == group and aside.state == "parked" for aside in self.asides)

    @cached_property
    def effects_at(self) -> dict[At, list[Effect]]:
        """The effects of each partition in the order of their ids."""
        return by_partition(self.effects)

    @cached_property
    def batch_of(self) -> dict[tuple[At, str], Moved]:
        """The batch that a transaction (xid) moved a group's offset by, in a partition."""
        return {
            (at, move.xid): move
            for at, moves in self.moves.items()
            for move in moves
            if move.is_batch
        }

    @cached_property
    def settled(self) -> dict[tuple[At, int, str], list[Lettered]]:
        """What a transaction (xid) did to the dead letter of an event."""
        found: dict[tuple[At, int, str], list[Lettered]] = defaultdict(list)
        for at, changes in self.lettered.items():
            for change in changes:
                found[at, change.c_offset, change.xid].append(change)
        return dict(found)


def gather(conn: Connection[Any], records: Sequence[Record]) -> Facts:
    """Read all tables of a run that came to rest."""
    business = load(conn, Business)
    placed = load(conn, Placed)
    tags = {event.tag for event in placed}
    visible = {row.attempt for row in business}
    visible |= {each.attempt for each in _invokes(records) if tags & {e.tag for e in each.events}}
    attempts = resolve(conn, records, visible)
    log = {
        where: list(run)
        for where, run in groupby(placed, key=lambda each: (each.topic, each.partition_id))
    }
    clock_ns = _clock_ns(conn)
    return Facts(
        records=[record for record in records if not isinstance(record, Handling)],
        attempts=attempts,
        log=log,
        business=business,
        effects=ordered(records, load(conn, Effect)),
        moves=by_partition(ordered(records, load(conn, Moved))),
        leases=by_partition(ordered(records, load(conn, Leased))),
        lettered=by_partition(ordered(records, load(conn, Lettered))),
        letters=ordered(records, load(conn, Letter)),
        groups={each.group: each for each in select(records, Grouped)},
        handlings=select(records, Handling),
        asides=ordered(records, load(conn, Aside)),
        calls=ordered(records, load(conn, Call)),
        cursors=load(conn, Cursor),
        targets=ordered(records, load(conn, Target)),
        unsequenced=frozenset(_column(conn, _UNSEQUENCED)),
        moved_segments=conn.execute(_MOVED_SEGMENTS).fetchall(),
        idle_in_transaction=_column(conn, _IDLE_IN_TRANSACTION),
        queues=gather_queues(conn, records),
        later=gather_later(conn, records, attempts, log, clock_ns),
        clock_ns=clock_ns,
    )


def log_units(events: Sequence[Placed]) -> Iterator[list[Placed]]:
    """Cut a partition of the log into units, by the ends it has itself."""
    unit: list[Placed] = []
    for event in events:
        unit.append(event)
        if event.ends_unit:
            yield unit
            unit = []
    if unit:
        yield unit


def by_partition(rows: Iterable[Each]) -> dict[At, list[Each]]:
    """Return the rows of each partition, in the order in which they came."""
    found: dict[At, list[Each]] = defaultdict(list)
    for row in rows:
        found[row.group_id, row.topic, row.partition_id].append(row)
    return dict(found)


_UNSEQUENCED = """
select o.event_type from gapless.outbox_message_t o
where o.event_type is not null
  and o.id not in (select unnest(s.message_ids) from gapless.log_segment s)
"""
_MOVED_SEGMENTS = """
select t.name, m.partition_id, m.base_offset
from chaos.moved_segment m join gapless.topic t using (topic_id)
"""
_IDLE_IN_TRANSACTION = """
select application_name || ', for ' || (clock_timestamp() - xact_start)::text from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid() and application_name like 'gapless/%'
  and state like 'idle in transaction%' and xact_start < clock_timestamp() - interval '5 s'
"""
_CLOCK = "select extract(epoch from clock_timestamp())"


def _clock_ns(conn: Connection[Any]) -> float:
    """Return the server's clock less ours, by the fastest of some looks: one may take seconds."""
    looks = []
    for _ in range(5):
        began_ns = time.monotonic_ns()
        at_s = float(_column(conn, _CLOCK)[0])
        took_ns = time.monotonic_ns() - began_ns
        looks.append((took_ns, at_s * 1e9 - began_ns - took_ns / 2))
    return min(looks)[1]


def _column(conn: Connection[Any], statement: str) -> list[Any]:
    return [row[0] for row in conn.execute(statement.encode()).fetchall()]


def _invokes(records: Iterable[Record]) -> list[Any]:
    return [record for record in records if hasattr(record, "events")]
