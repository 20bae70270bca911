"""The brake: rests between units when a program handles nothing, as after a bad deploy (pure).

A policy that passes failed units would empty a topic into the dead letter queue before a person
looks. Bad events of one producer fail many units in a row, too; others should wait for the calls
of these, but for no rest. The rest of the program tells the two cases apart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

BRAKE_UNITS = 20
BRAKE_S_MIN = 0.5
BRAKE_S_MAX = 30.0
GRACE_S = 60.0  # a program that has handled units is trusted this long: a burst is over by then
REST_LOOK_S = 1.0  # a braked worker checks this often whether the program has handled a unit


def is_like_bad_deploy(*, failed: int, since_s: float, now_s: float, handled_s: float) -> bool:
    """Tell whether `failed` units in a row, the first at since_s, look like a bad deploy.

    handled_s: when the program last handled a unit with the same handler, in any partition; 0: it
    never has. All three times are of time.monotonic().
    """
    if failed < BRAKE_UNITS or handled_s >= since_s:
        return False
    return not handled_s or now_s - since_s >= GRACE_S


@dataclass(slots=True)
class FailureBackoff:
    """Counts the units that failed in a row; a handled unit resets it.

    keys_min: the last BRAKE_UNITS units must have at least this many keys; 0: it is never on.
    """

    keys_min: int
    failed: int = 0
    keys: int = 0
    since_s: float = 0.0
    _turns: int = 0
    _when: str = ""
    _now_s: float = 0.0
    _server_s: float = 0.0

    @property
    def is_on(self) -> bool:
        """Whether to try one unit at a time, with a rest before each."""
        return self.keys > 0 and self.keys >= min(self.keys_min, BRAKE_UNITS)

    def note(
        self,
        *,
        handled: int,
        failed: int,
        turn_s: tuple[float, float],
        handled_s: float,
        keys: Callable[[], tuple[int, float]],
    ) -> float:
        """Count the units of a turn; return the seconds to rest before the next one.

        turn_s: when the turn began and ended. handled_s: as in is_like_bad_deploy(). keys: returns
        the number of keys of the last BRAKE_UNITS units that failed, and the database's time; it is
        called only where nothing else decides.
        The rest doubles from BRAKE_S_MIN to BRAKE_S_MAX with each turn in which units failed.
        """
        if handled:
            self.failed = self.keys = self._turns = 0
        if handled or not failed:
            return 0.0
        began_s, self._now_s = turn_s
        if not self.failed:
            self.since_s = began_s
        self.failed += failed
        self._when = "since then" if handled_s else "since it started"
        suspected = self.keys_min > 0 and is_like_bad_deploy(
            failed=self.failed, since_s=self.since_s, now_s=self._now_s, handled_s=handled_s
        )
        self.keys, self._server_s = keys() if suspected else (0, 0.0)
        if not self.is_on:
            self._turns = 0
            return 0.0
        self._turns += 1
        doubled: int = 2 ** min(self._turns - 1, 10)
        return min(BRAKE_S_MIN * doubled, BRAKE_S_MAX)

    def explain(self, rest_s: float) -> str:
        """Say for people why it is on, since when, until when, and the remedy."""
        now = datetime.fromtimestamp(self._server_s, UTC)
        since = now - timedelta(seconds=self._now_s - self.since_s)
        until = now + timedelta(seconds=rest_s)
        return (
            f"slowed down until {until:%H:%M:%S} UTC, as after a bad deploy: mend the handler "
            "(gapless dlq list says why it fails), or set brakeKeys: 0; one unit that is handled "
            f"ends it; since {since:%Y-%m-%d %H:%M:%S} UTC {self.failed} in a row failed, the last "
            f"{min(self.failed, BRAKE_UNITS)} of {self.keys} keys, and this supervisor has handled "
            f"none with this handler {self._when}"
        )
