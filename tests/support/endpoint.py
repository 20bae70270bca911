"""An endpoint for webhooks: a real HTTP or HTTPS server whose answers a test chooses."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from standardwebhooks.webhooks import Webhook

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@dataclass(frozen=True, slots=True)
class Call:
    """A request that was received. at_s: time.monotonic()."""

    path: str
    headers: dict[str, str]
    body: bytes
    at_s: float

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def data(self) -> list[Any]:
        """Return its payloads, after checking the signature."""
        return [event["data"] for event in self.verified["events"]]

    @property
    def verified(self) -> Any:
        return Webhook(SECRET).verify(self.body, self.headers)


@dataclass(slots=True)
class Reply:
    """An answer. sends: more of the body, piece by piece. wait_s: a delay before all of it."""

    status: int = 204
    headers: dict[str, str] = field(default_factory=dict)
    sends: Callable[[], Iterator[bytes]] | None = None
    wait_s: float = 0.0


class Server:
    """`answer` chooses the reply to a call; calls has all calls, also those that had to wait."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.calls: list[Call] = []
        self.sent_bytes = 0
        self.answer: Callable[[Call], Reply] = lambda _: Reply()

    def of(self, path: str) -> list[Call]:
        """Return the calls of one path."""
        return [call for call in list(self.calls) if call.path == path]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Listener

    def do_POST(self) -> None:
        size_bytes = int(self.headers["content-length"])
        body = self.rfile.read(size_bytes)
        if len(body) < size_bytes:  # the sender was killed
            self.close_connection = True
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        call = Call(self.path, headers, body, time.monotonic())
        self.server.made.calls.append(call)
        reply = self.server.made.answer(call)
        time.sleep(reply.wait_s)
        try:
            self._reply(reply)
        except OSError:  # the caller hung up
            self.close_connection = True

    def _reply(self, reply: Reply) -> None:
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        if reply.sends is None:
            self.send_header("content-length", "0")
            self.end_headers()
            return
        self.close_connection = True
        self.end_headers()
        for piece in reply.sends():
            self.wfile.write(piece)
            self.server.made.sent_bytes += len(piece)

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    made: Server

    def handle_error(self, *_: Any) -> None:
        """Print nothing: a caller that hangs up is no error here."""


@contextmanager
def serving(tls: ssl.SSLContext | None = None) -> Iterator[Server]:
    """Serve on a free port of 127.0.0.1."""
    server = _Listener(("127.0.0.1", 0), _Handler)
    server.socket.listen(256)
    if tls is not None:
        server.socket = tls.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
    scheme = "http" if tls is None else "https"
    server.made = Server(f"{scheme}://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server.made
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def workers_of(group: str) -> list[int]:
    """Return the processes that deliver for a group, by their titles."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # the process has ended
            if f"gapless: worker {group}/" in path.read_bytes().decode(errors="replace"):
                found.append(int(path.parent.name))
    return found
