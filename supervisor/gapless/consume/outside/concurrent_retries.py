"""Call due units that were set aside beside those of the log, several at a time.

For a handler that serves many clients that are independent of each other: a client that does not
answer would delay all others if these units had their turn one after the other. Each try is
recorded before, and its end after, as for any unit that was set aside (retry.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from psycopg import Connection

from gapless.consume.aside.retry import (
    ClaimedAside,
    Outcome,
    end_deadly,
    end_outside,
    forget_try,
    look_outside,
    record_try,
)
from gapless.consume.job import Job, Step
from gapless.consume.outside.calls import Calls, Ended

AT_A_TIME = 16


class ConcurrentRetries:
    """The calls of one partition's units that were set aside; they continue between turns.

    wake: as for AtLeastOnce. Without it a turn waits until all have ended.
    """

    def __init__(self, job: Job, wake: Callable[[], None] | None) -> None:
        self._waits = wake is None
        self._calls = Calls(job.handler, AT_A_TIME, wake or (lambda: None))
        self._in_hand: dict[int, ClaimedAside] = {}
        self._ended: dict[int, Ended] = {}
        self._is_alone = False  # the unit in hand may have killed a worker

    @property
    def going_on(self) -> bool:
        """Whether calls are under way, or have ended and are not noted yet."""
        return bool(self._in_hand)

    @property
    def oldest_s(self) -> float | None:
        """The time (time.monotonic) at which the oldest of them began."""
        return self._calls.oldest_s

    def turn(self, job: Job, due: Iterable[int] = ()) -> Step:
        """Note the calls that have ended, and begin as many calls of due units as allowed.

        "idle": none has ended. Raises as retry_aside() does, the error of a call once it has ended.
        """
        outcomes: Counter[Outcome] = Counter()
        for first in due:
            if self._is_alone or len(self._in_hand) >= AT_A_TIME:
                break
            if first not in self._in_hand:
                outcomes[self._begin(job, first)] += 1
        self._ended.update(self._calls.collect(wait=False))
        while self._waits and self._calls:
            self._ended.update(self._calls.collect(wait=True))
        ended = len(self._ended)
        for first, end in list(self._ended.items()):
            outcomes[self._end(job, first, end)] += 1
        self._is_alone &= bool(self._in_hand)
        if outcomes["fenced"]:
            self.abandon()
            return Step(outcome="fenced")
        return Step(
            outcome="done" if ended or outcomes["dead"] else "idle",
            dead=outcomes["dead"],
            waiting=outcomes["waiting"],
            asked=outcomes["waiting"],  # does not count against the others
            handled=outcomes["handled"],
        )

    def abandon(self) -> None:
        """Give up all calls: the partition has another owner."""
        self._calls.abandon()
        self._in_hand.clear()
        self._ended.clear()

    def forgive(self, conn: Connection[Any], job: Job) -> None:
        """Take back, in a new session, the tries of these calls."""
        for first in self._in_hand:
            forget_try(conn, job.assignment, first)

    def _begin(self, job: Job, first: int) -> Outcome:
        """Begin a call; a unit that was begun before without an end is called alone."""
        tries = record_try(job, first)
        if not tries:
            return "fenced" if tries is None else "gone"
        if tries > job.terms.policy.crashes_max:
            return end_deadly(job, first, tries)
        if tries > 1 and self._in_hand:
            forget_try(job.conn, job.assignment, first)
            self._is_alone = True  # it is the next one
            return "gone"
        self._is_alone = tries > 1
        claimed, unit = look_outside(job, first, self._calls.elsewhere)
        if unit is None:
            return claimed.outcome if claimed.outcome == "fenced" else "gone"
        self._in_hand[first] = claimed
        self._calls.begin(unit, job.conn)
        return "gone"

    def _end(self, job: Job, first: int, end: Ended) -> Outcome:
        outcome: Outcome = "gone"
        if isinstance(end, BaseException):
            forget_try(job.conn, job.assignment, first)
        else:
            outcome = end_outside(job, first, self._in_hand[first], end)
        del self._in_hand[first], self._ended[first]  # else a later turn notes it
        if isinstance(end, BaseException):
            raise end
        return outcome
