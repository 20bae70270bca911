"""Two sessions, one of which waits for a lock of the other."""

from concurrent.futures import Future
from typing import Any

from psycopg import Connection

_WAITS = "select from pg_stat_activity where pid = %s and wait_event_type = 'Lock'"


def until_blocked(eye: Connection[Any], session: Connection[Any], call: Future[Any]) -> None:
    """Return when a session waits for a lock, in the call that a thread makes on it.

    eye: a third session, or the one that has the lock; in no transaction, or one of few statements:
    a transaction reads the activity of other sessions only once.
    """
    while not eye.execute(_WAITS, [session.info.backend_pid]).fetchall():
        assert not call.done()
