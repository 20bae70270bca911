"""What waits for its time: events for later, and schedules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

_SHOWN_MAX = 3
LATE_S_MAX = 5.0  # later than that somebody should look: nobody promotes, or not fast enough


@dataclass(frozen=True, slots=True, kw_only=True)
class Later:
    """What waits for its time.

    scheduled: events, counted up to 10 000. next_ts: when the first of them, or the first schedule,
    is due; None: nothing is. late_s: since when it is overdue, 0 before. strays: of those counted,
    events of topics that are gone. schedules; paused and stopped ones of them, with a reason.
    """

    scheduled: int = 0
    next_ts: datetime | None = None
    late_s: float = 0.0
    strays: int = 0
    schedules: int = 0
    paused: int = 0
    stopped: tuple[str, ...] = ()

    @property
    def is_late(self) -> bool:
        """Whether something has been due for so long that somebody should look."""
        return self.late_s > LATE_S_MAX

    def problems(self) -> Iterator[str]:
        """Say what somebody should look at."""
        if self.is_late:
            yield f"due for {self.late_s:.0f} s and not in the log: gapless doctor says why"
        yield from (f"schedule {each}" for each in self.stopped[:_SHOWN_MAX])


NOTHING_WAITS = Later()
