"""Idle: what a supervisor with 8 partitions costs the server while nobody publishes."""

from __future__ import annotations

from functools import partial
from time import sleep
from typing import Any, NamedTuple

import psycopg

from benchmarks.figure import Figure, Target, alternate
from benchmarks.queries import query
from benchmarks.server import Setup
from benchmarks.supervised import supervised
from gapless import handler

PARTITIONS = 8
SETTLE_S = 3.0


class _Activity(NamedTuple):
    xids: int
    wal_bytes: int
    queries: int
    beats: int


@handler(topic="outbox", group="idle")
def noop(unit: Any, conn: Any) -> None:
    """Never called: there are no events."""


def run(setup: Setup) -> list[Figure]:
    """Watch the server's counters, with the supervisor and without."""
    duration_s = 15 if setup.quick else 60
    rounds = 1 if setup.quick else 2
    with setup.database("idle") as dsn:
        results = alternate(
            rounds,
            {
                "nobody": partial(_watch, dsn, duration_s),
                "ours": partial(_watch_supervised, dsn, duration_s),
            },
        )
    ours, nobody = results["ours"], results["nobody"]

    def figure(what: str, unit: str, column: str, target: Target | None = None) -> Figure:
        return Figure(
            what=f"idle, {PARTITIONS} partitions: {what}",
            unit=unit,
            ours=tuple(getattr(each, column) / (duration_s if unit == "/s" else 1) for each in ours),
            baseline=tuple(
                getattr(each, column) / (duration_s if unit == "/s" else 1) for each in nobody
            ),
            against="nobody connected",
            target=target,
        )

    beside_beats = Figure(
        what=f"idle, {PARTITIONS} partitions: xids beside heartbeats",
        unit=f"in {duration_s} s",
        ours=tuple(float(each.xids - each.beats) for each in ours),
        baseline=tuple(float(each.xids) for each in nobody),
        against="nobody connected",
        target=Target(of="value", at_most=2),
    )
    return [
        beside_beats,
        figure("heartbeats", f"in {duration_s} s", "beats"),
        figure("WAL", f"bytes in {duration_s} s", "wal_bytes"),
        figure("transactions, reads included", "/s", "queries"),
    ]


def _watch_supervised(dsn: str, duration_s: float) -> _Activity:
    with supervised(dsn, noop, total_partitions=PARTITIONS):
        sleep(SETTLE_S)
        return _watch(dsn, duration_s)


def _watch(dsn: str, duration_s: float) -> _Activity:
    before = _activity(dsn)
    sleep(duration_s)
    after = _activity(dsn)
    return _Activity(*(b - a for a, b in zip(before, after, strict=True)))


def _activity(dsn: str) -> _Activity:
    with psycopg.connect(dsn, autocommit=True) as conn:
        row = conn.execute(query("activity")).fetchone()
    assert row is not None
    return _Activity(*row)
