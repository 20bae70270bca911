"""Events for later: when they are due, how they get into the log, and how they are taken back.

Keeps S1 to S4 by calling gapless.promote(), as often as somebody sequences; what waits is in the
table scheduled until then. Schedules are published by the same call.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable
from datetime import datetime, timedelta
from inspect import isawaitable
from time import monotonic
from typing import Any, overload

from psycopg import AsyncConnection, AsyncCursor, Connection, Cursor
from psycopg.rows import tuple_row

from gapless.db.queries import query
from gapless.db.wire import fetch_all
from gapless.errors import PublishError, UsageError
from gapless.failpoints import hit
from gapless.log.borrowed import AsyncHost, borrow
from gapless.log.foreign import Script, Trouble, play, play_async

PROMOTED_EVENTS_MAX = 1000  # in one transaction; what is published meanwhile waits for no more
_LOOK_EVERY_S = 0.01  # while the sequencer is busy and nothing was known to be due
_AGAIN_S = 0.02  # what is due is in somebody's hand
_GATHER_S = 0.004  # so long may what is due wait for others
_WHOLE_LOOKS = 20  # a look at all that waits takes at most one part in so many of the time
_EVERYTHING = "-infinity"
_ID_MAX = 2**63 - 1


class Promoter:
    """Remembers what the last look found, so that most turns of a sequencer need none.

    What was promoted stays in the index while an old snapshot is held, at its head. A look that
    begins at the lowest live deliver_at walks past none of it; but a transaction that was open then
    may have committed an earlier one since, so now and then a look begins at the start.
    """

    def __init__(self) -> None:
        self._low = _EVERYTHING
        self._due_s = 0.0  # by monotonic(): look then
        self._all_due_s = 0.0
        self._asleep_due_s = 0.0

    def is_due(self) -> bool:
        """Tell whether there may be something to promote, while the sequencer is awake."""
        return monotonic() >= self._due_s

    def wait_s(self, most_s: float) -> float:
        """Return for how long a sequencer may sleep that is woken when something is scheduled."""
        return min(max(self._asleep_due_s - monotonic(), 0.0), most_s)

    def rest_s(self, most_s: float) -> float:
        """Return for how long a sequencer may rest that is busy: what is due then wakes nobody."""
        return min(max(self._asleep_due_s - monotonic(), _GATHER_S), most_s)

    def promote(self, conn: Connection[Any]) -> int:
        """Promote what is due, some of it; return how many events got into the log.

        Before: `conn` is in autocommit, outside a transaction. Sequence afterwards.
        """
        began_s = monotonic()
        looks_at_all = began_s >= self._all_due_s
        low = _EVERYTHING if looks_at_all else self._low
        promoted, wait_s, self._low = _promote(conn, low)
        now_s = monotonic()
        if looks_at_all:
            self._all_due_s = now_s + (now_s - began_s) * _WHOLE_LOOKS
        wait_s = math.inf if wait_s is None else wait_s
        if not promoted and wait_s <= 0:
            wait_s = _AGAIN_S
        self._asleep_due_s = now_s + wait_s
        self._due_s = now_s + min(wait_s, _LOOK_EVERY_S)
        return promoted


def promote_all(conn: Connection[Any]) -> int:
    """Promote all that is due; return how many events it were. Before: as Promoter.promote()."""
    total = 0
    while promoted := _promote(conn, _EVERYTHING)[0]:
        total += promoted
    return total


def _promote(conn: Connection[Any], low: str) -> tuple[int, float | None, str]:
    hit("later.before")
    params = {"max_events": PROMOTED_EVENTS_MAX, "low": low}
    ((promoted, wait_s, low_at),) = fetch_all(conn, "log", "promote", params)
    if promoted:
        hit("later.promoted")
    return promoted or 0, wait_s, low_at


@overload
def cancel(conn: Connection[Any], scheduled_id: int) -> bool: ...
@overload
def cancel(  # type: ignore[overload-overlap]  # of a number nobody can await
    conn: AsyncHost, scheduled_id: int
) -> Awaitable[bool]: ...
@overload
def cancel(conn: object, scheduled_id: int) -> bool: ...
def cancel(conn: object, scheduled_id: int) -> bool | Awaitable[bool]:
    """Take back an event that waits for its time, in the caller's transaction.

    conn: whatever publish() takes; one that is async is to be awaited.
    scheduled_id: the number of an event for later, of `scheduled_ids` of what publish() returned.
    Returns True: it will not be delivered, once the transaction commits, and its dedupe_key is free
    again. False: it is in the log already, was cancelled, or there is no such id. While another
    session cancels it, or promotes it, this waits.
    Raises UsageError for what is no id, or no connection; the driver's InsufficientPrivilege for an
    event that another role scheduled, unless this one has gapless_operator.
    """
    if type(scheduled_id) is not int or not 0 < scheduled_id <= _ID_MAX:
        raise UsageError(f"scheduled_id {scheduled_id!r} is no id of an event for later")
    params = {"scheduled_id": scheduled_id}
    found = borrow(conn)
    if isawaitable(found):
        return _cancel_awaited(found, params)
    if isinstance(found, AsyncConnection):
        return _cancel_async(found, params)
    if isinstance(found, Connection):
        with Cursor(found, row_factory=tuple_row) as cursor:
            return _true(cursor.execute(query("log", "cancel"), params, prepare=False).fetchone())
    try:
        return play(found, _cancelled(params), whole=False)
    except Trouble as trouble:
        raise trouble.error from None


async def _cancel_awaited(found: Awaitable[Any], params: dict[str, int]) -> bool:
    conn = await found
    if isinstance(conn, AsyncConnection):
        return await _cancel_async(conn, params)
    try:
        return await play_async(conn, _cancelled(params), whole=False)
    except Trouble as trouble:
        raise trouble.error from None


async def _cancel_async(conn: AsyncConnection[Any], params: dict[str, int]) -> bool:
    async with AsyncCursor(conn, row_factory=tuple_row) as cursor:
        await cursor.execute(query("log", "cancel"), params, prepare=False)
        return _true(await cursor.fetchone())


def _cancelled(params: dict[str, int]) -> Script[bool]:
    return _true((yield "cancel", params))


def _true(row: tuple[Any, ...] | None) -> bool:
    return row is not None and bool(row[0])


def moment_text(value: object) -> str | None:
    """Return a deliver_at as text. Raises PublishError for what is no moment."""
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        raise PublishError(
            f"deliver_at {value!r} is no time: write it as 2030-01-01T09:00Z"
        ) from None
    if not isinstance(moment, datetime):
        raise PublishError(f"deliver_at must be a datetime or text, not {type(value).__name__}")
    if moment.utcoffset() is None:
        raise PublishError(f"deliver_at {value} has no time zone: add one, such as Z or +01:00")
    return moment.isoformat()


def delay_text(value: object) -> str | None:
    """Return a deliver_in as text of an interval. Raises PublishError for what is no delay."""
    if value is None:
        return None
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise PublishError(f"deliver_in must be seconds or a timedelta, not {type(value).__name__}")
    if not 0 <= seconds <= _DELAY_S_MAX:
        raise PublishError(f"deliver_in {value} must be from 0 to {_DELAY_S_MAX} seconds")
    hours, rest = divmod(seconds, 3600)  # before version 15 PostgreSQL reads no more than 2^31 s
    return f"{hours:.0f} h {rest:.6f} s"


_DELAY_S_MAX = (
    250_000_000_000  # up to the year 9000 it is the database that says which are too many
)
