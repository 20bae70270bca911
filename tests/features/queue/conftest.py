"""A topic of one partition with a queue group, and sessions that take from it."""

from collections.abc import Callable, Iterator

import pytest
from psycopg import Connection

from gapless.db.connect import connect
from support.queue import Queue, make
from support.supervisors import runs

__all__ = ["open_session", "queue", "runs"]


@pytest.fixture
def open_session(dsn: str) -> Iterator[Callable[[], Connection]]:
    """Open sessions of the test's database, in autocommit; they are closed at its end."""
    opened: list[Connection] = []

    def open_one() -> Connection:
        opened.append(connect(dsn, role="test"))
        return opened[-1]

    yield open_one
    for each in opened:
        each.close()


@pytest.fixture
def queue(conn: Connection) -> Queue:
    """Twenty events, e1 to e20, and the group `sender`, in blocks of four."""
    return make(conn, events=20, block=4)
