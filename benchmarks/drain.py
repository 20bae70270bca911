"""The rate at which a log is read to its end, counted from the first visible progress."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from operator import attrgetter
from time import monotonic, sleep
from typing import Any, NamedTuple

import psycopg
from psycopg import Connection

import gapless
from benchmarks import counters
from benchmarks.cost import Cost, Meter, cost_figures
from benchmarks.crew import PATIENCE_S, Job, crew
from benchmarks.figure import Figure, Target, compared
from benchmarks.queries import query
from benchmarks.supervised import supervised
from gapless.consume.unit import Unit
from gapless.consume.user.handler import Handler

LOOK_EVERY_S = 0.02  # a look takes as much CPU as handling 100 events

_group_numbers = count(1)


class Drained(NamedTuple):
    """Events per second, all groups together, and the cost of an event."""

    per_s: float
    cost: Cost


def drained_figures(
    what: str,
    ours: Sequence[Drained],
    theirs: Sequence[Drained],
    against: str,
    target: Target | None = None,
) -> list[Figure]:
    """Return rate, CPU and WAL of an event as figures."""
    rate = compared(what, "events/s", attrgetter("per_s"), (ours, theirs, against), target)
    costs = cost_figures(what, [x.cost for x in ours], [x.cost for x in theirs], against)
    return [rate, *costs]


def noop(_unit: Unit, _conn: Connection[Any]) -> None:
    """Handle an event without doing anything."""


def decoding(unit: Unit, _conn: Connection[Any]) -> None:
    """Handle events by decoding their payloads."""
    for event in unit:
        event.payload  # noqa: B018 - reading it decodes it


def new_group(prefix: str) -> str:
    """Return the name of a group that has read no event yet."""
    return f"{prefix}-{next(_group_numbers)}"


def noop_handler(topic: str, batch_size: int) -> Handler:
    """Return a handler that does nothing, for a group of its own."""
    return gapless.handler(topic=topic, group=new_group("drain"), batch_size=batch_size)(noop)


def drain(
    dsn: str,
    handlers: Sequence[Handler],
    *,
    events: int,
    partitions: int,
    partitions_per_worker: int = 1,
) -> Drained:
    """Let a supervisor handle `events` events, summed over the groups of its handlers."""
    groups = [handler.group or "" for handler in handlers]
    began_s = monotonic()
    settings = {
        "total_partitions": partitions,
        "partitions_per_worker": partitions_per_worker,
    }
    with supervised(dsn, *handlers, **settings):
        return watch(dsn, "progress_of_groups", groups, events, began_s)


def drain_counters(
    dsn: str,
    groups: Sequence[str],
    *,
    events: int,
    partitions: int,
    batch: int,
    poller: Callable[..., Job] = counters.poller,
) -> Drained:
    """Let one poller for each group and partition read `events` events, summed over the groups."""
    counters.join(dsn, groups)
    began_s = monotonic()
    jobs = [
        poller(dsn, group, partition_id, batch)
        for group in groups
        for partition_id in range(partitions)
    ]
    with crew(jobs) as pollers:
        drained = watch(dsn, "counters_progress", groups, events, began_s)
        pollers.stop()
    return drained


def watch(dsn: str, name: str, groups: Sequence[str], events: int, began_s: float) -> Drained:
    """Watch a progress until it is `events`; return the rate since it was first above 0.

    began_s: the time of the start, in case all is done at the first look.
    """
    give_up_s = monotonic() + PATIENCE_S
    with psycopg.connect(dsn, autocommit=True) as conn:

        def progress() -> int:
            row = conn.execute(query(name), {"groups": list(groups)}).fetchone()
            assert row is not None
            if monotonic() > give_up_s:
                raise TimeoutError(f"{row[0]} of {events} events after {PATIENCE_S:g} s")
            return int(row[0])

        while not (first := progress()):
            sleep(LOOK_EVERY_S)
        first_s, meter = monotonic(), Meter(dsn)
        if first >= events:
            return Drained(events / (first_s - began_s), Cost(None, 0))
        while progress() < events:
            sleep(LOOK_EVERY_S)
        rest = events - first
        return Drained(rest / (monotonic() - first_s), meter.of(rest))
