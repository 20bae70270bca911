"""Consumers of an attached table: put a group in the place of an old consumer, and back."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, TypeVar

from gapless.db.connect import connect_shared
from gapless.db.queries import query
from gapless.errors import GaplessError, RefusedError
from gapless.features.attach.ops import (
    LOOK_AGAIN_S,
    InUseError,
    attachment_number,
    in_use,
    limit_locks,
)
from gapless.ops.rows import require_autocommit, row

if TYPE_CHECKING:
    from psycopg import Connection

__all__ = ["hand_back", "place_group", "switch_group"]

_BUSY = "GL423"
Made = TypeVar("Made")


def place_group(
    conn: Connection[Any],
    table: str,
    group: str,
    *,
    dsn: str,
    place: int | None = None,
    timeout_s: float = 30,
) -> bool:
    """Put a group where an old consumer is; False: it was switched before, and nothing changes.

    Before: `conn` is in autocommit. The group gets the old consumer's name; it is created and
    paused. dsn: of the same database, for a second session. place: among the ids of rows, the next
    one, where the attachment names no table of places. Tries for timeout_s seconds, until the old
    consumer is at a place that has a matching offset. Raises RefusedError if there is no such place
    or consumer, GaplessError when the old consumer's place was locked all the time.
    """
    what = {"group": group, "place": place, "switches": False}
    return _stand_for(conn, table, what, dsn, timeout_s)


def switch_group(
    conn: Connection[Any],
    table: str,
    group: str,
    *,
    dsn: str,
    place: int | None = None,
    timeout_s: float = 30,
) -> bool:
    """Do as place_group(); from that place on, the group handles the events, not the old consumer.

    In one transaction, the old consumer's place moves beyond all ids, and the group's pause ends.
    """
    what = {"group": group, "place": place, "switches": True}
    return _stand_for(conn, table, what, dsn, timeout_s)


def _stand_for(
    conn: Connection[Any], table: str, what: dict[str, Any], dsn: str, timeout_s: float
) -> bool:
    require_autocommit(conn, "a group in the place of an old consumer")
    what["number"] = attachment_number(conn, table)
    with connect_shared(dsn, role="attach") as second:

        def act() -> bool:
            with conn.transaction():
                limit_locks(conn)
                (places,) = row(conn, query("attach", "old_places"), **what)
                # The old consumer's handled rows are committed, so they have offsets after this.
                _sequence_all(second, timeout_s)
                (done,) = row(conn, query("attach", "succeed_consumer"), **what, places=places)
            return bool(done)

        return _retried(act, table, timeout_s)


def hand_back(
    conn: Connection[Any], table: str, group: str, *, dsn: str, timeout_s: float = 30
) -> list[int] | None:
    """Give the events of a group back to its old consumer; None: it was not switched.

    Returns the next ids, one for each partition; the old consumer's places are set to them. The
    group is paused, and its workers finish their batch. Writers of the table wait for a moment.
    Raises RefusedError if the group replaces no old consumer, if no id matches its position, or if
    units of it wait for another attempt; the group then continues as before. dsn: of the same
    database, for a second session.
    """
    require_autocommit(conn, "hand_back()")
    who = {"number": attachment_number(conn, table), "group": group}
    (state,) = row(conn, query("attach", "group_state"), **who)
    if state is None:
        raise RefusedError(
            f'group "{group}" stands for no old consumer of {table}: gapless attach lists those '
            "that do",
            sqlstate="GL404",
        )
    if conn.execute(query("attach", "rest"), who).fetchone() is None:
        return None
    with connect_shared(dsn, role="attach") as second:

        def act() -> list[int]:
            with conn.transaction():
                limit_locks(conn)
                row(conn, query("attach", "lock"), number=who["number"])
                _sequence_all(second, timeout_s)
                (places,) = row(conn, query("attach", "hand_back"), **who)
            return list(places)

        try:
            return _retried(act, table, timeout_s)
        except BaseException:
            with suppress(Exception):
                row(second, query("attach", "go_on"), **who)
            raise


def _retried(act: Callable[[], Made], table: str, timeout_s: float) -> Made:
    """Call it until no session is in its way; after timeout_s seconds raise its last error."""
    give_up_s = monotonic() + timeout_s
    while True:
        try:
            with in_use(table):
                return act()
        except GaplessError as error:
            passes = isinstance(error, InUseError) or getattr(error, "sqlstate", "") == _BUSY
            if not passes or monotonic() > give_up_s:
                raise
        sleep(LOOK_AGAIN_S)


def _sequence_all(second: Connection[Any], timeout_s: float) -> None:
    """Give offsets to everything committed by now; wait for another sequencer to finish first."""
    give_up_s = monotonic() + timeout_s
    while row(second, query("log", "sequence"))[0] is None:
        if monotonic() > give_up_s:
            raise GaplessError("another session has been sequencing all the time: gapless doctor")
        sleep(LOOK_AGAIN_S)
