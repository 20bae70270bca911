"""Limits of a connection: slow heads, bodies that are not read, stuck clients, too many at once.

uvicorn has none of these limits: its timer stops as soon as a byte arrives.
"""

from __future__ import annotations

import asyncio
from enum import Enum, auto
from http import HTTPStatus
from itertools import chain
from typing import Any, cast

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from gapless.features.gateway.body import WHOLE
from gapless.features.gateway.hosts import TARGET
from gapless.features.gateway.problem import Problem
from gapless.features.gateway.room import Room
from gapless.features.gateway.traffic import Asked, Traffic

HEAD_BYTES_MAX = 65_536  # of a request line and its headers
HEAD_S_MAX = 10.0  # the time in which a request line and headers have to arrive
UNREAD_S_MAX = 5.0  # for the rest of a body after its answer
SEND_S_MAX = 30.0  # the time in which a client has to take SEND_BYTES_MIN, or all
SEND_BYTES_MIN = 16_384
PIPELINED_MAX = 100  # requests that wait for the answer to an earlier one
_OF_BODIES = (b"content-length", b"transfer-encoding")


class _Sender:
    """A transport that counts the bytes it was given to send, and sends a head with its body."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._head = b""  # the head of an answer
        self._given_bytes = self._taken_bytes = 0
        self._taken_s = loop.time()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send data as soon as the client takes it; a head waits until the loop is idle."""
        self._given_bytes += len(data)
        if self._head or not data.startswith(b"HTTP/1.1 "):
            self._transport.write(self._head + data if self._head else data)
            self._head = b""
        else:  # a send is a third of the cost of an answer, and wakes the client
            self._head = data
            self._loop.call_soon(self._send_head)

    def close(self) -> None:
        """Send the rest, and close the transport."""
        self._send_head()
        self._transport.close()

    def _send_head(self) -> None:
        if self._head:
            self.write(b"")

    def is_stuck(self, now_s: float) -> bool:
        """Tell whether the client or the system has taken next to nothing for a long time."""
        left_bytes = sum(each.get_write_buffer_size() for each in _layers(self._transport))
        taken_bytes = self._given_bytes - left_bytes
        if not left_bytes or taken_bytes - self._taken_bytes >= SEND_BYTES_MIN:
            self._taken_bytes, self._taken_s = taken_bytes, now_s
        return now_s - self._taken_s > SEND_S_MAX


def _layers(transport: asyncio.Transport) -> list[asyncio.Transport]:
    """Return a transport and, under TLS, the one below it: each reports its own buffer only."""
    below = getattr(getattr(transport, "_ssl_protocol", None), "_transport", None)
    return [transport] if below is None else [transport, below]


def enter(room: Room, traffic: Traffic, transport: asyncio.BaseTransport) -> str | None:
    """Count a connection; return the argument of room.leave(). Cut off one too many: None."""
    peer = transport.get_extra_info("peername")
    host = peer[0] if peer else None
    whose = room.enter(host)
    if whose is None:
        cast("asyncio.Transport", transport).abort()
        said = "too many connections of this address"
        traffic.note(Asked(status=0, detail=said, client=host or ""))
    return whose


class _Expects(Enum):
    """The part of a request to which the next byte of a client belongs."""

    REQUEST = auto()  # the next request; an empty line may be before it
    HEAD = auto()
    BODY = auto()  # the body, or the trailers after it
    NOTHING = auto()  # all further bytes are ignored


class Connection(HttpToolsProtocol):
    """A connection of a client; `room` counts all connections of a gateway (for TLS: handshake.py).

    llhttp bounds neither a head nor the bytes around the parts of a body (extensions, trailers).
    """

    def __init__(self, room: Room, traffic: Traffic, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._room = room
        self._traffic = traffic
        self._whose: str | None = None
        self._leaves = False
        self._late: asyncio.TimerHandle | None = None
        self._expects = _Expects.REQUEST
        self._bytes_around = 0  # since a head or a part of a body was complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Let the client in, or cut it off before it costs more."""
        is_secured = transport.get_extra_info("sslcontext") is not None
        self._whose = "" if is_secured else enter(self._room, self._traffic, transport)
        if self._whose is None:
            return
        self._leaves = not is_secured
        self._sender = _Sender(transport, self.loop)
        super().connection_made(self._sender)  # type: ignore[arg-type]
        self._wait(HEAD_S_MAX)

    def end_if_stuck(self) -> None:
        """Cut off a client that takes next to nothing; close() would wait for it."""
        if self._sender.is_stuck(self.loop.time()):
            self._sender.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        if self._whose is None:
            return
        if self._leaves:
            self._room.leave(self._whose)
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read bytes. MUST NOT restart the timeout with each byte: a head could take forever."""
        if self._whose is None or self._expects is _Expects.NOTHING:
            return
        self._bytes_around += len(data)
        self._unset_keepalive_if_required()
        try:
            self._feed(data)
        except HttpParserError as error:
            why = error.__context__
            refused = why if isinstance(why, Problem) else Problem(400, "it is no HTTP request")
            self._refuse(refused.status, refused.detail)
            return
        if self._bytes_around > HEAD_BYTES_MAX:
            self._refuse(400, f"more than {HEAD_BYTES_MAX} bytes that are no body")
        elif self._late is None and not self._is_busy():
            self._wait_for_head()

    def on_message_begin(self) -> None:
        """Expect a head."""
        if self._expects is _Expects.REQUEST:
            self._expects = _Expects.HEAD
            super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Take a part of the target."""
        if self._expects is _Expects.HEAD:
            super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header. One after a body is ignored: the request has its answer by then."""
        if self._expects is _Expects.HEAD:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin to answer. Raises Problem for a head that is too long, or for another coding."""
        if self._expects is not _Expects.HEAD:
            return
        if sum(map(len, chain.from_iterable(self.headers))) > HEAD_BYTES_MAX:
            raise Problem(400, f"a head of more than {HEAD_BYTES_MAX} bytes")
        if len(self.pipeline) >= PIPELINED_MAX:
            raise Problem(400, f"more than {PIPELINED_MAX} requests that wait for an answer")
        if codings := [value for name, value in self.headers if name == b"transfer-encoding"]:
            self._require_chunked(codings)
        self._expects = _Expects.BODY
        self._bytes_around = 0
        self._stop_waiting()
        self.scope["extensions"] = {TARGET: {"url": self.url}}
        super().on_headers_complete()

    def _require_chunked(self, found: list[bytes]) -> None:
        """Raise Problem for a transfer coding that is not decoded here (RFC 9112, 6.1 and 6.3)."""
        codings = [each.strip().lower() for each in b",".join(found).split(b",") if each.strip()]
        if codings and (self.parser.get_http_version() != "1.1" or codings[-1] != b"chunked"):
            raise Problem(400, "Transfer-Encoding: its last one is chunked, and HTTP/1.0 has none")
        if len(codings) > 1:
            raise Problem(501, "Transfer-Encoding: a body is chunked, and nothing else")

    def on_body(self, body: bytes) -> None:
        """Take a part of a body."""
        self._bytes_around = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Expect the next request."""
        if self.parser.should_upgrade():
            return  # the message is not complete: see _feed()
        self._expects = _Expects.REQUEST
        self._bytes_around = 0
        self._stop_waiting()
        self.scope["extensions"][WHOLE] = {}
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Read the rest of a body for a while: a client cut off at once misses its answer."""
        super().on_response_complete()
        self._stop_waiting()
        if self._is_busy():
            return  # with a request that came in the meantime
        if self._expects is _Expects.BODY:
            self._wait(UNREAD_S_MAX)
        else:
            self._wait_for_head()

    def _refuse(self, status: int, detail: str) -> None:
        """Refuse the bytes as no request, unless an earlier answer is due first; then close."""
        is_next = self._expects is not _Expects.BODY
        self._expects = _Expects.NOTHING
        self._stop_waiting()
        if not (self.pipeline or (self._is_busy() and (is_next or self.cycle.response_started))):
            self._answer(status, detail)
        self.transport.close()

    def _feed(self, data: bytes) -> None:
        """Parse data. An upgrade that is offered is not taken.

        Java's client offers h2c with each request. llhttp ends there, before the body; so another
        parser continues, and is given only the headers of the body.
        """
        while data:
            try:
                self.parser.feed_data(data)
            except HttpParserUpgrade as offered:
                self.parser = HttpRequestParser(self)
                body = [each for each in self.headers if each[0] in _OF_BODIES]
                head = b"".join(b"%s: %s\r\n" % each for each in body)
                self.parser.feed_data(b"POST / HTTP/1.1\r\n" + head + b"\r\n")
                data = data[offered.args[0] :]
            else:
                return

    def _is_busy(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle  # None before the first request
        return cycle is not None and not cycle.response_complete

    def _wait_for_head(self) -> None:
        """Limit the time of a head that has begun; between requests uvicorn's timer is enough."""
        if self._expects is _Expects.HEAD or self._bytes_around:
            self._wait(HEAD_S_MAX)

    def _wait(self, seconds: float) -> None:
        self._stop_waiting()
        self._late = self.loop.call_later(seconds, self._end)

    def _stop_waiting(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _end(self) -> None:
        if self._expects is _Expects.HEAD:
            self._answer(408, f"the head of a request did not arrive within {HEAD_S_MAX:g} s")
        self.transport.close()

    def _answer(self, status: int, detail: str) -> None:
        answer = Problem(status, detail, headers={**self._traffic.headers}).response()
        answer.headers["connection"] = "close"
        head = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n".encode()]
        for name, value in (*self.server_state.default_headers, *answer.raw_headers):
            head.append(b"%s: %s\r\n" % (name, value))
        self.transport.write(b"".join([*head, b"\r\n", answer.body]))
        self._note(status, detail, self.client)

    def _note(self, status: int, detail: str, client: tuple[Any, ...] | None) -> None:
        self._traffic.note(
            Asked(status=status, detail=detail, client=str(client[0]) if client else "")
        )
