"""Waits that grow with each failure, until a try succeeds."""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic

import tenacity

BACKOFF_S_MAX = 5.0


@dataclass(slots=True)
class Backoff:
    """When the next child may be forked after one that ended unasked: due_s (monotonic)."""

    failures: int = 0
    due_s: float = 0.0

    def note(self, *, steady: bool) -> None:
        """Count a failure: the first restart is immediate, each later one waits longer.

        steady: the child had lived long, or made progress, before: this failure counts as first.
        """
        self.failures = 1 if steady else self.failures + 1
        wait = 0.0 if self.failures == 1 else min(0.05 * 2**self.failures, BACKOFF_S_MAX)
        self.due_s = monotonic() + wait


class Retries:
    """Counts the failures in a row; waits have jitter, and none is longer than `wait_s_max`."""

    def __init__(self, wait_s_max: float) -> None:
        self._wait_s = tenacity.wait_random_exponential(multiplier=0.05, max=wait_s_max)
        self._state = tenacity.RetryCallState(tenacity.Retrying(), None, (), {})
        self.failures = 0

    def failed(self) -> float:
        """Count a failure; return the seconds to wait before the next try."""
        self.failures += 1
        self._state.attempt_number = self.failures
        return self._wait_s(self._state)

    def succeeded(self) -> None:
        """Begin anew."""
        self.failures = 0
