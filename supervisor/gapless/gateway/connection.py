"""A connection in its time: heads that come slowly, bodies that nobody reads, too many at once.

uvicorn has none of these limits: its clock stands still as soon as a byte comes.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from gapless.errors import UsageError

HEAD_S_MAX = 10.0  # for a request line and headers to arrive
UNREAD_S_MAX = 5.0  # for the rest of a body, once it is answered for
_TOO_LATE = (
    b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"  # no request
)
_PREFIX_BITS = 64  # of IPv6: one customer's

Networks = tuple[IPv4Network | IPv6Network, ...]


def networks(texts: Sequence[str]) -> Networks:
    """Return addresses and networks of proxies. Raises UsageError for what is none."""
    try:
        return tuple(ip_network(each.strip()) for each in texts)
    except ValueError as error:
        raise UsageError(
            f"--behind-proxy: {error}: say addresses or networks, such as 10.0.0.5,10.1.0.0/16"
        ) from None


class Room:
    """How many connections each address has; proxies that are trusted have any number."""

    def __init__(self, each_max: int, proxies: Networks = ()) -> None:
        self._each_max = each_max
        self._proxies = proxies
        self._open: Counter[str] = Counter()

    def enter(self, host: str | None) -> str | None:
        """Count one; return what to leave() with, None when there are too many."""
        whose = self._whose(host)
        if whose and self._open[whose] >= self._each_max:
            return None
        self._open[whose] += 1
        return whose

    def leave(self, whose: str) -> None:
        """Count one less."""
        self._open[whose] -= 1
        if not self._open[whose]:
            del self._open[whose]

    def _whose(self, host: str | None) -> str:
        """Return whom a connection counts for; "": nobody."""
        address = ip_address((host or "0.0.0.0").partition("%")[0])  # noqa: S104 - none is known
        mapped = getattr(address, "ipv4_mapped", None) or address
        if any(mapped in network for network in self._proxies):
            return ""
        if mapped.version == 4:
            return str(mapped)
        return str(ip_network(f"{mapped}/{_PREFIX_BITS}", strict=False))


class Connection(H11Protocol):
    """One of a client; `room`: where all of a gateway are counted."""

    def __init__(self, room: Room, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._room = room
        self._whose: str | None = None
        self._late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Let it in, or cut it off before it costs more."""
        peer = transport.get_extra_info("peername")
        self._whose = self._room.enter(peer[0] if peer else None)
        if self._whose is None:
            transport.abort()
            return
        super().connection_made(transport)
        self._wait(HEAD_S_MAX)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        if self._whose is None:
            return
        self._room.leave(self._whose)
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read it. MUST not begin to wait anew with each byte: it would last forever."""
        if self._whose is None:
            return
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            if self._late is None and self.conn.trailing_data[0]:
                self._wait(HEAD_S_MAX)
        elif not self._is_unread():
            self._stop_waiting()

    def on_response_complete(self) -> None:
        """Take what is left of a body for a while: cut off at once, a client misses its answer."""
        super().on_response_complete()
        self._stop_waiting()
        if self._is_unread():
            self._wait(UNREAD_S_MAX)
        elif self.conn.their_state is h11.IDLE and self.conn.trailing_data[0]:
            self._wait(HEAD_S_MAX)

    def _is_unread(self) -> bool:
        return self.conn.their_state is h11.SEND_BODY and self.conn.our_state in (
            h11.DONE,
            h11.MUST_CLOSE,
        )

    def _wait(self, seconds: float) -> None:
        self._stop_waiting()
        self._late = self.loop.call_later(seconds, self._end)

    def _stop_waiting(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _end(self) -> None:
        if self.conn.their_state is h11.IDLE and self.conn.trailing_data[0]:
            self.transport.write(_TOO_LATE)
        self.transport.close()
