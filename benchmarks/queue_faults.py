"""A queue group's workers: one is killed, and many have nothing to do."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic_ns, sleep
from typing import Any

import psycopg
from psycopg import Connection

import gapless
from benchmarks.crew import PATIENCE_S
from benchmarks.drain import noop
from benchmarks.figure import Figure, Target
from benchmarks.idle import watch, without_autovacuum
from benchmarks.server import Setup
from benchmarks.supervised import supervised, wait_for
from gapless.consume.unit import Unit
from gapless.consume.user.handler import Handler
from gapless.db.connect import connect
from gapless.log.sequence import create_chunks
from gapless.log.topics import ensure_topic

WORKERS = 4
IDLE_WORKERS = 64


def run(setup: Setup) -> list[Figure]:
    """Kill workers with events in hand; then watch 64 idle ones."""
    return [*_killed(setup), *_idle(setup)]


def _killed(setup: Setup) -> list[Figure]:
    """Measure the time from the kill to another worker's call with the same event."""
    took: list[float] = []
    with setup.database("queue_killed") as dsn, tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def hang(unit: Unit, _conn: Connection[Any]) -> None:
            (event,) = unit
            first = folder / str(event.payload["n"])
            if first.exists():
                first.with_suffix(".again").write_text(str(monotonic_ns()))
                return
            first.with_suffix(".part").write_text(str(os.getpid()))
            first.with_suffix(".part").rename(first)
            sleep(PATIENCE_S)

        decorate: Any = gapless.handler(topic="queue", group="killed", mode="queue", batch_size=10)
        with _workers(dsn, decorate(hang), WORKERS):
            for n in range(setup.pick(1, 5, 10)):
                with psycopg.connect(dsn) as conn:
                    gapless.publish(conn, "queue", {"n": n}, key=str(n))
                pid = int(_read(folder / str(n)))
                at_ns = monotonic_ns()
                os.kill(pid, signal.SIGKILL)
                took.append((_read(folder / f"{n}.again", is_whole=True) - at_ns) / 1e6)
    return [
        Figure(
            what="a killed worker's event in other hands",
            unit="ms",
            ours=tuple(took),
            target=Target("value", at_most=100),
        )
    ]


def _read(path: Path, *, is_whole: bool = False) -> int:
    """Wait for a file and return the number in it. is_whole: it may not be written yet."""
    for _ in range(int(PATIENCE_S / 0.001)):
        if path.exists() and (text := path.read_text()) and (not is_whole or len(text) > 8):
            return int(text)
        sleep(0.001)
    raise TimeoutError(f"nothing in {path}")


def _idle(setup: Setup) -> list[Figure]:
    workers = setup.pick(4, IDLE_WORKERS, IDLE_WORKERS)
    made: Any = gapless.handler(topic="queue", group="idle", mode="queue")(noop)
    with (
        setup.database("queue_idle") as dsn,
        without_autovacuum(setup),
        _workers(dsn, made, workers),
    ):
        sleep(setup.pick(0.5, 3, 5))
        seen = watch(dsn, setup.pick(1, 6, 6))
    what = f"{workers} idle workers of a queue group"
    cpu = () if seen.cpu_percent is None else (seen.cpu_percent,)
    none = Target("value", at_most=0.1)
    return [
        Figure(what=f"{what}: xids but heartbeats", unit="/s", ours=(seen.xids,), target=none),
        Figure(what=f"{what}: heartbeats of their supervisor", unit="/s", ours=(seen.beats,)),
        Figure(what=f"{what}: WAL, heartbeats included", unit="bytes/s", ours=(seen.wal_bytes,)),
        Figure(what=f"{what}: looks", unit="transactions/s", ours=(seen.transactions,)),
        Figure(what=f"{what}: CPU", unit="% of a core", ours=cpu),
    ]


@contextmanager
def _workers(dsn: str, handler: Handler, workers: int) -> Iterator[None]:
    """Run a supervisor with a queue group's workers; they are there when the block is entered."""
    with connect(dsn, role="bench") as conn:
        ensure_topic(conn, "queue", partitions=1)
        create_chunks(conn)  # or the supervisor makes them while the first event is published
    role = f"gapless/queue worker {handler.group}"
    with supervised(dsn, handler, is_owned=False, total_partitions=1, workers=workers):
        wait_for(dsn, "queue_workers", lambda found: found >= workers, role=role)
        yield
