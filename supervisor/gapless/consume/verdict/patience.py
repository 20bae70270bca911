"""The time that a partition waits until its database is as its handler expects it (pure)."""

from __future__ import annotations

from collections.abc import Hashable

PATIENCE_S = 60.0
PATIENCE_BACK_S = 600.0
CANCELLED_S = 5.0  # longer than a burst of cancels; a unit that is always too slow takes this long
CANCELLED_UNITS_MAX = 1000


class Patience:
    """Begins with the first error and lasts PATIENCE_S; begins anew PATIENCE_BACK_S after the last.

    There is one for a partition, not for a unit: if some events can never be handled, it is lost
    once. But each unit has its own CANCELLED_S for cancelled statements, before the policy decides.
    """

    def __init__(self) -> None:
        self._began_s: float | None = None
        self._last_s = 0.0
        self._cancelled_s: dict[Hashable, float] = {}

    def lasts(self, now_s: float) -> bool:
        """Note one more such error; tell whether to wait, and not to ask the policy yet."""
        if self._began_s is None or now_s - self._last_s > PATIENCE_BACK_S:
            self._began_s = now_s
        self._last_s = now_s
        return now_s - self._began_s < PATIENCE_S

    def lasts_for(self, unit: Hashable, now_s: float) -> bool:
        """Note that a statement of a unit was cancelled; tell whether to call the unit again."""
        began_s = self._cancelled_s.pop(unit, now_s)
        if now_s - began_s >= CANCELLED_S:
            return False
        if len(self._cancelled_s) == CANCELLED_UNITS_MAX:  # they were handled: forget the oldest
            del self._cancelled_s[next(iter(self._cancelled_s))]
        self._cancelled_s[unit] = began_s
        return True
