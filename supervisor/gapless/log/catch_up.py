"""Offsets for a reader that cannot wait for a supervisor: sequence while no sequencer is active."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from time import monotonic, sleep

import psycopg
from psycopg import Connection

from gapless.db.connect import is_pooled
from gapless.db.locked import lock_timeout
from gapless.db.queries import query
from gapless.errors import GaplessError
from gapless.log.promote import promoter
from gapless.log.sequence import create_chunks, sequence

_LOCK_MS = 100
_PAUSE_S = 0.001
_PAUSE_S_MAX = 0.05


def is_sequencer_active(conn: Connection) -> bool:
    """Tell whether some session has the role of the active sequencer."""
    row = conn.execute(query("tail", "is_sequencer_active")).fetchone()
    return row is not None and bool(row[0])


def is_sequenced(conn: Connection, xid: int) -> bool:
    """Tell whether the events of a committed transaction have their offsets."""
    row = conn.execute(query("tail", "is_sequenced"), {"xid": str(xid)}).fetchone()
    return row is not None and bool(row[0])


def sequence_if_alone(conn: Connection) -> bool:
    """Give offsets to pending events unless a sequencer is active; tell whether this was done."""
    return stand_in(conn) is not None


def stand_in(conn: Connection, *, keeps_house: bool = True) -> int | None:
    """Do as sequence_if_alone(); return the number of events, None if a sequencer is active.

    A caller that gives offsets also promotes due events and, at least once a second, keeps house:
    it makes chunks ahead, and closes complete ones.
    """
    if is_sequencer_active(conn):
        return None
    given = _give_offsets(conn)
    if given and keeps_house:
        keep_house(conn)
    return given


def sequence_all(conn: Connection) -> None:
    """Give offsets to all events that are pending or due, and keep house."""
    while _give_offsets(conn):
        pass
    keep_house(conn)


def _give_offsets(conn: Connection) -> int:
    """Sequence pending events, then due ones: events that waited first are never held up.

    Waits for another reader that sequences: its snapshot may be older than our caller's events.
    """
    sequenced = sequence(conn, patience_s=_LOCK_MS / 1000)
    return sequenced + sequence(conn) if promoter().promote_all(conn) else sequenced


def catch_up(conn: Connection) -> None:
    """Do as sequence_all(), unless a sequencer is active or another session holds a needed lock."""
    if not is_sequencer_active(conn):
        # Behind a pooler the limit would stay in a session that another client gets.
        limit = nullcontext() if is_pooled(conn) else lock_timeout(conn, _LOCK_MS)
        with suppress(psycopg.errors.LockNotAvailable), limit:
            sequence_all(conn)


def keep_house(conn: Connection) -> None:
    """Make chunks ahead, and close complete ones; leave locked ones alone."""
    # The second run moves the floor past the first one, if a transaction was open between them.
    for step in (create_chunks, sequence, sequence, _close_chunks):
        with suppress(psycopg.errors.LockNotAvailable):
            step(conn)


def _close_chunks(conn: Connection) -> None:
    conn.execute(query("log", "close_chunks"))


def wait_until_sequenced(conn: Connection, xid: int, *, timeout_s: float) -> None:
    """Wait until the events of a committed transaction, and of those before it, have offsets.

    Before: `conn` is in autocommit. Raises GaplessError after timeout_s.
    """
    give_up = monotonic() + timeout_s
    pause_s = _PAUSE_S
    while not is_sequenced(conn, xid):
        sequence_if_alone(conn)
        if monotonic() > give_up:
            raise GaplessError(
                f"after {timeout_s:.0f} s the events have no offsets yet: they are published, but "
                "the sequencer does not get to them; gapless doctor says why"
            )
        sleep(pause_s)
        pause_s = min(pause_s * 2, _PAUSE_S_MAX)


def own_xid(conn: Connection) -> int:
    """Return the xid of the open transaction."""
    row = conn.execute(query("tail", "own_xid")).fetchone()
    assert row is not None
    return int(row[0])
