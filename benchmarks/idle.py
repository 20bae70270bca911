"""Idle: what a supervisor with 8 partitions costs the server while nobody publishes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import sleep
from typing import Any, NamedTuple

import psycopg
from psycopg import Connection

from benchmarks.figure import Figure, Target, alternate
from benchmarks.queries import query
from benchmarks.server import Setup
from benchmarks.supervised import supervised
from gapless import handler
from gapless.consume.unit import Unit

PARTITIONS = 8
SETTLE_S = 3.0
NOBODY = "nobody connected"


class _Activity(NamedTuple):
    xids: int
    wal_bytes: int
    transactions: int
    beats: int


@handler(topic="outbox", group="idle")
def noop(_unit: Unit, _conn: Connection[Any]) -> None:
    """Never called: there are no events."""


def run(setup: Setup) -> list[Figure]:
    """Watch the server's counters, with the supervisor and without."""
    duration_s = 15 if setup.quick else 60
    with setup.database("idle") as dsn:
        _watch_supervised(dsn, 0)  # what a new database does once, it does now
        results = alternate(
            1 if setup.quick else 2,
            {
                NOBODY: partial(_watch, dsn, duration_s),
                "ours": partial(_watch_supervised, dsn, duration_s),
            },
        )

    def figure(
        what: str, unit: str, value: Callable[[_Activity], float], target: Target | None = None
    ) -> Figure:
        return Figure(
            what=f"idle, {PARTITIONS} partitions: {what}",
            unit=unit,
            ours=tuple(value(each) for each in results["ours"]),
            baseline=tuple(value(each) for each in results[NOBODY]),
            against=NOBODY,
            target=target,
        )

    whole = f"in {duration_s} s"
    return [
        figure(
            "xids beside heartbeats", whole, lambda a: a.xids - a.beats, Target("value", at_most=2)
        ),
        figure("heartbeats", whole, lambda a: a.beats),
        figure("WAL bytes", whole, lambda a: a.wal_bytes),
        figure("transactions, reading ones too", "/s", lambda a: a.transactions / duration_s),
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
