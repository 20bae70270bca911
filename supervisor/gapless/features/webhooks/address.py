"""URLs and addresses that may be called, and the lookup of a name's addresses (SSRF).

A name is looked up once, each of its addresses is checked, and the connection goes to one of
these: a later answer for the name does not matter.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from urllib.parse import urlsplit

from gapless.errors import UsageError

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

URL_CHARACTERS_MAX = 2000
_PRINTABLE = re.compile(r"[!-~]+")
_LABEL = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)")
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")
_DEFAULT_PORTS = {"https": 443, "http": 80}

# Networks outside of the internet, whichever of them Python knows. Python's own list comes on top.
_REFUSED: tuple[tuple[str, str], ...] = (
    ("0.0.0.0/8", "this network"),
    ("10.0.0.0/8", "private"),
    ("100.64.0.0/10", "shared by carriers (CGNAT)"),
    ("127.0.0.0/8", "loopback"),
    ("168.63.129.16/32", "of the machine's host (Azure)"),
    ("169.254.0.0/16", "link-local"),
    ("172.16.0.0/12", "private"),
    ("192.0.0.0/24", "reserved"),
    ("192.0.2.0/24", "for documentation"),
    ("192.88.99.0/24", "a 6to4 relay"),
    ("192.168.0.0/16", "private"),
    ("198.18.0.0/15", "for benchmarks"),
    ("198.51.100.0/24", "for documentation"),
    ("203.0.113.0/24", "for documentation"),
    ("224.0.0.0/4", "multicast"),
    ("240.0.0.0/4", "reserved"),
    ("64:ff9b:1::/48", "NAT64 of a private network"),
    ("100::/64", "discarded"),
    ("2001::/23", "Teredo, or reserved"),
    ("2001:db8::/32", "for documentation"),
    ("2002::/16", "6to4"),
    ("3fff::/20", "for documentation"),
    ("5f00::/16", "for segment routing"),
    ("fc00::/7", "private"),
    ("fe80::/10", "link-local"),
    ("fec0::/10", "site-local"),
    ("ff00::/8", "multicast"),
    ("::/3", "loopback, unspecified, or made of an IPv4 address"),
    ("4000::/2", "not assigned"),
    ("8000::/1", "not assigned"),
)
_NETWORKS = tuple((ipaddress.ip_network(text), what) for text, what in _REFUSED)
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


class RefusedAddressError(Exception):
    """An endpoint's URL or address may not be called; the text names it, and the reason."""


@dataclass(frozen=True, slots=True)
class EndpointAddress:
    """The parts of a URL. host: without brackets. raw_path: path and query, as sent."""

    scheme: str
    host: str
    port: int
    raw_path: bytes

    @property
    def authority(self) -> str:
        """The value of the header Host."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    def __str__(self) -> str:
        """Leave out the path, which may be a secret."""
        return f"{self.scheme}://{self.authority}"


def parse_target(url: str, *, allow_http: bool = False) -> EndpointAddress:
    """Return the parts of a URL that may be called. Raises UsageError for any other URL."""
    if len(url) > URL_CHARACTERS_MAX or not _PRINTABLE.fullmatch(url) or set(url) & set("\\#"):
        raise UsageError(
            f"give a URL of at most {URL_CHARACTERS_MAX} ASCII characters, without spaces, # and \\"
        )
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise UsageError(f"this is no URL: {error}") from error
    if parts.scheme != "https" and not (parts.scheme == "http" and allow_http):
        raise UsageError("the URL has to begin with https:// (http only where that is allowed)")
    if "@" in parts.netloc:
        raise UsageError("the URL has a user or a password in it: leave them out")
    if port == 0:
        raise UsageError("port 0 is none")
    _require_host(host)
    raw_path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return EndpointAddress(
        parts.scheme,
        host.removesuffix("."),
        port or _DEFAULT_PORTS[parts.scheme],
        raw_path.encode(),
    )


def _require_host(host: str) -> None:
    """Refuse a host that is neither a name nor a usual address, such as 0x7f.1 or 2130706433.

    The resolver may read such a host differently from its author, or from a check.
    """
    if ":" in host:
        try:
            ipaddress.IPv6Address(host)
        except ValueError:
            raise UsageError(f"{host[:100]} is no address") from None
        if "%" in host:
            raise UsageError(f"{host[:100]}: an address without a zone")
        return
    host = host.removesuffix(".")
    labels = host.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        try:
            ipaddress.IPv4Address(host)
        except ValueError:
            raise UsageError(f"{host[:100]} is no address: write it as 192.0.2.1") from None
    elif not all(_LABEL.fullmatch(label) for label in labels) or len(host) > 253:
        raise UsageError(f"{host[:100] or 'nothing'} is no name of a host (xn--… where not ASCII)")


def networks_of(texts: Iterable[str]) -> tuple[Network, ...]:
    """Return private networks that may be called. Raises UsageError."""
    try:
        return tuple(ipaddress.ip_network(text) for text in texts)
    except ValueError as error:
        raise UsageError(f"webhookAllow: {error}: write 10.1.2.0/24 or 10.1.2.3") from error


def why_refused(address: Address, allowed: Sequence[Network] = ()) -> str | None:
    """Return the reason why an address may not be called; None: it may.

    allowed: networks that may be called all the same.
    """
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return why_refused(address.ipv4_mapped, allowed)
        if address.scope_id is not None:
            return "an address with a zone"
        if address in _NAT64:
            return why_refused(IPv4Address(int(address) & 0xFFFF_FFFF), allowed)
    if any(address in network for network in allowed):
        return None
    what = next((what for network, what in _NETWORKS if address in network), None)
    if what is None and _is_isatap(address):
        what = "ISATAP"
    return what or (None if address.is_global else "not on the internet")


def _is_isatap(address: Address) -> bool:
    """Tell whether an IPv6 address has an IPv4 one in its lower half (RFC 5214)."""
    if isinstance(address, IPv4Address):
        return False
    return (int(address) >> 32) & 0xFCFF_FFFF == 0x0000_5EFE


async def resolve(target: EndpointAddress, allowed: Sequence[Network] = ()) -> list[str]:
    """Return the addresses of a host, all of which may be called, in the order of the system.

    Raises OSError when the name cannot be looked up, RefusedAddressError when any of its addresses
    may not be called: then none of them may.
    """
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(
            target.host, target.port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP
        )
    except UnicodeError as error:
        raise OSError(f"{target.host[:100]} cannot be looked up") from error
    addresses = list(dict.fromkeys(str(each[4][0]) for each in found))
    for text in addresses:
        what = why_refused(ipaddress.ip_address(text), allowed)
        if what is not None:
            raise RefusedAddressError(
                f"{target} is at {text}, which is {what}: webhookAllow names networks that may be "
                "called all the same"
            )
    return addresses
