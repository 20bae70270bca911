"""The times at which a supervisor's control session beats, looks, and tries to come back (pure).

All times are in seconds of one clock, time.monotonic().
"""

from __future__ import annotations


class BeatTimer:
    """The times of a member. ttl_s: after this long without a beat, peers may take it for dead."""

    def __init__(self, *, beat_every_s: float, look_every_s: float, ttl_s: float) -> None:
        self._beat_every_s = beat_every_s
        self._look_every_s = look_every_s
        self._ttl_s = ttl_s
        self._beat_due_s = self._look_due_s = 0.0
        self._return_due_s = 0.0
        self._last_beat_s = 0.0
        self._told_of_s = -1.0  # the last beat before a silence that was reported

    def due_s(self, *, is_cut: bool) -> float:
        """Return the time of the next thing to do. is_cut: there is no session."""
        return self._return_due_s if is_cut else min(self._beat_due_s, self._look_due_s)

    def wants_beat(self, now_s: float) -> bool:
        """Tell whether to beat now; if so, schedule the next beat."""
        if now_s < self._beat_due_s:
            return False
        self._beat_due_s = now_s + self._beat_every_s
        return True

    def wants_look(self, now_s: float) -> bool:
        """Tell whether to look at the peers now; if so, schedule the next look."""
        if now_s < self._look_due_s:
            return False
        self._look_due_s = now_s + self._look_every_s
        return True

    def hurry(self) -> None:
        """Beat at the next turn, so that the peers learn of a change."""
        self._beat_due_s = 0.0

    def beaten(self, now_s: float) -> None:
        """Note that the database has received a beat."""
        self._last_beat_s = now_s

    def cut(self, now_s: float, wait_s: float) -> None:
        """Note that the session is lost; try to come back after wait_s at the earliest."""
        self._return_due_s = now_s + wait_s

    def may_return(self, now_s: float) -> bool:
        """Tell whether to try to come back now."""
        return now_s >= self._return_due_s

    def is_overdue(self, now_s: float) -> bool:
        """Tell, once per silence, whether it has lasted longer than the ttl."""
        if now_s - self._last_beat_s <= self._ttl_s or self._told_of_s == self._last_beat_s:
            return False
        self._told_of_s = self._last_beat_s
        return True
