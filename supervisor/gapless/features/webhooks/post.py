"""One request to an endpoint, at a checked address; no redirects, proxies or cookies."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from email.utils import parsedate_to_datetime
from time import monotonic

import certifi

from gapless.errors import UsageError
from gapless.features.webhooks.address import EndpointAddress, Network, RefusedAddressError, resolve
from gapless.features.webhooks.kept import BrokenAnswerError, EndpointAnswer, KeptConnections

ANSWER_S_MAX = 10.0
BODY_S_MAX = 2.0  # for the rest of an answer after its status
RESOLVED_S = 60.0  # an address serves so long, unless no connection to it is possible


class UnansweredError(Exception):
    """There is no answer: refused, broken off, too slow, or the name cannot be looked up."""


def retry_after_s(said: str | None, *, now_s: float) -> float | None:
    """Return the seconds in a header Retry-After, given as a number or a date; None: neither.

    now_s: the time, in seconds since 1970.
    """
    if said is None:
        return None
    if said.isascii() and said.isdigit():
        return float(said[:9])
    with suppress(ValueError, TypeError, OverflowError):
        return max(0.0, parsedate_to_datetime(said).timestamp() - now_s)
    return None


def trust(ca_file: str | None) -> ssl.SSLContext:
    """Return a context that trusts the usual authorities, and those of a file.

    Raises UsageError for a file without any.
    """
    context = ssl.create_default_context(cafile=certifi.where())
    context.set_alpn_protocols(["http/1.1"])
    if ca_file is not None:
        try:
            context.load_verify_locations(ca_file)
        except (OSError, ssl.SSLError) as error:
            raise UsageError(f"webhookCaFile {ca_file}: {error.strerror or error}") from error
    return context


class Poster:
    """Sends to one endpoint, over connections that are kept; in one event loop, `close()` it."""

    def __init__(
        self,
        target: EndpointAddress,
        allowed: Sequence[Network],
        tls: ssl.SSLContext,
        connections: int,
    ) -> None:
        self._target = target
        self._allowed = allowed
        self._addresses: list[str] = []
        self._resolved_s = 0.0
        self._resolving = asyncio.Lock()
        self._connections = KeptConnections(
            target.host, target.port, tls if target.scheme == "https" else None, connections
        )
        self._headers = {
            "host": target.authority,
            "content-type": "application/json",
            "accept-encoding": "identity",
            "user-agent": "gapless-webhooks",
        }

    async def close(self) -> None:
        """Close the connections."""
        self._connections.close()

    async def post(self, body: bytes, headers: Mapping[str, str]) -> EndpointAnswer:
        """Send one request and return its answer, within ANSWER_S_MAX.

        Raises UnansweredError, and RefusedAddressError for an address that may not be called.
        """
        try:
            async with asyncio.timeout(ANSWER_S_MAX):
                return await self._post(body, headers)
        except TimeoutError:
            why = f"no answer within {ANSWER_S_MAX:.0f} s"
            raise UnansweredError(f"{self._target}: {why}") from None
        except (BrokenAnswerError, ValueError, OSError) as error:
            self._addresses = []
            why = f"{type(error).__name__}: {error}"
            raise UnansweredError(f"{self._target}: {why[:300]}") from None

    async def _post(self, body: bytes, headers: Mapping[str, str]) -> EndpointAnswer:
        address, connection = await self._connections.take(await self._resolve())
        length = {"content-length": str(len(body))}
        try:
            return await connection.ask(
                self._target.raw_path,
                self._headers | length | dict(headers),
                body,
                read_on_s=BODY_S_MAX,
            )
        finally:
            self._connections.give_back(address, connection)

    def _is_resolved(self) -> bool:
        return bool(self._addresses) and monotonic() <= self._resolved_s + RESOLVED_S

    async def _resolve(self) -> list[str]:
        if self._is_resolved():
            return self._addresses
        async with self._resolving:
            if not self._is_resolved():
                self._addresses = []
                found = await resolve(self._target, self._allowed)
                if not found:
                    raise RefusedAddressError(f"{self._target} has no address")
                self._addresses, self._resolved_s = found, monotonic()
            return self._addresses
