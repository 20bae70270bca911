"""Publishing: 16 clients, one 1 KB event a commit, against plain INSERT and the classic outbox."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import psycopg
from psycopg import Connection

from benchmarks.cpu import CpuMeter, cpu_figure
from benchmarks.figure import Figure, Target, alternate
from benchmarks.pgbench import transactions_per_s
from benchmarks.queries import baseline, query
from benchmarks.server import Setup
from benchmarks.supervised import supervised, wait_for
from gapless import handler
from gapless.consume.handler import Handler
from gapless.consume.unit import Unit
from gapless.db.connect import connect
from gapless.log.sequence import create_chunks, sequence
from gapless.log.topics import ensure_topic

CLIENTS = 16
PARTITIONS = 8
PAYLOAD_BYTES = 1000
SLOW_COMMIT_MS = 2.0

PLAIN = "plain INSERT, no trigger"
CLASSIC = "classic outbox: counter row, NOTIFY a statement"
HANDSHAKE = "handshake only, nobody sequences"
AWAKE = "sequencer running, consumers idle-awake"
CONSUMING = f"sequencer running, {PARTITIONS} workers consuming"


class _Rates(NamedTuple):
    """Events per second: published, and handled while they were published; CPU of all that takes.

    cpu_us: a published event, its offset and its handling included; None when it is not known.
    """

    published: float
    handled: float
    cpu_us: float | None


_Results = Mapping[str, tuple[_Rates, ...]]


@handler(topic="elsewhere", group="awake")
def idle(_unit: Unit, _conn: Connection[Any]) -> None:
    """Serve a topic nobody publishes to."""


@handler(topic="outbox", group="consuming", batch_size=1000)
def noop(_unit: Unit, _conn: Connection[Any]) -> None:
    """Consume and do nothing."""


def run(setup: Setup) -> list[Figure]:
    """Measure with the disk as it is, then with slow commits."""
    fast = _measure(setup, setup.commit_delay_ms, [PLAIN, HANDSHAKE, AWAKE, CONSUMING])
    slow = _measure(setup, SLOW_COMMIT_MS, [PLAIN, AWAKE, CONSUMING, CLASSIC])
    delayed = f", commit_delay {SLOW_COMMIT_MS:g} ms"
    return [
        _published(fast, HANDSHAKE, PLAIN),
        _published(fast, AWAKE, PLAIN, Target("ratio", at_least=0.75)),
        _published(fast, CONSUMING, PLAIN),
        _handled(fast),
        *_cpu(fast, AWAKE),
        *_cpu(fast, CONSUMING),
        _published(slow, AWAKE, PLAIN, condition=delayed),
        _published(slow, AWAKE, CLASSIC, Target("ratio", at_least=8), delayed),
        _published(slow, CONSUMING, CLASSIC, condition=delayed),
        _handled(slow, delayed),
    ]


def _published(
    results: _Results, ours: str, against: str, target: Target | None = None, condition: str = ""
) -> Figure:
    return Figure(
        what=f"publish{condition}: {ours}",
        unit="events/s",
        ours=tuple(rates.published for rates in results[ours]),
        baseline=tuple(rates.published for rates in results[against]),
        against=against,
        target=target,
    )


def _handled(results: _Results, condition: str = "") -> Figure:
    return Figure(
        what=f"publish{condition}: handled meanwhile",
        unit="events/s",
        ours=tuple(rates.handled for rates in results[CONSUMING]),
        baseline=tuple(rates.published for rates in results[CONSUMING]),
        against="published",
    )


def _cpu(results: _Results, ours: str) -> list[Figure]:
    """Return what an event costs from its publishing to its end."""
    return cpu_figure(
        f"publish: {ours}",
        (rates.cpu_us for rates in results[ours]),
        (rates.cpu_us for rates in results[PLAIN]),
        PLAIN,
    )


def _measure(setup: Setup, commit_delay_ms: float, names: list[str]) -> _Results:
    with setup.database("publish", commit_delay_ms=commit_delay_ms) as dsn:
        with psycopg.connect(dsn) as conn:
            conn.execute(baseline("plain"))
            conn.execute(baseline("classic"))
        with connect(dsn, role="bench") as conn:
            ensure_topic(conn, "outbox", partitions=PARTITIONS)
            create_chunks(conn)
        load = _Load(dsn, duration_s=3 if setup.quick else 10)
        runs = {
            PLAIN: partial(load.run, "plain"),
            CLASSIC: partial(load.run, "classic"),
            HANDSHAKE: partial(load.run, "gapless"),
            AWAKE: partial(load.run_supervised, idle),
            CONSUMING: partial(load.run_supervised, noop),
        }
        return alternate(setup.rounds, {name: runs[name] for name in names})


class _Load:
    """The same load in all kinds of company."""

    def __init__(self, dsn: str, duration_s: int) -> None:
        self._dsn = dsn
        self._duration_s = duration_s

    def run(self, script: str) -> _Rates:
        """Publish while nobody reads; give the offsets afterwards, for the next run's sake."""
        meter = CpuMeter(self._dsn)
        published = self._publish(script)
        cpu_us = meter.used_us(published * self._duration_s)
        _catch_up(self._dsn)
        return _Rates(published, 0.0, cpu_us)

    def run_supervised(self, served: Handler) -> _Rates:
        """Publish beside a supervisor; wait until everything is handled that is to be handled."""
        with supervised(self._dsn, served, total_partitions=PARTITIONS):
            self._wait_for_rest(served)
            meter = CpuMeter(self._dsn)
            before = self._progress(served)
            published = self._publish("gapless")
            handled = (self._progress(served) - before) / self._duration_s
            self._wait_for_rest(served)
            cpu_us = meter.used_us(published * self._duration_s)
        return _Rates(published, handled, cpu_us)

    def _wait_for_rest(self, served: Handler) -> None:
        wait_for(self._dsn, "asleep", bool)
        wait_for(self._dsn, "lag", lambda lag: lag == 0, group_id=served.group)

    def _publish(self, script: str) -> float:
        return transactions_per_s(
            self._dsn,
            script,
            clients=CLIENTS,
            duration_s=self._duration_s,
            payload_bytes=PAYLOAD_BYTES,
        )

    def _progress(self, served: Handler) -> int:
        with psycopg.connect(self._dsn) as conn:
            row = conn.execute(query("progress"), {"group_id": served.group}).fetchone()
        assert row is not None
        return int(row[0])


def _catch_up(dsn: str) -> None:
    with connect(dsn, role="bench") as conn:
        while sequence(conn):
            pass
