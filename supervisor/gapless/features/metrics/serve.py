"""The HTTP of an exporter: three addresses to read, at a socket that its supervisor has opened."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.util import find_spec
from socketserver import ThreadingMixIn
from threading import BoundedSemaphore
from typing import Any, NamedTuple

from gapless.errors import UsageError
from gapless.settings.kinds import host_and_port

CONNECTIONS_MAX = 32  # further connections are refused
REQUEST_S_MAX = 5.0  # the time in which a request has to arrive


class Reply(NamedTuple):
    """An answer: its status, type and body."""

    status: int
    body: bytes
    content_type: str


Replies = Mapping[str, Callable[[str], Reply]]
"""By path: a function that makes a page from the Accept header."""


def open_socket(address: str, what: str = "metrics cannot be read") -> socket.socket:
    """Listen at an address of the settings (kinds.Address); `what` begins the error if that fails.

    Raises UsageError, in one line, when the address cannot be used.
    """
    host, port = host_and_port(address)
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        made = socket.socket(family, kind, protocol)
    except OSError as error:
        raise _refused(address, error, what) from error
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(where)
        made.listen(CONNECTIONS_MAX)
    except OSError as error:
        made.close()
        raise _refused(address, error, what) from error
    return made


def open_metrics(address: str) -> socket.socket:
    """Listen for readers of metrics at an address, before all other work.

    Raises UsageError when the address cannot be used, or an extra for metrics is not installed.
    """
    if find_spec("prometheus_client") is None:
        raise UsageError('metrics need prometheus-client: pip install "gapless[metrics]"')
    return open_socket(address)


def _refused(address: str, error: OSError, what: str) -> UsageError:
    why = error.strerror or str(error)
    return UsageError(f"{what} at {address}: {why}: choose another address")


class HttpServer(ThreadingMixIn, HTTPServer):
    """Answers each request on a thread of its own."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, listening: socket.socket, pages: Replies) -> None:
        super().__init__(listening.getsockname()[:2], _Request, bind_and_activate=False)
        self.socket.close()
        self.socket = listening
        self.pages = pages
        self._places = BoundedSemaphore(CONNECTIONS_MAX)

    def verify_request(self, request: object, client_address: object) -> bool:  # noqa: ARG002
        """Tell whether there is a place for one more."""
        return self._places.acquire(blocking=False)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, then free the place."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore a reader that went away."""


class _Request(BaseHTTPRequestHandler):
    timeout = REQUEST_S_MAX  # type: ignore[mutable-override]
    server_version = "gapless"
    sys_version = ""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        assert isinstance(self.server, HttpServer)
        pages = self.server.pages
        make = pages.get(path)
        if make is None:
            known = ", ".join(pages)
            page = Reply(404, f"there is no {path}: read {known}\n".encode(), "text/plain")
        else:
            page = make(self.headers.get("Accept", ""))
        self.send_response(page.status)
        self.send_header("Content-Type", page.content_type)
        self.send_header("Content-Length", str(len(page.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(page.body)

    do_HEAD = do_GET  # noqa: N815 - as http.server calls it

    def log_message(self, *_: object) -> None:
        """Log no request: they come every few seconds."""
