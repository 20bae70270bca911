"""The settings of the gateway."""

from __future__ import annotations

from dataclasses import dataclass

from gapless.settings.declare import setting, whole
from gapless.settings.kinds import Address

LISTEN = "127.0.0.1:8080"


@dataclass(frozen=True, kw_only=True)
class GatewaySettings:
    """The gateway (HTTP)."""

    gateway: str | None = setting(Address(null=LISTEN))
    """The address on which `gapless gateway` listens; port 0 is any that is free. It needs the
    extra `http`."""

    gateway_sessions: int = whole(16, 1, 500)
    """Sessions of a gateway with the database, and so its concurrent requests; others wait their
    turn."""

    max_event_bytes: int = whole(1_048_576, 1_024, 268_435_456)
    """Bytes of one event, as JSON, that a gateway accepts (1 MiB: 1048576)."""

    max_batch_bytes: int = whole(16_777_216, 1_024, 1_073_741_824)
    """Bytes of the body of a request that a gateway accepts (16 MiB: 16777216)."""

    max_batch_events: int = whole(10_000, 1, 1_000_000)
    """Events in the body of a request that a gateway accepts."""
