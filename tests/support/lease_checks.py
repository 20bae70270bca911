"""The invariants of docs/why/leases.md for a fixture: record all changes; check the record at the end."""

from pathlib import Path

import psycopg
from psycopg import Connection

_HISTORY = Path(__file__).with_name("lease_history.sql")


def record(conn: Connection) -> None:
    """Record every change of leases and fences in this database from now on."""
    conn.execute(_HISTORY.read_text())


def assert_sound(dsn: str, *, by_hand: bool) -> None:
    """S2 to S7, P1, P4, L3: fail if the history, or the present state, contradicts one of them.

    by_hand: the test writes targets itself, so plans are not checked.
    """
    with psycopg.connect(dsn, autocommit=True) as conn:
        found = conn.execute("select * from lease_history.violations(%s)", [by_hand]).fetchall()
        if not by_hand:
            found += conn.execute("select * from gapless.check_leases()").fetchall()
    assert not found, "\n".join(": ".join(map(str, violation)) for violation in found)
