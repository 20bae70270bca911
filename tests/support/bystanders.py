"""Sessions that hold something like what a call is about, and are to stay as they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager

from gapless.db.connect import connect


@contextmanager
def bystanders(locks: Iterable[tuple[str, str]]) -> Iterator[None]:
    """Have a session for each; at the end none of them was ended. locks: where (DSN), and what it selects."""
    with ExitStack() as stack:
        sessions = []
        for dsn, lock in locks:
            session = stack.enter_context(connect(dsn, role="test"))
            session.autocommit = False
            session.execute(f"select {lock}".encode())
            sessions.append(session)
        yield
        for session in sessions:
            session.execute("select 1")
            session.rollback()
