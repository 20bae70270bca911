"""The rhythm of a sequencer's runs: its rests, and whether it stays asleep (pure).

All times are in seconds of one clock, time.monotonic().
"""

from __future__ import annotations

# A run costs much more than an event, and so do the turns of workers that it wakes: the more events
# it found, the longer it rests. Where publishers use the whole machine, each additional run costs
# the time that would make the next one worthwhile.
RESTS = (  # (events at least, multiple of the run's time, at most this many seconds)
    (51, 8, 0.02),
    (7, 3, 0.004),
    (1, 1, 0.004),
)
DOZE_S_MAX = 0.005
# Each publisher notifies a sequencer that sleeps, and holds a lock of the whole database from then
# until its commit is on disk. A run commits as well: its duration is a measure of that time.
QUIET_RUNS = 3
FAST_EVENTS_MAX = 2


class Cadence:
    """Forecasts for the next runs from the runs so far."""

    def __init__(self) -> None:
        self._found_s = 0.0
        self._doze_s = 0.0
        self._fast_events = 0  # of runs that followed each other fast, in a row

    def found(self, events: int, began_s: float, took_s: float) -> None:
        """Note a run that gave offsets to this many events."""
        is_fast = began_s - self._found_s < QUIET_RUNS * took_s
        self._fast_events = self._fast_events + events if is_fast else 0
        self._found_s = began_s
        self._doze_s = 0.0

    def idle(self) -> None:
        """Note a look that found nothing, and that no notification asked for."""
        self._doze_s = 0.0

    def doze_s(self) -> float:
        """Return the time to doze after a notification in vain: longer each time."""
        self._doze_s = min(max(self._doze_s * 2, 0.0005), DOZE_S_MAX)
        return self._doze_s

    @property
    def is_busy(self) -> bool:
        """Whether runs take more than a third of the time between events, again and again."""
        return self._fast_events > FAST_EVENTS_MAX

    def rest_s(self, events: int, took_s: float) -> float:
        """Return the time for more events to gather: the longer the run, the longer."""
        runs, most_s = next(rest for least, *rest in RESTS if events >= least)
        return min(runs * took_s, most_s)
