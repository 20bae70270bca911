"""How long a partition waits for a database to become what its handler expects (pure)."""

from __future__ import annotations

PATIENCE_S = 60.0
PATIENCE_BACK_S = 600.0


class Patience:
    """Begins with the first error and lasts PATIENCE_S; PATIENCE_BACK_S after the last it is back.

    One for a partition, not for a unit: where some events can never be handled, it is lost once.
    """

    def __init__(self) -> None:
        self._began_s: float | None = None
        self._last_s = 0.0

    def lasts(self, now_s: float) -> bool:
        """Note one more such error; tell whether to wait, and not to ask the policy yet."""
        if self._began_s is None or now_s - self._last_s > PATIENCE_BACK_S:
            self._began_s = now_s
        self._last_s = now_s
        return now_s - self._began_s < PATIENCE_S
