"""Calls on another thread, and the moment in which they wait."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from time import monotonic, sleep

from psycopg import Connection

WAIT_S = 20.0


@contextmanager
def in_thread(work: Callable[[], object]) -> Iterator[Future[object]]:
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(work)


def until_waiting(conn: Connection, lock_type: str) -> None:
    """Wait until a session waits for a lock of this type."""
    give_up = monotonic() + WAIT_S
    waiting = "select 1 from pg_locks where not granted and locktype = %s"
    while not conn.execute(waiting, [lock_type]).fetchone():
        assert monotonic() < give_up
        sleep(0.01)
