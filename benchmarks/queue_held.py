"""A queue during an unrelated held snapshot: whether an event costs more and more.

Two workers work on each kind at the same rate; they are late only when they cannot keep up.
"""

from __future__ import annotations

from functools import partial
from time import monotonic, sleep
from typing import Any

import multiprocess
import psycopg
from psycopg import IsolationLevel

from benchmarks.chart import Chart, Panel, Points
from benchmarks.cpu import CpuMeter
from benchmarks.crew import Cue, crew
from benchmarks.figure import Figure, Target
from benchmarks.fill import fill_outbox
from benchmarks.queries import query
from benchmarks.queue_ways import DELETED, OURS, PAYLOAD_BYTES, Ours, ways
from benchmarks.server import Setup
from gapless.db.connect import connect
from gapless.log.topics import ensure_topic

WORKERS = 2
BATCH = 10
PER_S = 2_000
PARTS = 10
START = "its own start"
KINDS = (DELETED, OURS)

_shared = multiprocess.get_context("fork")


def run(setup: Setup) -> list[Figure]:
    """Hold a snapshot beside each kind in turn; compare the last tenth with the second."""
    held_s = 60 * (setup.minutes or setup.pick(0.02, 1 / 6, 1 / 6))
    curves: dict[str, Points] = {}
    for name in KINDS:
        with setup.database("queue_held") as dsn:
            with connect(dsn, role="bench") as conn:
                topic = ensure_topic(conn, "queue", partitions=1)
            way = ways("queue")[name]
            events = int(held_s * PER_S * 1.2)
            if name == OURS:
                fill_outbox(dsn, topic.topic_id, events=events, payload_bytes=PAYLOAD_BYTES)
            way.fill(dsn, events)
            if isinstance(way, Ours):
                way.join(dsn, BATCH)
            curves[name] = _curve(dsn, way, held_s)
    panel = Panel(title=f"server CPU of an event, µs, {PER_S} a second", series=curves)
    setup.charts.append(Chart(name="queue-held", x_label="s with a held snapshot", panels=[panel]))
    return [_figure(name, curve, held_s) for name, curve in curves.items() if curve]


def _figure(name: str, curve: Points, held_s: float) -> Figure:
    return Figure(
        what=f"{name}, batch {BATCH}, a snapshot held for {held_s:g} s: the last tenth",
        unit="µs server CPU/event",
        ours=(curve[-1][1],),
        baseline=(curve[1][1],),
        against=START,
        target=Target("ratio", at_most=1.2) if name == OURS else None,
    )


def _curve(dsn: str, way: Any, held_s: float) -> list[tuple[float, float]]:
    """Return (seconds, µs of the server's CPU for an event) of each tenth."""
    counts = _shared.RawArray("q", WORKERS)
    jobs = [partial(_paced, dsn, way, counts, number) for number in range(WORKERS)]
    curve = []
    with psycopg.connect(dsn) as holder:
        holder.isolation_level = IsolationLevel.REPEATABLE_READ
        holder.execute(query("hold_snapshot"))
        with crew(jobs) as workers:
            began_s = monotonic()
            for part in range(PARTS):
                before, meter = sum(counts), CpuMeter(dsn)
                sleep(max(0.0, began_s + (part + 1) * held_s / PARTS - monotonic()))
                used_s, done = meter.used_s()[0], sum(counts) - before
                curve.append((monotonic() - began_s, used_s * 1e6 / max(1, done)))
            workers.stop()
    return curve


def _paced(dsn: str, way: Any, counts: Any, number: int, cue: Cue) -> int:
    """Take a batch whenever one is due."""
    with way.working(dsn, BATCH, is_decoded=False) as side:
        cue.begin()
        began_s = monotonic()
        while cue.going() and (events := side.turn()):
            counts[number] += events
            cue.rest(max(0.0, began_s + counts[number] * WORKERS / PER_S - monotonic()))
    return int(counts[number])
