"""Latency from commit to handler, 100 events a second, open loop, against bare LISTEN/NOTIFY.

Counted from the moment the event was to be sent, whether the producer was late or not, so a stall
is charged to every event it delayed.
"""

from __future__ import annotations

import json
import os
import struct
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import monotonic, monotonic_ns, sleep
from typing import Any

import multiprocess
import psycopg
from psycopg import Connection

import gapless
from benchmarks.figure import Figure, Target, alternate, quantile
from benchmarks.queries import baseline, query
from benchmarks.server import Setup
from benchmarks.supervised import supervised
from gapless.consume.unit import Unit
from gapless.db.listen import listen

RATE_PER_S = 100
WARM_UP_EVENTS = 50
PATIENCE_S = 30.0
TOPIC = "outbox"

_RECORD = struct.Struct("=qq")  # event number, monotonic ns at which its handler was called
_Quantiles = tuple[float, float]


def run(setup: Setup) -> list[Figure]:
    """Measure p50 and p99, one pair a round."""
    events = RATE_PER_S * (5 if setup.quick else 30)
    with setup.database("latency") as dsn:
        with psycopg.connect(dsn) as conn:
            conn.execute(baseline("notify"))
        results = alternate(
            setup.rounds,
            {
                "bare LISTEN/NOTIFY": partial(_notify, dsn, events),
                "ours": partial(_ours, dsn, events),
            },
        )
    return [
        Figure(
            what=f"latency to the handler, {RATE_PER_S} events/s: {name}",
            unit="ms",
            ours=tuple(each[at] for each in results["ours"]),
            baseline=tuple(each[at] for each in results["bare LISTEN/NOTIFY"]),
            against="bare LISTEN/NOTIFY",
            target=Target("value", at_most=target_ms),
        )
        for at, (name, target_ms) in enumerate((("p50", 5), ("p99", 25)))
    ]


def _ours(dsn: str, events: int) -> _Quantiles:
    with _arrivals() as (write, read):

        @gapless.handler(topic=TOPIC, group="latency")
        def record(unit: Unit, _: Connection[Any]) -> None:
            for event in unit:
                write(event.payload["n"])

        def send(conn: Connection[Any], n: int) -> None:
            gapless.publish(conn, TOPIC, {"n": n}, key=str(n))

        with supervised(dsn, record, total_partitions=8):
            return _measure(dsn, events, send, read)


def _notify(dsn: str, events: int) -> _Quantiles:
    with _arrivals() as (write, read):
        context = multiprocess.get_context("fork")
        listener = context.Process(target=_listen, args=(dsn, write))
        listener.start()

        def send(conn: Connection[Any], n: int) -> None:
            conn.execute(query("notify_publish"), {"payload": json.dumps({"n": n})})

        try:
            return _measure(dsn, events, send, read)
        finally:
            listener.kill()
            listener.join()


def _listen(dsn: str, write: Callable[[int], None]) -> None:
    with psycopg.connect(dsn, autocommit=True) as conn:
        listen(conn, "baseline_notify")
        seen_id = 0
        while True:
            rows = conn.execute(query("heard"), {"last_id": seen_id}).fetchall()
            for message_id, payload in rows:
                write(payload["n"])
                seen_id = message_id
            next(conn.notifies(timeout=1.0, stop_after=1), None)


@contextmanager
def _arrivals() -> Iterator[tuple[Callable[[int], None], Callable[[], dict[int, int]]]]:
    """Yield a way for another process to record an event's arrival, and a way to read them all."""
    descriptor, name = tempfile.mkstemp(prefix="gapless-bench-")
    os.close(descriptor)
    appending = os.open(name, os.O_WRONLY | os.O_APPEND)

    def write(n: int) -> None:
        os.write(appending, _RECORD.pack(n, monotonic_ns()))

    def read() -> dict[int, int]:
        return dict(_RECORD.iter_unpack(Path(name).read_bytes()))

    try:
        yield write, read
    finally:
        os.close(appending)
        Path(name).unlink()


def _measure(
    dsn: str,
    events: int,
    send: Callable[[Connection[Any], int], None],
    read: Callable[[], dict[int, int]],
) -> _Quantiles:
    """Send open loop, wait until all have arrived, return p50 and p99 in ms."""
    total = events + WARM_UP_EVENTS
    began_ns = monotonic_ns()
    due_ns = [began_ns + n * 1_000_000_000 // RATE_PER_S for n in range(total)]
    with psycopg.connect(dsn, autocommit=True) as conn:
        for n, due in enumerate(due_ns):
            sleep(max(0, due - monotonic_ns()) / 1e9)
            send(conn, n)
    give_up_s = monotonic() + PATIENCE_S
    while len(arrived := read()) < total:
        if monotonic() > give_up_s:
            raise TimeoutError(f"{total - len(arrived)} of {total} events did not arrive")
        sleep(0.05)
    late_ms = [(arrived[n] - due_ns[n]) / 1e6 for n in range(WARM_UP_EVENTS, total)]
    return quantile(late_ms, 0.5), quantile(late_ms, 0.99)
