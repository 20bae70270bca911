"""Publishing: 16 clients, one 1 KB event a commit, against a plain INSERT and the classic outbox."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import psycopg

from benchmarks.figure import Figure, Target, alternate
from benchmarks.pgbench import transactions_per_s
from benchmarks.queries import baseline
from benchmarks.server import Setup
from benchmarks.supervised import supervised, wait_for
from gapless import handler
from gapless.db.connect import connect
from gapless.log.sequence import create_chunks, sequence

CLIENTS = 16
PAYLOAD_BYTES = 1000
SLOW_COMMIT_MS = 2.0

PLAIN = "plain INSERT, no trigger"
CLASSIC = "classic outbox: counter row, NOTIFY a statement"
HANDSHAKE = "handshake only, nobody sequences"
AWAKE = "sequencer running, consumers idle-awake"
CONSUMING = "sequencer running, 8 workers consuming"


@handler(topic="elsewhere", group="awake")
def idle(unit: Any, conn: Any) -> None:
    """Serve a topic nobody publishes to."""


@handler(topic="outbox", group="consuming", batch_size=1000)
def noop(unit: Any, conn: Any) -> None:
    """Consume and do nothing."""


def run(setup: Setup) -> list[Figure]:
    """Measure with the disk as it is, then with slow commits."""
    fast = _measure(setup, setup.commit_delay_ms, [PLAIN, HANDSHAKE, AWAKE, CONSUMING])
    slow = _measure(setup, SLOW_COMMIT_MS, [PLAIN, AWAKE, CONSUMING, CLASSIC])
    at_slow = f"commit_delay {SLOW_COMMIT_MS:g} ms"
    return [
        _figure(fast, HANDSHAKE, PLAIN),
        _figure(fast, AWAKE, PLAIN, Target(of="ratio", at_least=0.75)),
        _figure(fast, CONSUMING, PLAIN),
        _figure(slow, AWAKE, PLAIN, None, at_slow),
        _figure(slow, AWAKE, CLASSIC, Target(of="ratio", at_least=8), at_slow),
        _figure(slow, CONSUMING, CLASSIC, None, at_slow),
    ]


def _figure(
    results: dict[str, tuple[float, ...]],
    ours: str,
    against: str,
    target: Target | None = None,
    condition: str = "",
) -> Figure:
    return Figure(
        what=f"publish{f', {condition}' if condition else ''}: {ours}",
        unit="events/s",
        ours=results[ours],
        baseline=results[against],
        against=against,
        target=target,
    )


def _measure(
    setup: Setup, commit_delay_ms: float, names: list[str]
) -> dict[str, tuple[float, ...]]:
    with setup.database("publish", commit_delay_ms=commit_delay_ms) as dsn:
        with psycopg.connect(dsn) as conn:
            conn.execute(baseline("plain"))
            conn.execute(baseline("classic"))
        pgbench = partial(
            transactions_per_s,
            dsn,
            clients=CLIENTS,
            duration_s=3 if setup.quick else 10,
            payload_bytes=PAYLOAD_BYTES,
        )
        runs: dict[str, Callable[[], float]] = {
            PLAIN: partial(pgbench, "plain"),
            CLASSIC: partial(pgbench, "classic"),
            HANDSHAKE: partial(_publish_unread, dsn, pgbench),
            AWAKE: partial(_publish_supervised, dsn, pgbench, idle),
            CONSUMING: partial(_publish_supervised, dsn, pgbench, noop),
        }
        return alternate(setup.rounds, {name: runs[name] for name in names})


def _publish_unread(dsn: str, pgbench: Callable[[str], float]) -> float:
    """Publish while nobody holds the wake lock: what the handshake alone costs a producer."""
    tps = pgbench("gapless")
    _catch_up(dsn)
    return tps


def _publish_supervised(dsn: str, pgbench: Callable[[str], float], handler: Any) -> float:
    """Publish beside a supervisor; it ends with nothing left to do, so that the next run is alone."""
    with supervised(dsn, handler, total_partitions=8):
        tps = pgbench("gapless")
        wait_for(dsn, "lag", lambda lag: lag == 0, group_id=handler.group)
    _catch_up(dsn)
    return tps


def _catch_up(dsn: str) -> None:
    with connect(dsn, role="bench") as conn:
        while sequence(conn):
            pass
        create_chunks(conn)
