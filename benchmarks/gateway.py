"""The gateway: publishing over HTTP beside the same publish() without it; events to a stream."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic, perf_counter, sleep

from benchmarks.drain import noop
from benchmarks.figure import Figure, Target, alternate, quantile
from benchmarks.fill import make_topic
from benchmarks.server import Setup
from benchmarks.supervised import supervised
from gapless import NewEvent, handler, publish
from gapless.db.connect import connect

CLIENTS = 16
DIRECT = "publish() over 16 connections, without it"
PAYLOAD = {"text": "x" * 280}
PATH = "/v1/topics/outbox"
START_S_MAX = 60.0
CONNECTIONS = "10000"  # of one address: all clients here are at one
HEADERS = {"Content-Type": "application/json"}

idle = handler(topic="outbox", group="gateway")(noop)


@dataclass(frozen=True, slots=True)
class Served:
    """A gateway that runs: where, and as which process."""

    host: str
    port: int
    pid: int

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self.host, self.port, timeout=60)


def run(setup: Setup) -> list[Figure]:
    """Measure each on a database of its own, served by one gateway."""
    with _topic(setup, "gateway") as (dsn, gateway):
        published = [
            _published(setup, dsn, gateway, 1, Target("ratio", at_least=0.4)),
            _published(setup, dsn, gateway, 100, Target("ratio", at_least=0.6)),
        ]
    with _topic(setup, "stream") as (dsn, gateway):
        return [*published, *_streamed(setup, dsn, gateway)]


@contextmanager
def _topic(setup: Setup, purpose: str) -> Iterator[tuple[str, Served]]:
    with setup.database(purpose) as dsn:
        make_topic(dsn, "outbox", partitions=8)
        with served(dsn) as gateway:
            yield dsn, gateway


@contextmanager
def served(dsn: str) -> Iterator[Served]:
    """Run `gapless gateway` within the block."""
    command = [sys.executable, "-m", "gapless", "--dsn", dsn, "gateway"]
    with tempfile.NamedTemporaryFile() as log:
        process = subprocess.Popen(
            [
                *command,
                *("--listen", "127.0.0.1:0"),
                *("--connections-per-address", CONNECTIONS),
                *("--log-format", "text"),
            ],
            stderr=log,
        )
        try:
            give_up_s = monotonic() + START_S_MAX
            while not (found := re.search(r"http://(\S+):(\d+)", Path(log.name).read_text())):
                if process.poll() is not None or monotonic() > give_up_s:
                    raise RuntimeError("the gateway did not start")
                sleep(0.05)
            yield Served(found[1], int(found[2]), process.pid)
        finally:
            process.terminate()
            process.wait()


def _published(setup: Setup, dsn: str, gateway: Served, batch: int, target: Target) -> Figure:
    seconds = setup.pick(0.3, 2.0, 5.0)
    results = alternate(
        setup.rounds,
        {
            DIRECT: partial(_rate, seconds, batch, partial(_direct, dsn, batch)),
            "ours": partial(_rate, seconds, batch, partial(_over_http, gateway, batch)),
        },
    )
    return Figure(
        what=f"batch {batch}: published by {CLIENTS} clients",
        unit="events/s",
        ours=results["ours"],
        baseline=results[DIRECT],
        against=DIRECT,
        target=target,
    )


def _rate(seconds: float, batch: int, client: Callable[[], Iterator[None]]) -> float:
    """Return the events a second of all clients; each publishes a batch for each step."""
    counts = [0] * CLIENTS
    begun = threading.Barrier(CLIENTS + 1)
    ended = threading.Event()

    def work(number: int) -> None:
        steps = client()
        next(steps)
        begun.wait()
        while not ended.is_set():
            next(steps)
            counts[number] += batch
        steps.close()  # type: ignore[attr-defined]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    begun.wait()
    began_s = perf_counter()
    sleep(seconds)
    while not sum(counts):  # a machine that is too busy for one request in that time
        sleep(0.01)
    ended.set()
    took_s = perf_counter() - began_s
    events = sum(counts)
    for thread in threads:
        thread.join()
    return events / took_s


def _direct(dsn: str, batch: int) -> Iterator[None]:
    with connect(dsn, role="bench") as conn:
        events = [NewEvent(payload=PAYLOAD, key="k") for _ in range(batch)]
        while True:
            yield
            publish(conn, "outbox", events)


def _over_http(gateway: Served, batch: int) -> Iterator[None]:
    body = json.dumps([{"payload": PAYLOAD, "key": "k"}] * batch)
    with closing(gateway.connect()) as conn:
        while True:
            yield
            conn.request("POST", f"{PATH}/events", body, HEADERS)
            answer = conn.getresponse()
            assert answer.status == 202, answer.read()
            answer.read()


def _streamed(setup: Setup, dsn: str, gateway: Served) -> list[Figure]:
    """Publish 100 a second, beside a supervisor that sequences: how late are they in a stream?"""
    number = setup.pick(10, 300, 1_000)
    with supervised(dsn, idle), connect(dsn, role="bench") as conn:
        late_ms: list[float] = []
        reading = threading.Thread(target=_read, args=(gateway, number, late_ms))
        reading.start()
        sleep(2.0)
        for _ in range(number):
            publish(conn, "outbox", {"sent_s": perf_counter()})
            sleep(0.01)
        reading.join(60)
    assert len(late_ms) == number, f"{len(late_ms)} of {number}"
    what = "publish() to a stream, 100 a second"
    return [
        Figure(
            what=f"{what}: p50",
            unit="ms",
            ours=(quantile(late_ms, 0.5),),
            target=Target("value", at_most=10),
        ),
        Figure(what=f"{what}: p99", unit="ms", ours=(quantile(late_ms, 0.99),)),
    ]


def _read(gateway: Served, number: int, late_ms: list[float]) -> None:
    with closing(gateway.connect()) as conn:
        conn.request("GET", f"{PATH}/stream")
        with closing(conn.getresponse()) as answer:
            while len(late_ms) < number:
                line = answer.readline()
                if line.startswith(b"data: "):
                    sent_s = json.loads(line.removeprefix(b"data: "))["payload"]["sent_s"]
                    late_ms.append((perf_counter() - sent_s) * 1000)
