"""The brake of a partition: when nothing but failures comes, of all keys, it slows down (pure).

A bad deploy fails all there is, and a policy that passes what fails would empty a topic into the
dead letter queue before anybody looks. The bad events of one producer are of few keys: those that
wait behind them wait for their calls, and for no rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

BRAKE_UNITS = 20
BRAKE_S_MIN = 0.5
BRAKE_S_MAX = 30.0


@dataclass(slots=True)
class Brake:
    """Counts the units that failed in a row; one that is handled lifts it.

    keys_min: of so many keys the last BRAKE_UNITS of them have to be; 0: it is never on.
    """

    keys_min: int
    failed: int = 0
    keys: int = 0
    _turns: int = 0

    def __str__(self) -> str:
        return f"slowed down: {self.failed} units in a row failed"

    @property
    def is_on(self) -> bool:
        """Whether so many have failed in a row that one is to be tried at a time."""
        return self.keys > 0 and self.keys >= min(self.keys_min, BRAKE_UNITS)

    def note(self, *, handled: int, failed: int, keys: Callable[[], int]) -> float:
        """Count the units of a turn; return how many seconds to rest before the next one.

        keys: says of how many keys the last BRAKE_UNITS that failed are; asked where that matters.
        The rest doubles from BRAKE_S_MIN to BRAKE_S_MAX with each turn in which units failed.
        """
        if handled:
            self.failed = self.keys = self._turns = 0
            return 0.0
        self.failed += failed
        if not failed or not self.keys_min or self.failed < BRAKE_UNITS:
            return 0.0
        self.keys = keys()
        if not self.is_on:
            self._turns = 0
            return 0.0
        self._turns += 1
        doubled: int = 2 ** min(self._turns - 1, 10)
        return min(BRAKE_S_MIN * doubled, BRAKE_S_MAX)

    def explain(self, rest_s: float) -> str:
        """Say for people why it is on, for how long, and what ends it."""
        return (
            f"{self}; the next one in {rest_s:.0f} s, one that is handled lifts it; the last "
            f"{min(self.failed, BRAKE_UNITS)} are of {self.keys} keys, as if all failed "
            f"(brakeKeys: {self.keys_min}); gapless dlq list tells why"
        )
