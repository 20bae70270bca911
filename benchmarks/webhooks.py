"""Webhooks: the requests a second of one worker to a local endpoint, 64 at a time."""

from __future__ import annotations

import asyncio
import os
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from time import monotonic, sleep
from typing import Any

import multiprocess

from benchmarks.cost import Meter, cost_figures
from benchmarks.crew import PATIENCE_S
from benchmarks.drain import LOOK_EVERY_S, Drained
from benchmarks.figure import Figure, Target
from benchmarks.fill import fill_outbox, make_topic
from benchmarks.server import Setup
from benchmarks.supervised import supervised
from gapless.cli.run import PARTITIONS_PER_HANDLER
from gapless.db.connect import connect
from gapless.features.webhooks.fleet import Webhooks
from gapless.features.webhooks.ops import add_webhook, remove_webhook
from gapless.features.webhooks.settings import WebhookSettings

CONCURRENCY = 64
PARTITIONS = 8
PAYLOAD_BYTES = 300
REQUESTS_PER_S_MIN = 1000
WHAT = f"one endpoint, one worker, {CONCURRENCY} requests at a time"

_SECRET_NAME = "BENCH_WEBHOOK_SECRET"
_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)", re.IGNORECASE)
_ANSWER = b"HTTP/1.1 204 No Content\r\n\r\n"

_fork = multiprocess.get_context("fork")
_numbers = count(1)


def run(setup: Setup) -> list[Figure]:
    """Deliver a topic's units, one event each, from its first one on, over and over."""
    events = setup.pick(200, 6_000, 8_000)
    with setup.database("webhooks") as dsn, _endpoint() as (url, requests), _secret():
        make_topic(dsn, "outbox", partitions=PARTITIONS)
        fill_outbox(dsn, 1, events=events, payload_bytes=PAYLOAD_BYTES)
        results = [_delivered(dsn, url, requests, events) for _ in range(setup.pick(1, 2, 2))]
    return [
        Figure(
            what=WHAT,
            unit="requests/s",
            ours=tuple(each.per_s for each in results),
            target=Target("value", at_least=REQUESTS_PER_S_MIN),
        ),
        *cost_figures(WHAT, [each.cost for each in results]),
    ]


@contextmanager
def _secret() -> Iterator[None]:
    """Let the workers, which are forked from here, find the secret of the webhooks."""
    os.environ[_SECRET_NAME] = _SECRET
    try:
        yield
    finally:
        del os.environ[_SECRET_NAME]


def _delivered(dsn: str, url: str, requests: Callable[[], int], events: int) -> Drained:
    """Let a new webhook receive all events; count from the first request."""
    name = f"bench-{next(_numbers)}"
    with connect(dsn, role="bench") as conn:
        add_webhook(
            conn,
            name,
            "outbox",
            url,
            secrets=[f"env:{_SECRET_NAME}"],
            concurrency=CONCURRENCY,
            allow_http=True,
            start="earliest",
        )
        before, give_up_s = requests(), monotonic() + PATIENCE_S
        with supervised(
            dsn,
            source=lambda settings: Webhooks(settings, dsn),
            partitions_per_worker=PARTITIONS_PER_HANDLER,
            sections=(WebhookSettings(webhook_allow=("127.0.0.0/8",)),),
        ):
            while not (first := requests() - before):
                _require_in_time(give_up_s)
            first_s, meter = monotonic(), Meter(dsn)
            while (done := requests() - before) < events:
                _require_in_time(give_up_s)
            rest = done - first
            drained = Drained(rest / (monotonic() - first_s), meter.of(rest))
        remove_webhook(conn, name)
    return drained


def _require_in_time(give_up_s: float) -> None:
    if monotonic() > give_up_s:
        raise TimeoutError(f"the endpoint was not called with all within {PATIENCE_S:g} s")
    sleep(LOOK_EVERY_S)


@contextmanager
def _endpoint() -> Iterator[tuple[str, Callable[[], int]]]:
    """Serve in a process of its own, as cheaply as possible; yield its URL and count of calls."""
    counted = _fork.Value("L", 0, lock=False)
    with socket.create_server(("127.0.0.1", 0), backlog=256) as listener:
        process = _fork.Process(target=_serve, args=(listener, counted), daemon=True)
        process.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/", lambda: int(counted.value)
        finally:
            process.terminate()
            process.join()


def _serve(listener: socket.socket, counted: Any) -> None:
    async def serve() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: _Answering(counted), sock=listener)
        await server.serve_forever()

    asyncio.run(serve())


class _Answering(asyncio.Protocol):
    """Answers each request of a connection 204."""

    def __init__(self, counted: Any) -> None:
        self._counted = counted
        self._came = b""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._came += data
        while (head := self._came.find(b"\r\n\r\n")) >= 0:
            length = _LENGTH.search(self._came, 0, head)
            assert length is not None
            end = head + 4 + int(length[1])
            if len(self._came) < end:
                return
            self._came = self._came[end:]
            self._counted.value += 1
            self._transport.write(_ANSWER)
