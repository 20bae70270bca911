"""Idle: what 8 partitions cost while nobody publishes, against 8 busy pollers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from time import sleep
from typing import NamedTuple

import psycopg

from benchmarks import counters
from benchmarks.cpu import CpuMeter
from benchmarks.crew import crew
from benchmarks.drain import noop
from benchmarks.figure import Figure, Target, alternate
from benchmarks.queries import query
from benchmarks.server import Setup
from benchmarks.supervised import supervised
from gapless import handler

PARTITIONS = 8
NOBODY = "nobody connected"
POLLING = "counters, busy polling"

idle = handler(topic="outbox", group="idle")(noop)


class _Counts(NamedTuple):
    xids: int
    wal_bytes: int
    transactions: int
    beats: int


class _Activity(NamedTuple):
    """What happened meanwhile. cpu_percent: of one core, server and clients."""

    counts: _Counts
    cpu_percent: float | None


def run(setup: Setup) -> list[Figure]:
    """Watch the server's counters, with nobody, with the rival, and with the supervisor.

    Autovacuum, which takes up to twenty xids a minute for nobody's sake, is off meanwhile, unless
    the server is somebody's.
    """
    duration_s = setup.pick(1, 5, 60)
    settle_s = setup.pick(0.1, 2, 3)
    with setup.database("idle") as dsn, _vacuumed_by_nobody(setup):
        counters.create(dsn, PARTITIONS)
        _watch_supervised(dsn, 0, settle_s)  # what a new database does once, it does now
        results = alternate(
            setup.pick(1, 1, 2),
            {
                NOBODY: partial(_watch, dsn, duration_s),
                POLLING: partial(_watch_polled, dsn, duration_s),
                "ours": partial(_watch_supervised, dsn, duration_s, settle_s),
            },
        )

    def figure(
        what: str,
        unit: str,
        value: Callable[[_Activity], float | None],
        against: str = NOBODY,
        target: Target | None = None,
    ) -> Figure:
        ours, rival = (
            tuple(found for each in results[name] if (found := value(each)) is not None)
            for name in ("ours", against)
        )
        return Figure(
            what=f"{PARTITIONS} partitions: {what}",
            unit=unit,
            ours=ours,
            baseline=rival,
            against=against,
            target=target,
        )

    whole = f"in {duration_s} s"
    silent = Target("value", at_most=2)
    tenth = Target("ratio", at_most=0.1)
    return [
        figure("xids but heartbeats", whole, lambda a: _xids(a.counts), NOBODY, silent),
        figure("heartbeats", whole, lambda a: a.counts.beats),
        figure("WAL", f"bytes {whole}", lambda a: a.counts.wal_bytes),
        figure("WAL", f"bytes {whole}", lambda a: a.counts.wal_bytes, POLLING, tenth),
        figure("transactions", "/s", lambda a: a.counts.transactions / duration_s),
        figure("CPU", "% of a core", lambda a: a.cpu_percent),
        figure("CPU", "% of a core", lambda a: a.cpu_percent, POLLING, tenth),
    ]


@contextmanager
def _vacuumed_by_nobody(setup: Setup) -> Iterator[None]:
    if not setup.is_own:
        yield
        return
    with psycopg.connect(setup.dsn, autocommit=True) as conn:
        conn.execute(query("autovacuum_off"))
        conn.execute(query("reload"))
        try:
            yield
        finally:
            conn.execute(query("autovacuum_reset"))
            conn.execute(query("reload"))


def _xids(counts: _Counts) -> int:
    return counts.xids - counts.beats


def _watch_supervised(dsn: str, duration_s: float, settle_s: float) -> _Activity:
    with supervised(dsn, idle, total_partitions=PARTITIONS):
        sleep(settle_s)
        return _watch(dsn, duration_s)


def _watch_polled(dsn: str, duration_s: float) -> _Activity:
    with psycopg.connect(dsn) as conn:
        conn.execute(query("counters_join"), {"groups": ["idle"]})
    with crew([counters.poller(dsn, "idle", n, 100) for n in range(PARTITIONS)]) as pollers:
        activity = _watch(dsn, duration_s)
        pollers.stop()
    return activity


def _watch(dsn: str, duration_s: float) -> _Activity:
    before, meter = _counts(dsn), CpuMeter(dsn)
    sleep(duration_s)
    cpu_us = meter.used_us(max(duration_s, 1e-3))
    counts = _Counts(*(b - a for a, b in zip(before, _counts(dsn), strict=True)))
    return _Activity(counts, None if cpu_us is None else cpu_us / 1e4)


def _counts(dsn: str) -> _Counts:
    with psycopg.connect(dsn, autocommit=True) as conn:
        row = conn.execute(query("activity")).fetchone()
    assert row is not None
    return _Counts(*row)
