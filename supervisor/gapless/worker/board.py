"""Shared memory in which each worker says since when it has been busy: no pipe, no lock, no wait.

Made before the first fork, inherited by every child. One aligned 64-bit word per worker, so a
reader never sees half a value.
"""

from __future__ import annotations

import mmap
import time

_WORD_BYTES = 8


class Board:
    """`slots` words; 0 means idle, else time.monotonic_ns() at which the present step began."""

    def __init__(self, slots: int) -> None:
        self._words = memoryview(mmap.mmap(-1, slots * _WORD_BYTES)).cast("q")

    def begin(self, slot: int) -> None:
        """Mark a slot busy from now on."""
        self._words[slot] = time.monotonic_ns()

    def end(self, slot: int) -> None:
        """Mark a slot idle."""
        self._words[slot] = 0

    def busy_ms(self, slot: int) -> float:
        """Return for how long a slot has been busy, 0 when idle."""
        since = self._words[slot]
        return (time.monotonic_ns() - since) / 1e6 if since else 0.0
