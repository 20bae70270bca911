"""A script: the statements of one call, in order, for any player that sends them (log.play).

A generator that yields each statement and is sent its row. So the checks, the statements and the
reading of answers are written once, for connections that are awaited and for others.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final, TypeVar

Row = tuple[Any, ...]
Asked = tuple[str, Any, bool | None]
"""A named query of `sql/log/queries/log.sql`; its parameters, for COPY an iterator over rows; and
whether psycopg prepares it (None: it decides). Its row is sent back, for COPY the row count."""
T = TypeVar("T")
Script = Generator[Asked, Any, T]

COPY: Final = "copy_events"
WHOLE: Final[Asked] = ("begin", None, False)
"""No statement: from here on the script is one transaction, the caller's if there is one. Once.
An error within, also one of our own, MUST abort the caller's, or a part could be committed."""
ABORT: Final = "rollback to savepoint gapless_has_none"
"""A statement that fails in any transaction, and so aborts it."""


class Trouble(Exception):  # noqa: N818 - it carries an error; the caller interprets it
    """An error that a driver reported: its SQLSTATE, its message, perhaps a detail."""

    def __init__(self, error: Exception, state: str, message: str, detail: str | None) -> None:
        super().__init__(message)
        self.error = error
        self.state = state
        self.message = message
        self.detail = detail
