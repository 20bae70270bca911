"""The story of a unit test's world, in order: its transactions, and other notes."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Telling:
    """session: the one whose transactions are noted. A COMMIT fails if `_commit()` raises."""

    def __init__(self, session: object) -> None:
        self._session = session
        self.story: list[Any] = []

    def told(self) -> list[Any]:
        """Return the notes since the last call."""
        told, self.story = self.story, []
        return told

    @contextmanager
    def transaction(self, conn: object) -> Iterator[None]:
        assert conn is self._session
        self.story.append("begin")
        try:
            yield
            self._commit()
        except BaseException:
            self.story.append("rollback")
            raise
        self.story.append("commit")

    def _commit(self) -> None:
        """Raise the error of the COMMIT, if it is to fail."""
