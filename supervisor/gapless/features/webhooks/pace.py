"""The times at which an endpoint may be called: its rate, its wish to wait, its circuit (pure).

All times are in seconds of one clock that only goes forward.
"""

from __future__ import annotations

from dataclasses import dataclass

FAILURES_MAX = 10
PROBE_EVERY_S = 30.0
HOLD_S_MAX = 3600.0


@dataclass(slots=True)
class Circuit:
    """Opens after FAILURES_MAX failures in a row; then one request every `every_s` is a probe.

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
        """Ask for no probe for wait_s seconds; None: every_s."""
        self.look_at_s = now_s + (self.every_s if wait_s is None else wait_s)

    def failed(self, now_s: float) -> bool:
        """Count a failure; tell whether it opened the circuit."""
        self.failures += 1
        if self.is_open or self.failures < FAILURES_MAX:
            return False
        self.is_open = True
        self.wait(now_s)
        return True

    def succeeded(self) -> None:
        """Close the circuit."""
        self.failures = 0
        self.is_open = False


class RequestPace:
    """At most `rate` requests a second, evenly; none before `hold()` is over."""

    def __init__(self) -> None:
        self._next_s = self._until_s = 0.0

    def hold(self, now_s: float, wait_s: float) -> None:
        """Let no request begin for wait_s, at most HOLD_S_MAX: the endpoint asked for it."""
        self._until_s = max(self._until_s, now_s + min(wait_s, HOLD_S_MAX))

    def held_s(self, now_s: float) -> float:
        """Return for how many seconds no request may begin, at any rate."""
        return max(0.0, self._until_s - now_s)

    def turn_s(self, now_s: float, rate: float | None, wait_s_max: float) -> float | None:
        """Return in how many seconds the next request may begin, and reserve that turn.

        None: not within wait_s_max; no turn is reserved.
        """
        if rate is None:
            return 0.0
        at_s = max(now_s, self._next_s)
        if at_s - now_s > wait_s_max:
            return None
        self._next_s = at_s + 1 / rate
        return at_s - now_s
