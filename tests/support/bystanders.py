"""Sessions with locks similar to those of a call, which the call must leave alone."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager

from gapless.db.connect import connect


@contextmanager
def bystanders(locks: Iterable[tuple[str, str]]) -> Iterator[None]:
    """Open a session for each lock; check at the end that none was ended. locks: DSN, and the locking SELECT."""
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
