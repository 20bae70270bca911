"""The gateway beside publish() without it, and beside a small HTTP server; events to a stream.

The small server needs asyncpg and starlette, other logs need their servers and clients; without
these, their values are dashes.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic, perf_counter, sleep

import psycopg
from psycopg.types.json import Json

from benchmarks.crew import PATIENCE_S
from benchmarks.drain import noop
from benchmarks.figure import Figure, Target, alternate, quantile
from benchmarks.fill import make_topic
from benchmarks.queries import query
from benchmarks.rivals import http_queue
from benchmarks.rivals.brokers import BROKERS
from benchmarks.server import Setup
from benchmarks.supervised import supervised
from gapless import NewEvent, handler, publish
from gapless.db.connect import connect
from gapless.log.catch_up import is_sequencer_active

CLIENTS = 16
DIRECT = "publish() over 16 connections, without it"
RIVAL = "starlette and asyncpg, a table, no order"
CONNECTIONS = "10000"  # from one address: all clients here have the same
GATEWAY = (
    "gateway",
    *("--listen", "127.0.0.1:0"),
    *("--connections-per-address", CONNECTIONS),
    *("--log-format", "text"),
)
PAYLOAD = {"text": "x" * 280}
PATH = "/v1/topics/outbox"
HEADERS = {"Content-Type": "application/json"}

idle = handler(topic="outbox", group="gateway")(noop)


@dataclass(frozen=True, slots=True)
class Served:
    """A running gateway: its address and its process."""

    host: str
    port: int
    pid: int

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self.host, self.port, timeout=60)


def run(setup: Setup) -> list[Figure]:
    """Measure each case on a database of its own, served by one gateway."""
    with _topic(setup, "gateway") as (dsn, gateway):
        published = [
            *_published(setup, dsn, gateway, 1, Target("ratio", at_least=0.7)),
            *_published(setup, dsn, gateway, 100, Target("ratio", at_least=0.6)),
        ]
    return [*published, *_streamed(setup)]


@contextmanager
def _topic(setup: Setup, purpose: str) -> Iterator[tuple[str, Served]]:
    with setup.database(purpose) as dsn:
        make_topic(dsn, "outbox", partitions=8)
        with served("gapless", "--dsn", dsn, *GATEWAY) as gateway:
            yield dsn, gateway


@contextmanager
def _rival(setup: Setup, purpose: str, *, notifies: bool) -> Iterator[tuple[str, Served]]:
    with setup.database(purpose) as dsn:
        http_queue.create(dsn, notifies=notifies)
        with served("benchmarks.rivals.http_queue", **{http_queue.DSN: dsn}) as rival:
            yield dsn, rival


@contextmanager
def served(module: str, *words: str, **env: str) -> Iterator[Served]:
    """Run an HTTP server within the block: a module that prints its address."""
    with tempfile.NamedTemporaryFile() as log:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *words], stderr=log, env=os.environ | env
        )
        try:
            give_up_s = monotonic() + PATIENCE_S
            while not (found := re.search(r"http://(\S+):(\d+)", Path(log.name).read_text())):
                if process.poll() is not None or monotonic() > give_up_s:
                    raise RuntimeError(f"{module} did not start")
                sleep(0.05)
            yield Served(found[1], int(found[2]), process.pid)
        finally:
            process.terminate()
            process.wait()


def _published(setup: Setup, dsn: str, gateway: Served, batch: int, target: Target) -> list[Figure]:
    seconds = setup.pick(0.3, 0.5, 0.6)
    runs = {
        DIRECT: partial(_rate, seconds, batch, partial(_direct, dsn, batch)),
        "ours": partial(_rate, seconds, batch, partial(_over_http, gateway, batch)),
    }
    with ExitStack() as stack:
        if http_queue.CAN_RUN:
            _, rival = stack.enter_context(_rival(setup, "queue", notifies=False))
            runs[RIVAL] = partial(_rate, seconds, batch, partial(_over_http, rival, batch))
        for each in BROKERS:
            if each.missing is None:
                port = stack.enter_context(each.running())
                runs[each.name] = partial(each.rate, port, CLIENTS, seconds, batch, PAYLOAD)
        results = alternate(setup.pick(1, 4, 8), runs)
    return [
        Figure(
            what=f"batch {batch}: published by {CLIENTS} clients",
            unit="events/s",
            ours=results["ours"],
            baseline=results.get(against, ()),
            against=f"{against} ({missing})" if missing else against,
            target=bound,
        )
        for against, bound, missing in (
            (DIRECT, target, None),
            (RIVAL, None, None),
            *((each.name, None, each.missing) for each in BROKERS),
        )
    ]


def _rate(seconds: float, batch: int, client: Callable[[], Iterator[None]]) -> float:
    """Return the events a second of all clients; each publishes a batch in each step."""
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
    while not sum(counts) and any(each.is_alive() for each in threads):
        sleep(0.01)  # the machine was too busy for one request in that time
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


def _over_http(server: Served, batch: int) -> Iterator[None]:
    """Publish over one connection, without http.client, which costs as much as the server."""
    body = json.dumps([{"payload": PAYLOAD, "key": "k"}] * batch)
    head = f"POST {PATH}/events HTTP/1.1\r\nHost: {server.host}\r\nContent-Type: application/json"
    request = f"{head}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
    with socket.create_connection((server.host, server.port), timeout=60) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            yield
            sock.sendall(request)
            answer = _answer(sock)
            assert answer.startswith(b"HTTP/1.1 202 "), answer


def _answer(sock: socket.socket) -> bytes:
    """Return one whole answer, by the length that it states."""
    found = b""
    while True:
        part = sock.recv(65536)
        assert part, found
        found += part
        head, end, body = found.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
        if end and length is not None and len(body) >= int(length[1]):
            return found


def _streamed(setup: Setup) -> list[Figure]:
    """Publish 100 a second, beside a supervisor that sequences; measure the delay in a stream."""
    runs = {"ours": partial(_ours, setup)}
    if http_queue.CAN_RUN:
        runs[RIVAL] = partial(_its, setup)
    results = alternate(setup.pick(1, 2, 2), runs)
    what = "publish() to a stream, 100 a second"
    return [
        Figure(
            what=f"{what}: {name}",
            unit="ms",
            ours=tuple(quantile(each, share) for each in results["ours"]),
            baseline=tuple(quantile(each, share) for each in results.get(RIVAL, ())),
            against=RIVAL,
            target=target,
        )
        for name, share, target in (
            ("p50", 0.5, Target("value", at_most=10)),
            ("p99", 0.99, None),
        )
    ]


def _ours(setup: Setup) -> list[float]:
    with (
        _topic(setup, "stream") as (dsn, gateway),
        supervised(dsn, idle),
        connect(dsn, role="bench") as conn,
    ):
        while not is_sequencer_active(conn):
            sleep(0.01)
        return _late_ms(setup, gateway, lambda payload: publish(conn, "outbox", payload))


def _its(setup: Setup) -> list[float]:
    def store(payload: dict[str, float]) -> None:
        conn.execute(query("http_queue_publish"), {"payload": Json(payload)})

    with (
        _rival(setup, "listen", notifies=True) as (dsn, rival),
        psycopg.connect(dsn, autocommit=True) as conn,
    ):
        return _late_ms(setup, rival, store)


def _late_ms(
    setup: Setup, server: Served, store: Callable[[dict[str, float]], object]
) -> list[float]:
    number = setup.pick(10, 300, 600)
    late_ms: list[float] = []
    is_open = threading.Event()
    reading = threading.Thread(target=_read, args=(server, number, late_ms, is_open))
    reading.start()
    assert is_open.wait(PATIENCE_S), "the stream does not begin"
    sleep(1.0)  # until it listens
    for _ in range(number):
        store({"sent_s": perf_counter()})
        sleep(0.01)
    reading.join(PATIENCE_S)
    assert len(late_ms) == number, f"{len(late_ms)} of {number}"
    return late_ms


def _read(server: Served, number: int, late_ms: list[float], is_open: threading.Event) -> None:
    with closing(server.connect()) as conn:
        conn.request("GET", f"{PATH}/stream")
        with closing(conn.getresponse()) as answer:
            while len(late_ms) < number:
                line = answer.readline()
                is_open.set()
                if line.startswith(b"data: "):
                    sent_s = json.loads(line.removeprefix(b"data: "))["payload"]["sent_s"]
                    late_ms.append((perf_counter() - sent_s) * 1000)
