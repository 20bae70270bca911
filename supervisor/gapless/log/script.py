"""A script: the statements of one call, in order, whatever sends them (log.play).

A generator that yields each statement and is sent its row. So what is checked, what is asked and
how an answer is read are written once, for connections that are awaited and those that are not.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final, TypeVar

Row = tuple[Any, ...]
Asked = tuple[str, Any, bool | None]
"""A named query of `sql/log/queries/log.sql`; its parameters, those of COPY an iterator over rows;
and whether psycopg prepares it (None: it decides). Its row is sent back, of COPY how many rows."""
T = TypeVar("T")
Script = Generator[Asked, Any, T]

COPY: Final = "copy_events"
WHOLE: Final[Asked] = ("begin", None, False)
"""No statement: from here on the script is one transaction, the caller's if there is one. Once.
An error within, also one of our own, MUST abort the caller's, or a part could be committed."""
ABORT: Final = "rollback to savepoint gapless_has_none"
"""What fails in any transaction, and so aborts it."""


class Trouble(Exception):  # noqa: N818 - it carries one; who asked says what it means
    """What a driver said instead of a row: its SQLSTATE, its message, perhaps a detail."""

    def __init__(self, error: Exception, state: str, message: str, detail: str | None) -> None:
        super().__init__(message)
        self.error = error
        self.state = state
        self.message = message
        self.detail = detail
