"""When an endpoint may be called: its rate, its own wish to wait, and its circuit (pure).

All times are in seconds of one clock that only goes forward.
"""

from __future__ import annotations

from dataclasses import dataclass

FAILURES_MAX = 10
PROBE_EVERY_S = 30.0
HOLD_S_MAX = 3600.0


@dataclass(slots=True)
class Circuit:
    """Opens after FAILURES_MAX failures in a row; then one request each `every_s` is a probe.

    is_probing: the probe is under way.
    """

    every_s: float = PROBE_EVERY_S
    failures: int = 0
    is_open: bool = False
    is_probing: bool = False
    look_at_s: float = 0.0

    def may_probe(self, now_s: float) -> bool:
        """Tell whether to ask for a probe now; only while it is open."""
        return not self.is_probing and now_s >= self.look_at_s

    def wait(self, now_s: float, wait_s: float | None = None) -> None:
        """Ask for no probe for so long; None: every_s."""
        self.look_at_s = now_s + (self.every_s if wait_s is None else wait_s)

    def failed(self, now_s: float) -> bool:
        """Count a failure; tell whether that opened it."""
        self.failures += 1
        if self.is_open or self.failures < FAILURES_MAX:
            return False
        self.is_open = True
        self.wait(now_s)
        return True

    def succeeded(self) -> None:
        """Close it."""
        self.failures = 0
        self.is_open = False


class RequestPace:
    """At most `rate` requests a second, evenly; none before `hold()` is over."""

    def __init__(self) -> None:
        self._next_s = self._until_s = 0.0

    def hold(self, now_s: float, wait_s: float) -> None:
        """Let nothing begin for so long: the endpoint asked for it. At most HOLD_S_MAX."""
        self._until_s = max(self._until_s, now_s + min(wait_s, HOLD_S_MAX))

    def held_s(self, now_s: float) -> float:
        """Return for how long nothing may begin, whatever the rate."""
        return max(0.0, self._until_s - now_s)

    def turn_s(self, now_s: float, rate: float | None, wait_s_max: float) -> float | None:
        """Return in how many seconds the next request may begin, and let it have that turn.

        None: not within wait_s_max; it has no turn.
        """
        if rate is None:
            return 0.0
        at_s = max(now_s, self._next_s)
        if at_s - now_s > wait_s_max:
            return None
        self._next_s = at_s + 1 / rate
        return at_s - now_s
