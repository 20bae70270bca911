"""A bell that any thread may ring, and that a worker hears while it waits for descriptors."""

from __future__ import annotations

import os
from contextlib import suppress


class Wakeup:
    """Rings until it is silenced, however often it was rung."""

    def __init__(self) -> None:
        self._heard, self._rung = os.pipe()
        os.set_blocking(self._heard, False)
        os.set_blocking(self._rung, False)

    def fileno(self) -> int:
        """Return a descriptor that is readable while the bell rings."""
        return self._heard

    def ring(self) -> None:
        """Ring the bell, from any thread."""
        with suppress(BlockingIOError):  # full: it rings already
            os.write(self._rung, b".")

    def silence(self) -> bool:
        """Silence the bell; tell whether it rang."""
        with suppress(BlockingIOError):
            return bool(os.read(self._heard, 65_536))
        return False
