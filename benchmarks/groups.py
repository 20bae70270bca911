"""Five groups read the same four partitions, against a counter a partition with polling readers.

The rival's load is the one it published: 10 writers of 100 events a batch, readers of 200 a batch,
1 KB each. It has no handler, no units and no leases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter
from time import monotonic, sleep
from typing import Any, NamedTuple

import psycopg

import gapless
from benchmarks import counters
from benchmarks.cost import Cost, cost_figures
from benchmarks.crew import Job, crew
from benchmarks.drain import (
    Drained,
    drain,
    drain_counters,
    drained_figures,
    new_group,
    noop_handler,
)
from benchmarks.figure import Figure, Target, alternate, compared
from benchmarks.fill import fill_outbox, sequence_all
from benchmarks.queries import query
from benchmarks.server import Setup
from benchmarks.supervised import FORMS, few_workers, supervised, wait_for
from benchmarks.writers import PAYLOAD_BYTES, WRITE_BATCH, write_ours, write_rival
from gapless.db.connect import connect
from gapless.log.sequence import create_chunks
from gapless.log.topics import ensure_topic

PARTITIONS = 4
GROUPS = 5
WRITERS = 10
READ_BATCH = 200

RIVAL = counters.NAME
WELL = counters.WELL
EACH = "a worker a partition"
SHARED = "a worker a group"
REST_MS = 10
LIVE_RIVALS = {
    RIVAL: counters.poller,
    counters.polled(REST_MS): partial(counters.good_poller, rest_s=REST_MS / 1000),
}
BOUND = (
    "at best 0.94 to 1: offsets are given after the commit, and workers share cores with writers"
)
BOUND_EACH = (
    f"at best what auto has: {PARTITIONS * GROUPS} workers share the cores with the writers"
)


class _Live(NamedTuple):
    """Events per second written, and read by all groups together in that time.

    through: written ones per second until every group has read them all, with the cost of each.
    """

    written: float
    read: float
    through: float
    cost: Cost


def run(setup: Setup) -> list[Figure]:
    """Read a full log, then one that is being written."""
    return [*_drained(setup), *_live(setup)]


def _drained(setup: Setup) -> list[Figure]:
    events, groups = setup.pick(2_000, 20_000, 50_000), setup.pick(1, GROUPS, GROUPS)
    with setup.database("groups") as dsn, connect(dsn, role="bench") as conn:
        topic = ensure_topic(conn, "groups", partitions=PARTITIONS)
        fill_outbox(
            dsn,
            topic.topic_id,
            events=events,
            payload_bytes=PAYLOAD_BYTES,
            events_a_commit=WRITE_BATCH,
        )
        counters.create(dsn, PARTITIONS)
        counters.fill(dsn, partitions=PARTITIONS, events=events, payload_bytes=PAYLOAD_BYTES)
        results = alternate(
            setup.rounds,
            {
                RIVAL: partial(_drain_rival, dsn, groups, groups * events, counters.poller),
                WELL: partial(_drain_rival, dsn, groups, groups * events, counters.good_poller),
                EACH: partial(_drain_ours, dsn, groups, groups * events, 1),
                SHARED: partial(_drain_ours, dsn, groups, groups * events, PARTITIONS),
            },
        )
    what = f"{groups} groups, {PARTITIONS} partitions, a full log: "
    return [
        each
        for name in (EACH, SHARED)
        for each in _drained_figures(what + name, results[name], results)
    ]


def _drained_figures(
    what: str, ours: Sequence[Drained], results: Mapping[str, Sequence[Drained]]
) -> Iterator[Figure]:
    at_least = Target("ratio", at_least=1)
    for against in (RIVAL, WELL):
        yield from drained_figures(what, ours, results[against], against, at_least)


def _drain_ours(dsn: str, groups: int, events: int, partitions_per_worker: int) -> Drained:
    handlers = [noop_handler("groups", READ_BATCH) for _ in range(groups)]
    return drain(
        dsn,
        handlers,
        events=events,
        partitions=PARTITIONS,
        partitions_per_worker=partitions_per_worker,
    )


def _drain_rival(dsn: str, groups: int, events: int, poller: Callable[..., Job]) -> Drained:
    names = [new_group("rival") for _ in range(groups)]
    return drain_counters(
        dsn, names, events=events, partitions=PARTITIONS, batch=READ_BATCH, poller=poller
    )


def _live(setup: Setup) -> list[Figure]:
    duration_s = setup.pick(0.5, 2, 3)
    writers, groups = setup.pick(2, WRITERS, WRITERS), setup.pick(1, GROUPS, GROUPS)
    with setup.database("groups") as dsn, connect(dsn, role="bench") as conn:
        ensure_topic(conn, "live", partitions=PARTITIONS)
        create_chunks(conn)
        counters.create(dsn, PARTITIONS)
        results = alternate(
            setup.rounds,
            {
                **{
                    name: partial(_live_rival, dsn, writers, groups, duration_s, poller)
                    for name, poller in LIVE_RIVALS.items()
                },
                **{
                    form: partial(
                        _live_ours,
                        dsn,
                        writers,
                        groups,
                        duration_s,
                        few_workers(auto=auto),
                    )
                    for form, auto in FORMS.items()
                },
            },
        )
    return [
        each
        for form in FORMS
        for against in LIVE_RIVALS
        for each in _live_figures(f"{writers} writers, {groups} groups", results, form, against)
    ]


def _live_figures(
    what: str, results: Mapping[str, Sequence[_Live]], form: str, against: str
) -> Iterator[Figure]:
    ours, theirs = results[form], results[against]
    what, through = f"{what}{form.removeprefix('ours')}: ", "until all have read all"
    for name, value, least in (
        ("written", attrgetter("written"), 0.9),
        ("read, all groups together", attrgetter("read"), 0.9),
        (through, attrgetter("through"), 1.0),
    ):
        target = Target("ratio", at_least=least) if FORMS[form] else None
        bound = BOUND if FORMS[form] else BOUND_EACH
        yield compared(what + name, "events/s", value, (ours, theirs, against), target, bound)
    costs = [x.cost for x in ours], [x.cost for x in theirs]
    yield from cost_figures(what + through, *costs, against)[:1]


def _live_ours(
    dsn: str, writers: int, groups: int, duration_s: float, settings: Mapping[str, Any]
) -> _Live:
    sequence_all(dsn)
    handlers = [_latest(noop_handler("live", READ_BATCH)) for _ in range(groups)]
    with supervised(dsn, *handlers, total_partitions=PARTITIONS, **settings):
        names = [handler.group or "" for handler in handlers]
        jobs: list[Job] = [partial(write_ours, dsn)] * writers
        return _measure(dsn, duration_s, jobs, names, "progress_of_groups")


def _latest(handler: gapless.Handler) -> gapless.Handler:
    """Return the handler with a group that begins at the present end of the log."""
    decorate = gapless.handler(
        topic=handler.topic, group=handler.group, batch_size=handler.batch_size, start="latest"
    )
    return decorate(handler.function)


def _live_rival(
    dsn: str, writers: int, groups: int, duration_s: float, poller: Callable[..., Job]
) -> _Live:
    names = [new_group("live") for _ in range(groups)]
    with psycopg.connect(dsn) as conn:
        conn.execute(query("counters_join"), {"groups": names})
        conn.execute(query("counters_skip"), {"groups": names})
    pollers = [
        poller(dsn, name, partition_id, READ_BATCH)
        for name in names
        for partition_id in range(PARTITIONS)
    ]
    with crew(pollers) as reading:
        jobs: list[Job] = [
            partial(write_rival, dsn, PARTITIONS, number) for number in range(writers)
        ]
        live = _measure(dsn, duration_s, jobs, names, "counters_progress")
        reading.stop()
    return live


def _measure(
    dsn: str, duration_s: float, writers: Sequence[Job], groups: list[str], progress: str
) -> _Live:
    """Write for duration_s, count the events read meanwhile, and wait until all are read."""

    def read() -> int:
        with psycopg.connect(dsn) as conn:
            row = conn.execute(query(progress), {"groups": groups}).fetchone()
        assert row is not None
        return int(row[0])

    before = read()
    with crew(writers, metered_dsn=dsn) as writing:
        began_s = monotonic()
        sleep(duration_s)
        writing.stop()
        handled = read() - before
    goal = before + writing.done * len(groups)
    wait_for(dsn, progress, lambda so_far: so_far >= goal, groups=groups)
    through_s = monotonic() - began_s
    assert writing.meter is not None
    return _Live(
        writing.done / writing.took_s,
        handled / writing.took_s,
        writing.done / through_s,
        writing.meter.of(max(writing.done, 1)),
    )
