"""A run of the sequencer: give offsets to committed events, and sleep while none are published.

Keeps I1 to I4 by calling gapless.sequence_events(); the loop around it is worker/sequencer.py.
"""

from __future__ import annotations

from contextlib import suppress
from time import monotonic, sleep

import psycopg
from psycopg import Connection
from psycopg.pq import TransactionStatus

from gapless.db.queries import query
from gapless.db.wire import fetch_all
from gapless.failpoints import hit

WAKE_CHANNEL = "gapless_sequencer"
ROLE_CHANNEL = "gapless_role"
LATER = "later"  # sent on WAKE_CHANNEL for scheduled events
_BUSY_S = 0.002


def sequence(conn: Connection, *, patience_s: float = 0.0) -> int:
    """Run the sequencer once; return the number of events that got offsets.

    Before: `conn` is in autocommit, outside a transaction. Also 0 when another session runs it for
    longer than patience_s. Safe to call from anywhere; a run that finds nothing writes nothing.
    """
    hit("sequence.before")
    give_up = monotonic() + patience_s
    while True:
        ((events,),) = fetch_all(conn, "log", "sequence")
        if events is not None or monotonic() >= give_up:
            break
        sleep(_BUSY_S)
    hit("sequence.after")
    return events or 0


def configure_chunks(conn: Connection, *, chunk_events: int, chunks_ahead: int) -> None:
    """Set the size in ids of chunks that are made from now on, and the number that stand ready."""
    conn.execute(
        query("log", "configure_chunks"),
        {"chunk_events": chunk_events, "chunks_ahead": chunks_ahead},
    )


def create_chunks(conn: Connection) -> int:
    """Make the chunks of outbox_message_t that are needed soon; return their number.

    If they were not made in time, later events go to these.
    Raises LockNotAvailable when a session holds the default chunk; readers then release it.
    """
    try:
        row = conn.execute(query("log", "create_chunks")).fetchone()
    except psycopg.errors.LockNotAvailable:
        if conn.info.transaction_status == TransactionStatus.IDLE:
            with suppress(psycopg.errors.LockNotAvailable):
                conn.execute(query("log", "want_default_chunk"))
        raise
    conn.execute(query("log", "leave_default_chunk"))
    assert row is not None
    return int(row[0])


def chunk_triggers(conn: Connection) -> list[str]:
    """Return the event triggers that may keep chunks from being made, each with its remedy."""
    return [line for (line,) in fetch_all(conn, "log", "chunk_triggers")]


def try_role(conn: Connection) -> bool:
    """Become the active sequencer, for as long as this session lives."""
    return _true(conn, "try_role")


def give_role(conn: Connection) -> None:
    """Stop being the active sequencer, and notify the candidates."""
    conn.execute(query("log", "give_role"))


def stands_still(conn: Connection) -> int | None:
    """Return the newest run if events wait and no session sequences them; otherwise None.

    The same answer for a while means that the active sequencer was stopped, or hangs.
    """
    row = conn.execute(query("log", "stands_still")).fetchone()
    return None if row is None else row[0]


def break_role(conn: Connection, run: int) -> bool:
    """End the active sequencer's session if the log still stands still at that run."""
    row = conn.execute(query("log", "break_role"), {"run": run}).fetchone()
    return row is not None and bool(row[0])


def try_sleep(conn: Connection) -> bool:
    """Announce sleep: publishers notify until wake_up(). False while one is in mid-transaction.

    After True: run sequence() once more before waiting; a publisher may have committed just before.
    """
    return _true(conn, "try_sleep")


def has_to_poll(conn: Connection) -> bool:
    """Tell whether publishers do not notify here, because some prepare their transactions."""
    return _true(conn, "sequencer_polls")


def heal_letters(conn: Connection) -> None:
    """Shorten the waits of units whose time was set while a clock was ahead."""
    conn.execute(query("log", "heal_letters"))


def wake_up(conn: Connection) -> None:
    """Take the announcement back: publishers need not notify."""
    fetch_all(conn, "log", "wake_up")


def _true(conn: Connection, name: str) -> bool:
    ((value,),) = fetch_all(conn, "log", name)
    return bool(value)
