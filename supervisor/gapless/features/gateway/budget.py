"""A budget of memory for the bodies of requests: for all together, and for each key or token."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gapless.features.gateway.problem import Problem

FREE_BYTES = 65_536  # bytes of each body that do not count: small ones are always taken
_LATER = {"Retry-After": "1"}


class BodyBudget:
    """Counts the bytes that are held: at most 4 of the largest bodies, 2 for one caller."""

    def __init__(self, batch_bytes_max: int) -> None:
        self._all_bytes_max = 4 * batch_bytes_max
        self._own_bytes_max = 2 * batch_bytes_max
        self._held_bytes: Counter[str] = Counter()

    @contextmanager
    def hold(self, caller: str) -> Iterator[Callable[[int], None]]:
        """Yield a function to call with a body's size as it grows; hold the bytes until the end.

        caller: "" is a request without a key. The function raises Problem: 429 or 503.
        """
        held = 0

        def grow(size_bytes: int) -> None:
            nonlocal held
            if size_bytes <= FREE_BYTES:
                return
            more = size_bytes - FREE_BYTES - held
            if caller and self._held_bytes[caller] + more > self._own_bytes_max:
                most = f"{self._own_bytes_max} bytes of bodies at a time"
                raise Problem(429, f"{caller} may send {most}", headers=_LATER)
            if self._held_bytes.total() + more > self._all_bytes_max:
                most = f"more than {self._all_bytes_max} bytes"
                raise Problem(503, f"bodies of requests take {most}", headers=_LATER)
            self._held_bytes[caller] += more
            held += more

        try:
            yield grow
        finally:
            self._held_bytes[caller] -= held
            if not self._held_bytes[caller]:
                del self._held_bytes[caller]
