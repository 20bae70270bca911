"""Events for later: their due times, their way into the log, and their cancellation.

Keeps S1 to S4: every sequencing session calls gapless.promote() again and again; until then the
events wait in the table scheduled. The same call publishes for schedules.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any, NamedTuple, overload

from psycopg import Connection, errors

from gapless.db.wire import fetch_all
from gapless.errors import UsageError
from gapless.failpoints import hit
from gapless.log.borrowed import AsyncHost
from gapless.log.play import play
from gapless.log.script import Script

__all__ = ["cancel"]

PROMOTED_EVENTS_MAX = 1000  # in one transaction; events published meanwhile wait no longer
_LOOK_EVERY_S = 0.01  # while the sequencer is busy and no event was known to be due
_AGAIN_S = 0.02  # another session has the due events in hand
_LOCKED_S = 1.0  # another session has locked the table: a look waits 100 ms for that
_GATHER_S = 0.004  # the time for which due events may wait for others
_WHOLE_LOOKS = 20  # the pause after a look from the start, in multiples of its duration
_ROUND_EVENTS_MAX = 250  # of held events, between two runs: so new events do not wait for them
_ROUNDS_APART = 4  # the time from a round to the next, in multiples of its duration
_ID_MAX = 2**63 - 1


class Promoted(NamedTuple):
    """The answer of gapless.promote(): the next call begins at `low_at` and `low_id`.

    promoted: None: another session is at work. wait_s: seconds until the next is due, due_s: the
    same for events for later alone; None: nothing waits. held: events in an open cancel().
    """

    promoted: int | None
    wait_s: float | None
    low_at: str
    low_id: int
    due_s: float | None
    held: int

    def goes_on(self, before: Promoted) -> bool:
        """Tell whether the next look, which begins where this one ended, may find an event now."""
        is_behind = self.due_s is not None and self.due_s <= 0
        has_moved = (self.low_at, self.low_id) != (before.low_at, before.low_id)
        return bool(self.promoted) or (is_behind and has_moved)


_START = Promoted(0, 0.0, "-infinity", 0, 0.0, 0)


@dataclass(slots=True)
class _Round:
    """A round of looks at all due events: it began_s, took_s so far, and came to `back`."""

    began_s: float
    took_s: float = 0.0
    back: Promoted = _START
    holds: bool = False


class Promoter:
    """Remembers the result of the last look, so that most turns of a sequencer need none.

    A look begins where the last one ended, so it does not walk past promoted events, which stay in
    the index while an old snapshot is held, nor past events that an open cancel() holds. Now and
    then a look from the start finds events that were committed late, or are no longer held; while
    some are held, a round of looks beside the others does (I11).
    """

    def __init__(self) -> None:
        self._front = _START
        self.holds = False  # an open cancel() holds due events
        self._round: _Round | None = None  # a round that has not ended
        self._round_due_s = 0.0  # by monotonic(), as all of these
        self._due_s = 0.0
        self._asleep_due_s = 0.0
        self._locked_until_s = 0.0

    def is_due(self) -> bool:
        """Tell whether there may be events to promote, while the sequencer is awake."""
        return monotonic() >= self._due_s

    def wait_s(self, most_s: float) -> float:
        """Return the seconds that a sequencer may sleep if an event for later wakes it."""
        return min(max(self._asleep_due_s - monotonic(), 0.0), most_s)

    def rest_s(self, most_s: float) -> float:
        """Return the seconds that a busy sequencer may rest: events due by then wake no session."""
        return min(max(self._asleep_due_s - monotonic(), _GATHER_S), most_s)

    def promote(self, conn: Connection[Any]) -> int:
        """Promote some of the due events; return how many events got into the log.

        Before: `conn` is in autocommit, outside a transaction. Sequence afterwards.
        Bound: it looks at PROMOTED_EVENTS_MAX events, at a few that are held, and at the rest of
        their transactions. If another session has locked the table, it returns 0, and does not look
        again for a second: events without offsets do not wait for the lock (I11).
        """
        if monotonic() < self._locked_until_s:
            return 0
        try:
            return self._look(conn)
        except errors.LockNotAvailable:
            self.holds = True
            self._due_s = self._asleep_due_s = self._locked_until_s = monotonic() + _LOCKED_S
            return 0

    def promote_all(self, conn: Connection[Any]) -> int:
        """Promote all due events; return their number. Before: as promote()."""
        total, look, before = 0, _promote(conn, _START), _START
        while look.goes_on(before):
            total += look.promoted or 0
            look, before = _promote(conn, look), look
        return total

    def _look(self, conn: Connection[Any]) -> int:
        began_s = monotonic()
        is_round_due = began_s >= self._round_due_s
        before = _START if is_round_due and not self.holds else self._front
        look = self._front = _promote(conn, before)
        promoted, now_s = look.promoted or 0, monotonic()
        if is_round_due and self.holds:
            promoted += self._go_round(conn)
            now_s = monotonic()
        elif is_round_due:
            self._round_due_s = now_s + (now_s - began_s) * _WHOLE_LOOKS
        self.holds |= look.held > 0
        wait_s = math.inf if look.wait_s is None else look.wait_s
        if wait_s <= 0 and not promoted and not look.goes_on(before):
            wait_s = _AGAIN_S
        self._asleep_due_s = now_s + wait_s
        if self.holds or not is_round_due:
            # A look from the start comes soon: a sleeper is told of a late commit once.
            self._asleep_due_s = min(self._asleep_due_s, max(self._round_due_s, now_s))
        self._due_s = min(self._asleep_due_s, now_s + _LOOK_EVERY_S)
        return promoted

    def _go_round(self, conn: Connection[Any]) -> int:
        """Look at the next part of all due events; a round ends with those due when it began."""
        began_s = monotonic()
        now = self._round = self._round or _Round(began_s)
        most = PROMOTED_EVENTS_MAX if now.back.promoted else _ROUND_EVENTS_MAX
        look = now.back = _promote(conn, now.back, most)
        now.holds |= look.held > 0
        now_s = monotonic()
        now.took_s += now_s - began_s
        if look.due_s is None or now_s + look.due_s > now.began_s:
            self._round, self.holds = None, now.holds
            self._round_due_s = now_s + max(now.took_s * _ROUNDS_APART, _AGAIN_S)
        return look.promoted or 0


def _promote(
    conn: Connection[Any], last: Promoted, max_events: int = PROMOTED_EVENTS_MAX
) -> Promoted:
    hit("later.before")
    params = {"max_events": max_events, "low_at": last.low_at, "low_id": last.low_id}
    look = Promoted(*fetch_all(conn, "later", "promote", params)[0])
    if look.promoted:
        hit("later.promoted")
    return look


@overload
def cancel(conn: Connection[Any], scheduled_id: int) -> bool: ...
@overload
def cancel(  # type: ignore[overload-overlap]  # of a number that cannot be awaited
    conn: AsyncHost, scheduled_id: int
) -> Awaitable[bool]: ...
@overload
def cancel(conn: object, scheduled_id: int) -> bool: ...
def cancel(conn: object, scheduled_id: int) -> bool | Awaitable[bool]:
    """Take back an event that waits for its time, in the caller's transaction.

    conn: any connection that publish() takes; await the result with an async one.
    scheduled_id: the number of an event for later, from `scheduled_ids` of publish()'s result.
    Returns True: it will not be delivered, once the transaction commits, and its dedupe_key is free
    again. False: it is in the log already, was cancelled, or there is no such id. This waits while
    another session cancels or promotes the event.
    Raises UsageError for an invalid id or connection; the driver's InsufficientPrivilege for an
    event that another role scheduled, unless this one has gapless_operator.
    """
    if type(scheduled_id) is not int or not 0 < scheduled_id <= _ID_MAX:
        raise UsageError(f"scheduled_id {scheduled_id!r} is no id of an event for later")
    return play(conn, partial(_cancelled, scheduled_id))


def _cancelled(scheduled_id: int, _: object) -> Script[bool]:
    (is_cancelled,) = yield "cancel", {"scheduled_id": scheduled_id}, False
    return bool(is_cancelled)
