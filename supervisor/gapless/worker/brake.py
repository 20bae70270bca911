"""The brake of a partition: when nothing but failures comes, it slows down (pure).

A bad deploy fails all there is, and a policy that passes what fails would empty a topic into the
dead letter queue before anybody looks.
"""

from __future__ import annotations

from dataclasses import dataclass

BRAKE_UNITS = 20
BRAKE_S_MIN = 0.5
BRAKE_S_MAX = 30.0


@dataclass(slots=True)
class Brake:
    """Counts the units that failed in a row; one that is handled lifts it."""

    failed: int = 0
    _turns: int = 0

    def __str__(self) -> str:
        return f"slowed down: {self.failed} units in a row failed"

    @property
    def is_on(self) -> bool:
        """Whether so many have failed in a row that one is to be tried at a time."""
        return self.failed >= BRAKE_UNITS

    def note(self, *, handled: int, failed: int) -> float:
        """Count the units of a turn; return how many seconds to rest before the next one.

        The rest doubles from BRAKE_S_MIN to BRAKE_S_MAX with each turn in which units failed.
        """
        if handled:
            self.failed = self._turns = 0
            return 0.0
        self.failed += failed
        if not (self.is_on and failed):
            return 0.0
        self._turns += 1
        doubled: int = 2 ** min(self._turns - 1, 10)
        return min(BRAKE_S_MIN * doubled, BRAKE_S_MAX)
