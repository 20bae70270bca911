"""The time that a test waits: the promised time on a quiet machine, and more on a busy one."""

import os

BELOW_TIMEOUT_S = 150.0  # pytest ends a test after 180 s, with a worse message than the test's own


def bounded_patience(quiet_s: float) -> float:
    """Return patience(), but at most the time that a test has, unless quiet_s is more."""
    return max(quiet_s, min(patience(quiet_s), BELOW_TIMEOUT_S))


def patience(quiet_s: float) -> float:
    """Scale a bound in seconds by the load of the last minute, never below itself."""
    busy = os.getloadavg()[0] / (os.cpu_count() or 1)
    return quiet_s * max(1.0, 2 * busy)
