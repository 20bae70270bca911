"""Room for connections: the limits of each address, and of all together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from gapless.errors import UsageError

CONNECTIONS_MAX = 10_000
_PREFIX_BITS = 64  # of IPv6: the network of one customer

Networks = tuple[IPv4Network | IPv6Network, ...]


def networks(texts: Sequence[str]) -> Networks:
    """Return addresses and networks of proxies. Raises UsageError for invalid ones."""
    try:
        return tuple(ip_network(each.strip()) for each in texts)
    except ValueError as error:
        raise UsageError(
            f"--behind-proxy: {error}: say addresses or networks, such as 10.0.0.5,10.1.0.0/16"
        ) from None


class Room:
    """Counts the connections of each address; trusted proxies may have any number."""

    def __init__(self, each_max: int, proxies: Networks = ()) -> None:
        self._each_max = each_max
        self._proxies = proxies
        self._open: Counter[str] = Counter()
        self._total_connections = 0
        self.is_full = False  # there are more connections than are served

    def enter(self, host: str | None) -> str | None:
        """Count one more; return the argument of leave(), None if there are too many."""
        whose = self._whose(host)
        if whose and self._open[whose] >= self._each_max:
            return None
        self._open[whose] += 1
        self._count(1)
        return whose

    def leave(self, whose: str) -> None:
        """Count one less."""
        self._open[whose] -= 1
        self._count(-1)
        if not self._open[whose]:
            del self._open[whose]

    def _count(self, more: int) -> None:
        self._total_connections += more
        self.is_full = self._total_connections > CONNECTIONS_MAX

    def _whose(self, host: str | None) -> str:
        """Return the address for which a connection counts; "": it counts for none."""
        address = ip_address((host or "0.0.0.0").partition("%")[0])  # noqa: S104 - none is known
        mapped = getattr(address, "ipv4_mapped", None) or address
        if any(mapped in network for network in self._proxies):
            return ""
        if mapped.version == 4:
            return str(mapped)
        return str(ip_network(f"{mapped}/{_PREFIX_BITS}", strict=False))
