"""How long a test waits: what is promised for a quiet machine, and more on one that is not."""

from __future__ import annotations

import os

BELOW_TIMEOUT_S = 150.0  # pytest ends a test after 180 s, and tells less than the test would


def bounded_patience(quiet_s: float) -> float:
    """As patience(), but no more than a test has, unless it asks for more itself."""
    return max(quiet_s, min(patience(quiet_s), BELOW_TIMEOUT_S))


def patience(quiet_s: float) -> float:
    """Scale a bound in seconds by the load of the last minute, never below itself."""
    busy = os.getloadavg()[0] / (os.cpu_count() or 1)
    return quiet_s * max(1.0, 2 * busy)
