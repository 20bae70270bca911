"""`gapless gateway` as a process, and an HTTP client for it."""

import asyncio
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from psycopg import Connection

from gapless.features.gateway.gateway import Limits
from gapless.features.gateway.serve import GatewayServer, ServeSpec, make_server
from gapless.features.gateway.sessions import Sessions
from gapless.features.metrics.serve import open_socket
from gapless.log.topics import Topic, ensure_topic
from support.commands import environment
from support.fleet import until

EVENTS = "/v1/topics/orders/events"


class Client:
    """A client of a gateway."""

    def __init__(self, url: str) -> None:
        self.url = url
        # Reading the certificates of this machine takes 0.1 s, and there is no TLS here.
        self.client = httpx.Client(base_url=url, timeout=60, verify=False)

    def get(self, path: str, **more: Any) -> httpx.Response:
        return self.client.get(path, **more)

    def post(self, path: str, **more: Any) -> httpx.Response:
        return self.client.post(path, **more)

    def publish(self, *events: Any, topic: str = "orders", **params: Any) -> dict[str, Any]:
        """Publish payloads in one request; return the answer."""
        body = [{"payload": each} for each in events]
        done = self.post(f"/v1/topics/{topic}/events", json=body, params=params)
        assert done.status_code in (200, 202), done.text
        return dict(done.json())

    def raw(self, *parts: bytes) -> bytes:
        """Send bytes as they are; return all that is received until the end, or for 5 s."""
        host, _, port = self.url.removeprefix("http://").rpartition(":")
        with socket.create_connection((host, int(port)), timeout=20) as sock:
            with suppress(OSError):
                for part in parts:
                    sock.sendall(part)
            found = b""
            with suppress(OSError):
                while part := sock.recv(65536):
                    found += part
                    if b"\r\n\r\n" in found:
                        break
            return found


class Served(Client):
    """A gateway running as a process, and its log."""

    def __init__(self, process: subprocess.Popen[bytes], log_path: Path) -> None:
        self.process = process
        self.log_path = log_path
        super().__init__(str(until(self._url, "the address is told", within=self.log)))

    def log(self) -> str:
        return self.log_path.read_text()

    def _url(self) -> str | None:
        assert self.process.poll() is None, self.log()
        found = re.search(r"gateway: (https?://\S+)", self.log())
        return found[1] if found else None


Serve = Callable[..., Served]


@pytest.fixture
def orders(conn: Connection) -> Topic:
    """Topic orders, of two partitions."""
    return ensure_topic(conn, "orders", partitions=2)


@pytest.fixture
def serve(dsn: str, tmp_path: Path) -> Iterator[Serve]:
    """Start gateways; end them at the end of the test."""
    started: list[Served] = []

    def start(*words: str, **env: str) -> Served:
        log_path = tmp_path / f"gateway-{len(started)}.log"
        with log_path.open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "gapless", "gateway", "--listen", "127.0.0.1:0", *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment(**{"GAPLESS_DSN": dsn, "GAPLESS_CONNECTTIMEOUTS": "2", **env}),
            )
        started.append(Served(process, log_path))
        return started[-1]

    yield start
    for each in started:
        each.client.close()
        each.process.kill()
        each.process.wait()


class Inside:
    """A gateway in a thread of this process: that starts a second faster."""

    def __init__(self, dsn: str, limits: Limits, sessions: int, **more: Any) -> None:
        self.listening = open_socket("127.0.0.1:0")
        host, port = self.listening.getsockname()[:2]
        self.client = Client(f"http://{host}:{port}")
        self._sessions = Sessions(dsn, sessions=sessions, connect_timeout_s=5)
        self._spec = ServeSpec(
            dsn=dsn,
            sessions=sessions,
            connect_timeout_s=5,
            drain_timeout_s=5,
            limits=limits,
            **more,
        )
        self._server: GatewayServer | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()

    def end(self) -> None:
        self.client.client.close()
        assert self._server is not None
        self._server.handle_exit(signal.SIGTERM, None)
        self._thread.join(30)
        self._sessions.close()

    async def _serve(self) -> None:
        self._server = make_server(self._sessions, self._spec)
        await self._server.serve(sockets=[self.listening])


Open = Callable[..., Client]


@pytest.fixture
def open_gateway(dsn: str) -> Iterator[Open]:
    """Start gateways in this process; end them at the end of the test."""
    started: list[Inside] = []

    def start(
        event_bytes_max: int = 1 << 20,
        batch_bytes_max: int = 1 << 24,
        sessions: int = 4,
        batch_events_max: int = 10_000,
        **more: Any,
    ) -> Client:
        limits = Limits(
            event_bytes_max=event_bytes_max,
            batch_bytes_max=batch_bytes_max,
            batch_events_max=batch_events_max,
        )
        started.append(Inside(more.pop("dsn", dsn), limits, sessions, **more))
        return started[-1].client

    yield start
    for each in started:
        each.end()


@pytest.fixture
def gateway(open_gateway: Open, orders: Topic) -> Client:
    """One gateway, and topic orders."""
    return open_gateway()


@pytest.fixture
def operated(open_gateway: Open, orders: Topic) -> Client:
    """A gateway with an operator's routes, and topic orders."""
    return open_gateway(operates=True)


def problem(answer: httpx.Response, status: int) -> dict[str, Any]:
    """Return the problem in an answer, after checking that it is one, of RFC 9457."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    found: dict[str, Any] = answer.json()
    assert found["status"] == status
    assert found["title"]
    assert "\n" not in found["detail"]
    assert "Traceback" not in answer.text
    return found
