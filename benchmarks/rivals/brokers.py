"""Logs that are servers of their own: Redis streams, NATS JetStream with its files.

Debian has both servers; the clients are the usual ones in Python (redis, nats-py), on uvloop if
installed: 16 connections, each with a pipeline or concurrent publishes. They keep an order, but no
transaction of PostgreSQL. Their names say how events are stored when they answer.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from time import monotonic, perf_counter, sleep
from typing import Any

STREAM = "outbox"
KEY = "k"
START_S_MAX = 30.0

Step = Callable[[], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker. words: the command that starts it in a folder; steps: a publisher a connection."""

    name: str
    program: str
    package: str
    words: Callable[[str, int], Sequence[str]]
    steps: Callable[[AsyncExitStack, int, int, str, int], Awaitable[list[Step]]]

    @property
    def missing(self) -> str | None:
        """The part that this machine lacks; None: nothing."""
        if find_spec(self.package) is None:
            return f"Python's {self.package} is not installed"
        return None if _found(self.program) else f"{self.program} is not installed"

    @contextmanager
    def running(self) -> Iterator[int]:
        """Run its server within the block, in a folder of its own; yield its port."""
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as log:
            words = [_found(self.program) or self.program, *self.words(folder, port)]
            process = subprocess.Popen(words, cwd=folder, stdout=log, stderr=log)
            try:
                _wait(self.program, process, port)
                yield port
            finally:
                process.terminate()
                process.wait()

    def rate(self, port: int, clients: int, seconds: float, batch: int, payload: object) -> float:
        """Return the events a second of all clients; each publishes a batch in each step."""
        text = json.dumps(payload)
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            return runner.run(self._rate(port, clients, seconds, batch, text))

    async def _rate(self, port: int, clients: int, seconds: float, batch: int, text: str) -> float:
        async with AsyncExitStack() as stack:
            steps = await self.steps(stack, port, clients, text, batch)
            began_s = perf_counter()
            done = await asyncio.gather(*(_repeated(step, began_s + seconds) for step in steps))
            return sum(done) * batch / (perf_counter() - began_s)


async def _repeated(step: Step, until_s: float) -> int:
    done = 0
    while not done or perf_counter() < until_s:
        await step()
        done += 1
    return done


async def _redis_steps(
    stack: AsyncExitStack, port: int, clients: int, text: str, batch: int
) -> list[Step]:
    from redis.asyncio import Redis  # noqa: PLC0415 - only if installed

    async def one(conn: Any) -> None:
        await conn.xadd(STREAM, fields)

    async def many(conn: Any) -> None:
        pipeline = conn.pipeline(transaction=False)
        for _ in range(batch):
            pipeline.xadd(STREAM, fields)
        await pipeline.execute()

    fields = {"key": KEY, "payload": text}
    conns = [
        await stack.enter_async_context(Redis(port=port, single_connection_client=True))
        for _ in range(clients)
    ]
    await conns[0].delete(STREAM)  # of the last round: it is kept in memory
    return [partial(one if batch == 1 else many, conn) for conn in conns]


async def _nats_steps(
    stack: AsyncExitStack, port: int, clients: int, text: str, batch: int
) -> list[Step]:
    import nats  # noqa: PLC0415 - only if installed

    async def one(log: Any) -> None:
        await log.publish(subject, payload)

    async def many(log: Any) -> None:
        acks = [await log.publish_async(subject, payload) for _ in range(batch)]
        await asyncio.gather(*acks)

    subject, payload = f"{STREAM}.{KEY}", text.encode()
    logs = []
    for _ in range(clients):
        conn = await nats.connect(f"nats://127.0.0.1:{port}")
        stack.push_async_callback(conn.close)
        logs.append(conn.jetstream(timeout=60))
    await logs[0].add_stream(name=STREAM, subjects=[f"{STREAM}.>"], storage="file")
    await logs[0].purge_stream(STREAM)  # of the last round
    return [partial(one if batch == 1 else many, log) for log in logs]


def _redis(fsync: str, name: str) -> Broker:
    def words(folder: str, port: int) -> list[str]:
        own = ["--bind", "127.0.0.1", "--port", str(port), "--dir", folder, "--save", ""]
        return [*own, "--appendonly", "yes", "--appendfsync", fsync]

    return Broker(name, "redis-server", "redis", words, _redis_steps)


def _nats_words(folder: str, port: int) -> list[str]:
    return ["--jetstream", "--store_dir", folder, "--addr", "127.0.0.1", "--port", str(port)]


BROKERS = (
    _redis("always", "Redis streams, fsync before each answer"),
    _redis("everysec", "Redis streams, fsync each second"),
    Broker(
        "NATS JetStream, files, fsync each 2 minutes",
        "nats-server",
        "nats",
        _nats_words,
        _nats_steps,
    ),
)


def _found(program: str) -> str | None:
    return shutil.which(program) or shutil.which(program, path="/usr/sbin:/usr/local/sbin")


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if find_spec("uvloop") is None:
        return None
    import uvloop  # noqa: PLC0415 - only if installed

    return uvloop.new_event_loop


def _wait(program: str, process: subprocess.Popen[bytes], port: int) -> None:
    give_up_s = monotonic() + START_S_MAX
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
        except OSError:
            if process.poll() is not None or monotonic() > give_up_s:
                raise RuntimeError(f"{program} did not start") from None
            sleep(0.05)
        else:
            return
