"""The next task of a driver, and the time it may rest (pure): all times are seconds of one clock.

Two kinds of work wait: the log, and units that were set aside and are due again. The database is
asked for due units; an idle driver asks rarely, and writes nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from math import inf
from typing import Literal

LOOK_S = 5.0  # with nothing to do and no notification
LOOK_BUSY_S = 0.25
EARLY = 0.9  # called again after less than this part of the wait: there was a notification
# After a claim that took all there was. A notification announces the next event: transactions that
# commit after a claim has looked notify after it. This is the time until a worker notices a change
# without a notification: that it had only come to the end of a layout.
DOZE_S = 0.05
# Where several events come at once, again and again, let a few more gather: a turn costs more
# than they do. 8 workers behind 16 single publishers: 6 500 -> 8 500 events/s.
SEVERAL_EVENTS = 4
REST_S_MAX = 0.01
RESTS_PER_TURN = 3

ASIDES_EVERY_S = 2.0  # at least once: due units wait until no call is under way


class Agenda:
    """The log and the units set aside take turns, with a look at due units now and then."""

    def __init__(self) -> None:
        self._due: deque[int] = deque()  # first offsets of units that were set aside
        self._look_at_s = 0.0
        self._next_due_s: float | None = None
        self._log_is_next = False  # a unit that was set aside has just had its turn
        self._log_was_idle = False  # then all due units come before another look at the log
        self._log_until_s = 0.0  # at least once: the log is next until this time
        self.pace = Pace()

    @property
    def due(self) -> bool:
        """Whether a unit that was set aside is known to be due."""
        return bool(self._due)

    @property
    def is_new(self) -> bool:
        """Whether no look has been taken yet."""
        return self._look_at_s == 0.0

    def looked(self, now_s: float, found: Iterable[int], wait_s: float | None) -> None:
        """Take the answer: the units that are due, or the seconds until the next one is."""
        self._due.extend(found)
        self._next_due_s = None if wait_s is None else now_s + wait_s
        self._look_at_s = now_s + (LOOK_S if wait_s is None else min(LOOK_S, wait_s))

    def next(self, now_s: float) -> Literal["look", "aside", "log"]:
        """Return the next task: ask the database for due units, handle one of them, or the log."""
        if not self._due and now_s >= self._look_at_s:
            return "look"
        is_aside = bool(self._due) and not self._log_is_next and now_s >= self._log_until_s
        self._log_is_next = False
        return "aside" if is_aside else "log"

    def take_due(self, now_s: float) -> list[int]:
        """Return all units known to be due, for calls beside the log; look again soon."""
        found = [*self._due]
        self._due.clear()
        if found:
            self._look_at_s = min(self._look_at_s, now_s + LOOK_BUSY_S)
        return found

    def take_aside(self) -> int | None:
        """Return the next due unit, by its first offset; the log is next after it, unless idle."""
        if not self._due:
            return None
        self._log_is_next = not self._log_was_idle
        return self._due[0]

    def aside_taken(self, now_s: float, *, yields: bool) -> None:
        """Note that the due unit had its turn. yields: the log comes first for a while."""
        self._due.popleft()
        self._log_was_idle &= bool(self._due)
        if yields and not self._log_was_idle:
            self._log_until_s = now_s + ASIDES_EVERY_S
        self._look_at_s = min(self._look_at_s, now_s)  # once no other is known to be due

    def log_taken(
        self, now_s: float, *, idle: bool, waits: bool, is_end: bool, began_s: float = inf
    ) -> bool:
        """Note that the log had its turn, which began at began_s; tell whether to look at once.

        waits: a unit of it was set aside, and waits. is_end: it took all there was, and not much.
        A look is due after a notification that was not for the log: a unit may have been redriven.
        """
        self._log_was_idle = idle
        self.pace.is_at_end = is_end
        if not idle:
            self._look_at_s = min(self._look_at_s, now_s + (0.0 if waits else LOOK_BUSY_S))
        return idle and not self._due and self.pace.is_woken(began_s)

    def wait_s(self, now_s: float, at_most_s: float) -> float:
        """Return the seconds until a unit is due, limited to at_most_s."""
        if self._next_due_s is None:
            return at_most_s
        return min(at_most_s, max(0.0, self._next_due_s - now_s))


class Pace:
    """The times to sleep and to rest between turns. is_at_end: the last turn took all there was."""

    def __init__(self) -> None:
        self.is_at_end = False
        self._is_stream = False  # several events came with the last turn, and were all there was
        self._woken_before_s = 0.0

    def is_woken(self, now_s: float) -> bool:
        """Tell whether a notification has brought the turn that begins now."""
        return now_s < self._woken_before_s

    def doze_s(self, wait_period_s: float, *, idle: bool) -> float:
        """Return the longest time to sleep after a turn; 0: do not sleep."""
        self._woken_before_s = 0.0
        if self.is_at_end:
            return DOZE_S
        return wait_period_s if idle else 0.0

    def sleep(self, now_s: float, wait_s: float) -> None:
        """Note the planned length of a sleep: a call that comes much earlier was a wake-up."""
        self._woken_before_s = now_s + EARLY * wait_s

    def rest_s(self, events: int, took_s: float) -> float:
        """Return the time to let events gather after a turn that took_s, despite notifications."""
        was_stream = self._is_stream
        self._is_stream = self.is_at_end and events >= SEVERAL_EVENTS
        if was_stream and self._is_stream:
            return min(RESTS_PER_TURN * took_s, REST_S_MAX)
        return 0.0
