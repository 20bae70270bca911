"""One hot partition: 16 clients publish with the same key, one worker handles all events."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import NamedTuple

import psycopg

from benchmarks import counters
from benchmarks.cost import Cost, Meter, cost_figures
from benchmarks.crew import crew
from benchmarks.drain import noop
from benchmarks.figure import Figure, alternate, compared
from benchmarks.pgbench import transactions_per_s
from benchmarks.queries import query
from benchmarks.server import Setup
from benchmarks.supervised import supervised, wait_for
from gapless import handler
from gapless.db.connect import connect
from gapless.log.sequence import create_chunks

CLIENTS = 16
PARTITIONS = 8
PAYLOAD_BYTES = 300
GROUP = "hot"
RIVAL = counters.NAME

handled = handler(topic="outbox", group=GROUP, batch_size=1000)(noop)


class _Hot(NamedTuple):
    """Events per second published, and handled during that time; the cost of an event."""

    published: float
    handled: float
    cost: Cost


def run(setup: Setup) -> list[Figure]:
    """Publish into one partition while it is read, with ours and with the rival."""
    duration_s = setup.pick(1, 2, 2)
    with setup.database("hot") as dsn:
        counters.create(dsn, PARTITIONS)
        with connect(dsn, role="bench") as conn:
            create_chunks(conn)
        with psycopg.connect(dsn) as conn:
            conn.execute(query("counters_join"), {"groups": [GROUP]})
        results = alternate(
            setup.pick(1, 2, 3),
            {RIVAL: partial(_rival, dsn, duration_s), "ours": partial(_ours, dsn, duration_s)},
        )

    def figure(what: str, value: Callable[[_Hot], float]) -> Figure:
        what = f"one key, {CLIENTS} clients, batch 1: {what}"
        return compared(what, "events/s", value, (results["ours"], results[RIVAL], RIVAL))

    ours, rival = ([each.cost for each in results[name]] for name in ("ours", RIVAL))
    costs = cost_figures(f"one key, {CLIENTS} clients, batch 1", ours, rival, RIVAL)
    return [
        figure("published", attrgetter("published")),
        figure("handled meanwhile", attrgetter("handled")),
        *costs,
    ]


def _ours(dsn: str, duration_s: int) -> _Hot:
    with supervised(dsn, handled, total_partitions=PARTITIONS):
        hot = _measure(dsn, duration_s, "hot", (), "progress_of_groups")
        wait_for(dsn, "asleep", bool)
        wait_for(dsn, "lag", lambda lag: lag == 0, group_id=GROUP)
    return hot


def _rival(dsn: str, duration_s: int) -> _Hot:
    with crew([counters.poller(dsn, GROUP, 0, 1000)]) as pollers:
        hot = _measure(dsn, duration_s, "counters", (0,), "counters_progress")
        pollers.stop()
    return hot


def _measure(
    dsn: str, duration_s: int, script: str, partitions: tuple[int, ...], progress: str
) -> _Hot:
    def handled_so_far() -> int:
        with psycopg.connect(dsn) as conn:
            row = conn.execute(query(progress), {"groups": [GROUP]}).fetchone()
        assert row is not None
        return int(row[0])

    meter, before = Meter(dsn), handled_so_far()
    published = transactions_per_s(
        dsn,
        script,
        clients=CLIENTS,
        duration_s=duration_s,
        payload_bytes=PAYLOAD_BYTES,
        partitions=partitions,
    )
    done = (handled_so_far() - before) / duration_s
    return _Hot(published, done, meter.of(published * duration_s))
