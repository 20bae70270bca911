"""A third party that sends mail and SMS: an HTTP server that fails, hangs and limits, by a seed.

It knows a repetition by its Idempotency-Key, as such services do, and sends nothing twice.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from typing import Any

FAILS = 0.1  # of all calls: 503, nothing sent
LOSES = 0.05  # sent, and then the connection ends without an answer
HANGS = 0.02  # sent, and the answer comes too late
HANG_S = 1.0
WAITING_MAX = 256  # calls that are not accepted yet
UNKNOWN = "nobody"  # addresses that begin so are refused


class Gateway(ThreadingHTTPServer):
    """Listens on a port of its own choice. sent: address by idempotency key; told: answers."""

    daemon_threads = True

    def __init__(self, seed: int, limit_per_s: int) -> None:
        super().__init__(("127.0.0.1", 0), _Call)
        self.sent: dict[str, str] = {}
        self.told: Counter[str] = Counter()
        self.repeated = 0
        self._random = Random(seed)  # noqa: S311 - not for secrets
        self._limit_per_s = limit_per_s
        self._second = 0
        self._calls = 0
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def take(self, key: str, to: str) -> str:
        """Send it, or not; return what the caller is told."""
        with self._lock:
            answer = self._answer(to)
            self.told[answer] += 1
            if answer in ("fine", "lost", "late"):
                self.repeated += key in self.sent
                self.sent[key] = to
            return answer

    def server_activate(self) -> None:
        """Let more callers wait than socketserver does by itself."""
        self.socket.listen(WAITING_MAX)

    def handle_error(self, *_: Any) -> None:
        """Say nothing about callers who went away."""

    def _answer(self, to: str) -> str:
        second = int(time.monotonic())
        self._calls = self._calls + 1 if second == self._second else 1
        self._second = second
        drawn = self._random.random()
        if self._calls > self._limit_per_s:
            return "limited"
        if to.startswith(UNKNOWN):
            return "refused"
        for answer, share in (("failed", FAILS), ("lost", LOSES), ("late", HANGS)):
            if drawn < share:
                return answer
            drawn -= share
        return "fine"


class _Call(BaseHTTPRequestHandler):
    server: Gateway

    def do_POST(self) -> None:  # the base class's name for it
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = self.server.take(self.headers["Idempotency-Key"], body["to"])
        if answer == "lost":
            self.close_connection = True
            return
        if answer == "late":
            time.sleep(HANG_S)
        status = {"limited": 429, "refused": 422, "failed": 503}.get(answer, 200)
        self.send_response(status)
        if answer == "limited":
            self.send_header("Retry-After", "0.5")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def gateway(seed: int, limit_per_s: int) -> Iterator[Gateway]:
    """Serve on threads until the end of the block."""
    with Gateway(seed, limit_per_s) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()
