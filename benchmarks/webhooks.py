"""Webhooks: requests a second to a local endpoint, beside the same requests without a log."""

from __future__ import annotations

import asyncio
import base64
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

import httpx
import multiprocess

from benchmarks.figure import Figure, Target, alternate
from benchmarks.fill import fill_outbox, make_topic
from benchmarks.server import Setup
from benchmarks.supervised import PATIENCE_S, supervised
from gapless.db.connect import connect
from gapless.ops.webhooks import add_webhook
from gapless.settings import Settings
from gapless.webhooks.fleet import Webhooks

AT_ONCE = 64
PARTITIONS = 4
PAYLOAD_BYTES = 300
ALONE = "httpx alone, unsigned, from memory"
LOOK_EVERY_S = 0.005
WARM = 50  # requests before the clock starts

_LOCAL = ("127.0.0.0/8",)
_fork = multiprocess.get_context("fork")
_numbers = count(1)


def run(setup: Setup) -> list[Figure]:
    """Deliver a backlog to an endpoint that does nothing."""
    events = setup.pick(200, 10_000, 30_000)
    os.environ["BENCH_SECRET"] = base64.b64encode(bytes(32)).decode()
    with setup.database("webhooks") as dsn, _endpoint() as endpoint:
        make_topic(dsn, "outbox", partitions=PARTITIONS)
        fill_outbox(dsn, 1, events=events, payload_bytes=PAYLOAD_BYTES)
        results = alternate(
            setup.rounds,
            {
                ALONE: partial(_alone, endpoint, events),
                "ours": partial(_ours, dsn, endpoint, events),
            },
        )
    return [
        Figure(
            what=f"a webhook, {AT_ONCE} requests at a time",
            unit="events/s",
            ours=results["ours"],
            baseline=results[ALONE],
            against=ALONE,
            target=Target("value", at_least=1000),
        )
    ]


@dataclass(frozen=True, slots=True)
class _Endpoint:
    """An HTTP server in another process. came: how many requests it has answered."""

    url: str
    came: Any

    def rate(self, before: int, requests: int) -> float:
        """Wait until that many more came; return how many a second, from WARM requests on."""
        self._wait(before + min(WARM, requests // 2))
        first, began_s = self.came.value, time.monotonic()
        self._wait(before + requests)
        return (before + requests - first) / (time.monotonic() - began_s)

    def _wait(self, until: int) -> None:
        give_up_s = time.monotonic() + 10 * PATIENCE_S
        while self.came.value < until:
            if time.monotonic() > give_up_s:
                raise TimeoutError(f"{self.came.value} of {until} requests came")
            time.sleep(LOOK_EVERY_S)


def _ours(dsn: str, endpoint: _Endpoint, events: int) -> float:
    name = f"bench-{next(_numbers)}"
    settings = Settings(webhook_allow=_LOCAL)
    with connect(dsn, role="bench") as conn:
        add_webhook(
            conn,
            name,
            "outbox",
            f"{endpoint.url}/hook",
            secrets=["env:BENCH_SECRET"],
            concurrency=AT_ONCE,
            allow_http=True,
            start="earliest",
        )
        every = Webhooks(settings, dsn).handlers(conn)
    (handler,) = [each for each in every if each.group == f"webhook-{name}"]
    before = endpoint.came.value
    with supervised(dsn, handler, is_owned=False, partitions_per_worker=PARTITIONS):
        return endpoint.rate(before, events)


def _alone(endpoint: _Endpoint, requests: int) -> float:
    before = endpoint.came.value
    process = _fork.Process(target=_send_all, args=(endpoint.url, requests), name="bench")
    process.start()
    try:
        return endpoint.rate(before, requests)
    finally:
        process.join()


def _send_all(url: str, requests: int) -> None:
    async def send(transport: httpx.AsyncHTTPTransport, numbers: Iterator[int]) -> None:
        for _ in numbers:
            request = httpx.Request("POST", f"{url}/hook", content=b"x" * PAYLOAD_BYTES)
            response = await transport.handle_async_request(request)
            await response.aread()

    async def send_all() -> None:
        numbers = iter(range(requests))
        async with httpx.AsyncHTTPTransport(trust_env=False) as transport:
            await asyncio.gather(*(send(transport, numbers) for _ in range(AT_ONCE)))

    asyncio.run(send_all())


@contextmanager
def _endpoint() -> Iterator[_Endpoint]:
    came, port = _fork.Value("q", 0), _fork.Value("i", 0)
    process = _fork.Process(target=_serve, args=(came, port), name="bench")
    process.start()
    try:
        while not port.value:
            time.sleep(LOOK_EVERY_S)
        yield _Endpoint(f"http://127.0.0.1:{port.value}", came)
    finally:
        process.terminate()
        process.join()


def _serve(came: Any, port: Any) -> None:
    """Answer 204 to each request, with as little work as there can be."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                size = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                await reader.readexactly(size)
                came.value += 1
                writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def serve() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=256)
        port.value = server.sockets[0].getsockname()[1]
        await server.serve_forever()

    asyncio.run(serve())
