"""A session that reports the rows that a statement changes, in all its tables."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import psycopg
import pytest
from psycopg import Connection


class Diffs:
    """The session; all changes of a test are rolled back."""

    state: str
    """A query that makes a line of each row."""

    def __init__(self, conn: Connection[Any], *made: str) -> None:
        self.conn = conn
        self.notices: list[str] = []
        conn.add_notice_handler(lambda note: self.notices.append(note.message_primary or ""))
        self.run("set statement_timeout = '10s'")
        for each in made:
            self.run(each)

    def run(self, statements: str, *params: object) -> None:
        self.conn.execute(statements.encode(), params or None)

    def value(self, statement: str, *params: object) -> Any:
        row = self.row(statement, *params)
        return None if row is None else row[0]

    def row(self, statement: str, *params: object) -> Any:
        return self.conn.execute(statement.encode(), params or None).fetchone()

    def rows(self, statement: str, *params: object) -> list[Any]:
        return self.conn.execute(statement.encode(), params or None).fetchall()

    def refused(self, statement: str, *params: object) -> tuple[str, str]:
        """Run a statement that must fail; return SQLSTATE and message."""
        with pytest.raises(psycopg.Error) as caught, self.conn.transaction():
            self.run(statement, *params)
        return caught.value.sqlstate or "", caught.value.diag.message_primary or ""

    def diff(self, statement: str, *params: object) -> list[str]:
        """Run a statement; return the rows it added (+) and removed (-)."""
        before = self._lines()
        self.run(statement, *params)
        after = self._lines()
        went, came = before - after, after - before
        return sorted(
            [f"- {line}" for line in went.elements()] + [f"+ {line}" for line in came.elements()]
        )

    def _lines(self) -> Counter[str]:
        return Counter(line for (line,) in self.rows(self.state))

    @contextmanager
    def undone(self) -> Iterator[Self]:
        """Undo all changes at the end of the block."""
        self.notices.clear()
        with self.conn.transaction(force_rollback=True):
            yield self
