"""Connections to one endpoint, HTTP/1.1, that are kept from one request to the next.

Of an answer the status and one header are wanted: what follows them is counted, and thrown away.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic

import h11

ANSWER_BYTES_MAX = 64 << 10
HEAD_BYTES_MAX = 64 << 10
KEEP_S = 30.0


class BrokenAnswerError(Exception):
    """What came is no answer, or broke off before its status."""


@dataclass(frozen=True, slots=True)
class EndpointAnswer:
    """What an endpoint said. retry_after: the header, if there is one."""

    status: int
    retry_after: str | None = None


class EndpointConnection(asyncio.Protocol):
    """One connection: a request at a time."""

    def __init__(self) -> None:
        self.rested_s = 0.0  # when (time.monotonic) its last request was over
        self._transport: asyncio.Transport | None = None
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_BYTES_MAX)
        self._answered: asyncio.Future[EndpointAnswer] | None = None
        self._ended: asyncio.Future[None] | None = None  # the whole answer came, or no more comes
        self._size_bytes = 0

    @property
    def is_open(self) -> bool:
        """Whether another request can be made on it."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return False
        return self._http.our_state is self._http.their_state is h11.IDLE

    def close(self) -> None:
        """Close it; what was not sent yet is not sent."""
        if self._transport is not None:
            self._transport.abort()

    async def ask(
        self, path: bytes, headers: Mapping[str, str], body: bytes, *, read_on_s: float
    ) -> EndpointAnswer:
        """Send a request; return the answer as soon as it has come, or read_on_s after its status.

        Raises BrokenAnswerError, and OSError of the connection.
        """
        assert self._transport is not None
        loop = asyncio.get_running_loop()
        self._answered, self._ended = loop.create_future(), loop.create_future()
        self._size_bytes = 0
        request = h11.Request(method="POST", target=path, headers=list(headers.items()))
        sent = (self._http.send(each) for each in (request, h11.Data(body), h11.EndOfMessage()))
        try:
            self._transport.write(b"".join(each or b"" for each in sent))
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
        return answer

    def _rest(self) -> None:
        """Make it ready for another request, if it can be."""
        assert self._transport is not None
        http = self._http
        # Not what answered before it had read all, nor what said more than its answer.
        is_clean = not (self._transport.get_write_buffer_size() or http.trailing_data[0])
        if http.our_state is http.their_state is h11.DONE and is_clean:
            http.start_next_cycle()
            self.rested_s = monotonic()

    # -- what the loop says -----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        self._hear(data)

    def eof_received(self) -> None:
        """See asyncio.Protocol; the connection is closed then."""
        self._hear(b"")

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self._break(exc or BrokenAnswerError("closed without an answer"))

    def _hear(self, data: bytes) -> None:
        if self._answered is None or self._ended is None:  # nobody asked, so it says goodbye
            self.close()
            return
        try:
            self._http.receive_data(data)
            while not self._ended.done():
                event = self._http.next_event()
                if event is h11.NEED_DATA or event is h11.PAUSED:
                    return
                self._take(event, self._answered)
        except h11.RemoteProtocolError as error:
            self._break(BrokenAnswerError(str(error)))
            self.close()

    def _take(self, event: object, answered: asyncio.Future[EndpointAnswer]) -> None:
        if isinstance(event, h11.Response):
            after = next((value for name, value in event.headers if name == b"retry-after"), None)
            said = None if after is None else after.decode("latin-1")
            if not answered.done():
                answered.set_result(EndpointAnswer(event.status_code, said))
        elif isinstance(event, h11.Data):
            self._size_bytes += len(event.data)
            if self._size_bytes > ANSWER_BYTES_MAX:
                self._end()
                self.close()
        elif isinstance(event, h11.EndOfMessage | h11.ConnectionClosed):
            self._end()

    def _break(self, error: Exception) -> None:
        if self._answered is not None and not self._answered.done():
            self._answered.set_exception(error)
        self._end()

    def _end(self) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)


class KeptConnections:
    """Those to one endpoint, by address; in one event loop, `close()` them.

    kept: how many without a request at most. host: whose certificate is asked for; tls: None: http.
    """

    def __init__(self, host: str, port: int, tls: ssl.SSLContext | None, kept: int) -> None:
        self._host = host
        self._port = port
        self._tls = tls
        self._kept = kept
        self._resting: defaultdict[str, list[EndpointConnection]] = defaultdict(list)

    async def take(self, addresses: Sequence[str]) -> tuple[str, EndpointConnection]:
        """Return a connection to the first of the addresses that has, or lets us have, one.

        Raises what connecting to the last of them did, an OSError.
        """
        for gone in self._resting.keys() - set(addresses):
            self._drop(self._resting.pop(gone))
        for address in addresses[:-1]:
            with suppress(OSError):  # nothing was sent: another of the same name may answer
                return address, await self._open(address)
        return addresses[-1], await self._open(addresses[-1])

    def give_back(self, address: str, connection: EndpointConnection) -> None:
        """Keep a connection for another request, if it is good for one."""
        resting = self._resting[address]
        if connection.is_open and len(resting) < self._kept:
            resting.append(connection)
        else:
            connection.close()

    def close(self) -> None:
        """Close those that no request is under way on."""
        for resting in self._resting.values():
            self._drop(resting)

    async def _open(self, address: str) -> EndpointConnection:
        resting, stale_s = self._resting[address], monotonic() - KEEP_S
        while resting:
            connection = resting.pop()
            if connection.is_open and connection.rested_s > stale_s:
                return connection
            connection.close()
        loop = asyncio.get_running_loop()
        name = None if self._tls is None else self._host
        _, made = await loop.create_connection(
            EndpointConnection, address, self._port, ssl=self._tls, server_hostname=name
        )
        return made

    def _drop(self, connections: list[EndpointConnection]) -> None:
        while connections:
            connections.pop().close()
