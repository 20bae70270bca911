"""TLS handshakes: they count as connections, and have the same timeout as a head."""

from __future__ import annotations

import asyncio
from asyncio.sslproto import SSLProtocol
from ssl import SSLContext
from typing import Any

from gapless.features.gateway import connection
from gapless.features.gateway.connection import Connection, enter
from gapless.features.gateway.room import Room
from gapless.features.gateway.traffic import Traffic


class Secured(SSLProtocol):
    """The layer below a TLS connection. asyncio's own counts nothing and waits for 60 s."""

    def __init__(self, context: SSLContext, room: Room, traffic: Traffic, **more: Any) -> None:
        above = Connection(room, traffic, **more)
        waiter: Any = None  # nothing waits for it
        bounds: dict[str, Any] = {"ssl_handshake_timeout": connection.HEAD_S_MAX}
        super().__init__(above.loop, above, context, waiter, server_side=True, **bounds)
        self._room = room
        self._traffic = traffic
        self._whose: str | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Let the client in, or cut it off before it costs more."""
        self._whose = enter(self._room, self._traffic, transport)
        if self._whose is not None:
            super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Forget the connection."""
        if self._whose is not None:
            self._room.leave(self._whose)
        super().connection_lost(exc)
