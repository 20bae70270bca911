"""One request to an endpoint, at an address that was judged; no redirects, proxies or cookies."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from time import monotonic

import httpx

from gapless.errors import UsageError
from gapless.webhooks.address import EndpointAddress, Network, RefusedAddressError, resolve

ANSWER_S_MAX = 10.0
ANSWER_BYTES_MAX = 64 << 10
BODY_S_MAX = 2.0  # for what follows the status
RESOLVED_S = 60.0  # so long an address serves, unless it cannot be connected to
_KEEP_S = 30.0
_TIMEOUTS = dict.fromkeys(("connect", "read", "write", "pool"), ANSWER_S_MAX)


@dataclass(frozen=True, slots=True)
class EndpointAnswer:
    """What an endpoint said. retry_after: the header, if there is one."""

    status: int
    retry_after: str | None = None


class UnansweredError(Exception):
    """There is no answer: refused, broken off, too slow, not to be looked up."""


def retry_after_s(said: str | None, *, now_s: float) -> float | None:
    """Return the seconds that a header Retry-After says, as a number or a date; None: it does not.

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
    """Return whose certificates are believed: the usual authorities, and those of a file.

    Raises UsageError for a file that has none.
    """
    context = httpx.create_ssl_context(trust_env=False)
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
        # The transport alone: a client has redirects, cookies and an environment.
        self._transport = httpx.AsyncHTTPTransport(
            verify=tls,
            trust_env=False,
            limits=httpx.Limits(
                max_connections=None,
                max_keepalive_connections=connections,
                keepalive_expiry=_KEEP_S,
            ),
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.aclose()

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
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            self._addresses = []
            why = f"{type(error).__name__}: {error}"
            raise UnansweredError(f"{self._target}: {why[:300]}") from None

    async def _post(self, body: bytes, headers: Mapping[str, str]) -> EndpointAnswer:
        addresses = await self._resolve()
        for address in addresses[:-1]:
            try:
                return await self._post_to(address, body, headers)
            except (httpx.ConnectError, httpx.ConnectTimeout):
                continue  # nothing was sent: another address of the same name may answer
        return await self._post_to(addresses[-1], body, headers)

    async def _resolve(self) -> list[str]:
        async with self._resolving:
            if not self._addresses or monotonic() > self._resolved_s + RESOLVED_S:
                self._addresses = []
                found = await resolve(self._target, self._allowed)
                if not found:
                    raise RefusedAddressError(f"{self._target} has no address")
                self._addresses, self._resolved_s = found, monotonic()
            return self._addresses

    async def _post_to(
        self, address: str, body: bytes, headers: Mapping[str, str]
    ) -> EndpointAnswer:
        target = self._target
        request = httpx.Request(
            "POST",
            httpx.URL(
                scheme=target.scheme, host=address, port=target.port, raw_path=target.raw_path
            ),
            headers={
                "host": target.authority,
                "content-type": "application/json",
                "content-length": str(len(body)),
                "accept-encoding": "identity",
                "user-agent": "gapless-webhooks",
                **headers,
            },
            content=body,
            extensions={"sni_hostname": target.host, "timeout": _TIMEOUTS},
        )
        response = await self._transport.handle_async_request(request)
        try:
            await _read_some(response)
        finally:
            await response.aclose()
        return EndpointAnswer(response.status_code, response.headers.get("retry-after"))


async def _read_some(response: httpx.Response) -> None:
    """Read an answer to its end, so that its connection can be kept; of a large one the beginning.

    It is thrown away, and never decompressed.
    """
    assert isinstance(response.stream, httpx.AsyncByteStream)
    size_bytes = 0
    with suppress(httpx.HTTPError, TimeoutError):  # its status is what counts
        async with asyncio.timeout(BODY_S_MAX):
            async for piece in response.stream:
                size_bytes += len(piece)
                if size_bytes > ANSWER_BYTES_MAX:
                    return
