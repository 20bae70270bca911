"""HTTP/1.1 connections to one endpoint that are kept from one request to the next.

Of an answer the status and one header are used, and the beginning of its text unless it is a 2xx:
the rest is counted, and thrown away.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from http import HTTPStatus
from time import monotonic
from typing import Literal

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

ANSWER_BYTES_MAX = 64 << 10
HEAD_BYTES_MAX = 64 << 10
KEEP_S = 30.0
ANSWER_TEXT_CHARACTERS = 200
_TEXT_BYTES = 4 * ANSWER_TEXT_CHARACTERS


class BrokenAnswerError(Exception):
    """The received bytes are no answer, or it broke off before its status."""


@dataclass(frozen=True, slots=True)
class EndpointAnswer:
    """The answer of an endpoint. retry_after: the header, if there is one.

    text: the first ANSWER_TEXT_CHARACTERS of an answer other than 2xx, as they came.
    """

    status: int
    retry_after: str | None = None
    text: str = ""


class EndpointConnection(asyncio.Protocol):
    """One connection: a request at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._parser = _parser(self)
        self._answered: asyncio.Future[EndpointAnswer] | None = None
        self._ended: asyncio.Future[None] | None = None  # the whole answer came, or no more comes
        self._after: str | None = None
        self._text = b""
        self._size_bytes = 0
        # answered: completely, and another request may follow; ended: no more requests.
        self._state: Literal["idle", "asked", "answered", "ended"] = "idle"

    @property
    def is_open(self) -> bool:
        """Whether another request can be made on it."""
        transport = self._transport
        return self._state == "idle" and transport is not None and not transport.is_closing()

    def close(self) -> None:
        """Close it; unsent bytes are not sent."""
        if self._transport is not None:
            self._transport.abort()

    async def ask(
        self, path: bytes, headers: Mapping[str, str], body: bytes, *, read_on_s: float
    ) -> EndpointAnswer:
        """Send a request; return the answer as soon as it has come, or read_on_s after its status.

        Raises BrokenAnswerError, OSError of the connection, and ValueError for an invalid
        header: nothing was sent then.
        """
        assert self._transport is not None
        request = _head(path, headers) + body
        loop = asyncio.get_running_loop()
        self._answered, self._ended = loop.create_future(), loop.create_future()
        self._after, self._text, self._size_bytes = None, b"", 0
        self._state = "asked"
        try:
            self._transport.write(request)
            answer = await self._answered
            if not self._ended.done():
                with suppress(TimeoutError):
                    async with asyncio.timeout(read_on_s):
                        await self._ended
            self._rest()
        finally:
            self._answered = self._ended = None
            if not self.is_open:
                self.close()
        if self._text:
            text = self._text.decode(errors="replace")[:ANSWER_TEXT_CHARACTERS]
            return replace(answer, text=text)
        return answer

    def _rest(self) -> None:
        """Prepare for another request, if that is possible."""
        assert self._transport is not None
        # Not after an answer that arrived before the endpoint had read the whole request.
        if self._state == "answered" and not self._transport.get_write_buffer_size():
            self._state = "idle"

    # -- called by the loop -----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        if self._answered is None:  # no request is open, so the endpoint says goodbye
            self.close()
            return
        self._size_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            self._break(BrokenAnswerError(str(error)))
        else:
            if not self._answered.done() and self._size_bytes > HEAD_BYTES_MAX:
                self._break(BrokenAnswerError(f"its head has more than {HEAD_BYTES_MAX} bytes"))
            elif self._size_bytes > HEAD_BYTES_MAX + ANSWER_BYTES_MAX:
                self._break(BrokenAnswerError("its answer is too long"))

    def eof_received(self) -> None:
        """See asyncio.Protocol; afterwards the connection is closed."""
        self._break(BrokenAnswerError("closed without an answer"))

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self._break(exc or BrokenAnswerError("closed without an answer"))

    def _break(self, error: Exception) -> None:
        """Stop reading; a wait for the answer gets the error, if there is no answer yet."""
        self._state = "ended"
        if self._answered is not None and not self._answered.done():
            self._answered.set_exception(error)
        self._end()
        self.close()

    def _end(self) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    # -- called by the parser ---------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """See httptools: of an answer, of a response before it (1xx), or of an unrequested one."""
        if self._state != "asked":
            self._break(BrokenAnswerError("more than an answer came"))

    def on_header(self, name: bytes, value: bytes) -> None:
        """See httptools."""
        if name.lower() == b"retry-after" and self._after is None:
            self._after = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """See httptools."""
        status, said = self._parser.get_status_code(), self._after
        if status < HTTPStatus.OK:
            self._after = None
        elif self._answered is not None and not self._answered.done():
            self._answered.set_result(EndpointAnswer(status, said))

    def on_body(self, body: bytes) -> None:
        """See httptools."""
        if self._parser.get_status_code() >= HTTPStatus.MULTIPLE_CHOICES:
            self._text += body[: _TEXT_BYTES - len(self._text)]

    def on_message_complete(self) -> None:
        """See httptools."""
        if self._parser.get_status_code() >= HTTPStatus.OK:
            self._state = "answered" if self._parser.should_keep_alive() else "ended"
            self._end()


def _parser(heard: EndpointConnection) -> HttpResponseParser:
    """Return a parser that is lenient where endpoints in use need it."""
    parser = HttpResponseParser(heard)
    parser.set_dangerous_leniencies(lenient_chunked_length=True, lenient_optional_cr_before_lf=True)
    return parser


def _head(path: bytes, headers: Mapping[str, str]) -> bytes:
    """Return the bytes before the body. Raises ValueError for headers that hold more."""
    lines = [f"POST {path.decode()} HTTP/1.1", *(f"{n}: {said}" for n, said in headers.items())]
    if not all(line.isascii() and line.isprintable() for line in lines):
        raise ValueError("a header may have printable characters of ASCII only")
    return "\r\n".join([*lines, "\r\n"]).encode()


class KeptConnections:
    """Connections to one endpoint, by address; in one event loop, `close()` them.

    kept: the maximum of connections without a request. host: the name for the certificate;
    tls: None: http.
    """

    def __init__(self, host: str, port: int, tls: ssl.SSLContext | None, kept: int) -> None:
        self._host = host
        self._port = port
        self._tls = tls
        self._kept = kept
        # Each with the moment (time.monotonic) since which it rests.
        self._resting: defaultdict[str, list[tuple[EndpointConnection, float]]] = defaultdict(list)

    async def take(self, addresses: Sequence[str]) -> tuple[str, EndpointConnection]:
        """Return a connection to the first address that has a kept one, or accepts a new one.

        Raises the OSError of the last attempt to connect.
        """
        for gone in self._resting.keys() - set(addresses):
            self._drop(self._resting.pop(gone))
        for address in addresses[:-1]:
            with suppress(OSError):  # nothing was sent: another address of the name may answer
                return address, await self._open(address)
        return addresses[-1], await self._open(addresses[-1])

    def give_back(self, address: str, connection: EndpointConnection) -> None:
        """Keep a connection for another request, if it can take one."""
        resting = self._resting[address]
        if connection.is_open and len(resting) < self._kept:
            resting.append((connection, monotonic()))
        else:
            connection.close()

    def close(self) -> None:
        """Close the connections without a request under way."""
        for resting in self._resting.values():
            self._drop(resting)

    async def _open(self, address: str) -> EndpointConnection:
        resting, stale_s = self._resting[address], monotonic() - KEEP_S
        while resting:
            connection, rested_s = resting.pop()
            if connection.is_open and rested_s > stale_s:
                return connection
            connection.close()
        loop = asyncio.get_running_loop()
        name = None if self._tls is None else self._host
        _, made = await loop.create_connection(
            EndpointConnection, address, self._port, ssl=self._tls, server_hostname=name
        )
        return made

    def _drop(self, resting: list[tuple[EndpointConnection, float]]) -> None:
        while resting:
            resting.pop()[0].close()
