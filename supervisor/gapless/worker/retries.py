"""Waits that grow from one failure to the next, with jitter, until something succeeds."""

from __future__ import annotations

import tenacity


class Retries:
    """Counts the failures in a row; no wait is longer than `wait_s_max`."""

    def __init__(self, wait_s_max: float) -> None:
        self._wait_s = tenacity.wait_random_exponential(multiplier=0.05, max=wait_s_max)
        self._state = tenacity.RetryCallState(tenacity.Retrying(), None, (), {})
        self.failures = 0

    def failed(self) -> float:
        """Count a failure; return how many seconds to wait before the next try."""
        self.failures += 1
        self._state.attempt_number = self.failures
        return self._wait_s(self._state)

    def succeeded(self) -> None:
        """Begin anew."""
        self.failures = 0
