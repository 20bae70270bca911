"""A backlog: events without offsets are sequenced and handled, with 8 workers."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from time import monotonic

from benchmarks import counters
from benchmarks.cost import Meter
from benchmarks.drain import Drained, drain_counters, drained_figures, new_group, noop_handler
from benchmarks.figure import Figure, Target, alternate
from benchmarks.fill import fill_outbox
from benchmarks.server import Setup
from benchmarks.supervised import supervised, wait_for
from gapless.db.connect import connect
from gapless.log.topics import ensure_topic

PARTITIONS = 8
BATCH = 1000
PAYLOAD_BYTES = 300
RIVAL = counters.NAME
BOUND = (
    "at best 0.35, with both cores always busy: 4.4 µs of CPU to give an event its offset, and 6.8 "
    "to handle it, to the rival's 3.9"
)


def run(setup: Setup) -> list[Figure]:
    """Drain copies of the same database, so that every round finds the same backlog."""
    events = setup.pick(4_000, 100_000, 200_000)
    with setup.database("drained") as dsn:
        with connect(dsn, role="bench") as conn:
            topic = ensure_topic(conn, "drained", partitions=PARTITIONS)
        counters.create(dsn, PARTITIONS)
        counters.fill(dsn, partitions=PARTITIONS, events=events, payload_bytes=PAYLOAD_BYTES)
        fill_outbox(
            dsn,
            topic.topic_id,
            events=events,
            payload_bytes=PAYLOAD_BYTES,
            events_a_commit=10,
            sequenced=False,
        )
        results = alternate(
            setup.pick(1, 2, 3),
            {
                RIVAL: partial(_drain_rival, setup, events),
                "ours": partial(_drain_ours, setup, events),
            },
        )
    what, least = f"{events} events without an offset", Target("ratio", at_least=0.45)
    rate, *costs = drained_figures(what, results["ours"], results[RIVAL], RIVAL, least)
    return [replace(rate, bound=BOUND), *costs]


def _drain_ours(setup: Setup, events: int) -> Drained:
    """Count everything, from the start of the supervisor to the last event's commit."""
    handler = noop_handler("drained", BATCH)
    with setup.database("drained_copy", template="drained") as dsn:
        meter, began_s = Meter(dsn), monotonic()
        with supervised(dsn, handler, total_partitions=PARTITIONS):
            wait_for(
                dsn,
                "progress",
                lambda done: done == events,
                group_id=handler.group,
            )
            took_s = monotonic() - began_s
            return Drained(events / took_s, meter.of(events))


def _drain_rival(setup: Setup, events: int) -> Drained:
    with setup.database("drained_copy", template="drained") as dsn:
        groups = [new_group("drained")]
        return drain_counters(dsn, groups, events=events, partitions=PARTITIONS, batch=BATCH)
