"""Publishing: 16 clients, one 1 KB event a commit, against plain INSERT and the classic outbox."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import psycopg
from psycopg import Connection

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
    """Events per second: published, and handled while they were published."""

    published: float
    handled: float = 0.0


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


def _measure(setup: Setup, commit_delay_ms: float, names: list[str]) -> _Results:
    with setup.database("publish", commit_delay_ms=commit_delay_ms) as dsn:
        with psycopg.connect(dsn) as conn:
            conn.execute(baseline("plain"))
            conn.execute(baseline("classic"))
        with connect(dsn, role="bench") as conn:
            ensure_topic(conn, "outbox", partitions=PARTITIONS)
            create_chunks(conn)
        duration_s = 3 if setup.quick else 10
        pgbench = partial(
            transactions_per_s,
            dsn,
            clients=CLIENTS,
            duration_s=duration_s,
            payload_bytes=PAYLOAD_BYTES,
        )
        runs: dict[str, Callable[[], _Rates]] = {
            PLAIN: lambda: _Rates(pgbench("plain")),
            CLASSIC: lambda: _Rates(pgbench("classic")),
            HANDSHAKE: partial(_publish_unread, dsn, pgbench),
            AWAKE: partial(_publish_supervised, dsn, pgbench, duration_s, idle),
            CONSUMING: partial(_publish_supervised, dsn, pgbench, duration_s, noop),
        }
        return alternate(setup.rounds, {name: runs[name] for name in names})


def _publish_unread(dsn: str, pgbench: Callable[[str], float]) -> _Rates:
    """Publish while nobody holds the wake lock: what the handshake alone costs a producer."""
    published = pgbench("gapless")
    _catch_up(dsn)
    return _Rates(published)


def _publish_supervised(
    dsn: str, pgbench: Callable[[str], float], duration_s: int, served: Handler
) -> _Rates:
    """Publish beside a supervisor, and leave nothing to do for the next run."""
    with supervised(dsn, served, total_partitions=PARTITIONS):
        before = _progress(dsn, served)
        published = pgbench("gapless")
        handled = (_progress(dsn, served) - before) / duration_s
        wait_for(dsn, "lag", lambda lag: lag == 0, group_id=served.group)
    _catch_up(dsn)
    return _Rates(published, handled)


def _progress(dsn: str, served: Handler) -> int:
    with psycopg.connect(dsn) as conn:
        row = conn.execute(query("progress"), {"group_id": served.group}).fetchone()
    assert row is not None
    return int(row[0])


def _catch_up(dsn: str) -> None:
    with connect(dsn, role="bench") as conn:
        while sequence(conn):
            pass
