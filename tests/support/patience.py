"""How long a test waits: what is promised for a quiet machine, and more on one that is not."""

from __future__ import annotations

import os


def patience(quiet_s: float) -> float:
    """Scale a bound in seconds by the load of the last minute, never below itself."""
    busy = os.getloadavg()[0] / (os.cpu_count() or 1)
    return quiet_s * max(1.0, 2 * busy)
