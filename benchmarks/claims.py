"""Claims as fast as psycopg can: a prepared binary statement, one round trip with a commit."""

from __future__ import annotations

from typing import Any

from psycopg import Connection, Cursor
from psycopg.sql import Composed
from psycopg.types.string import ByteaBinaryLoader

Rows = list[tuple[Any, ...]]


class _JsonbBytes(ByteaBinaryLoader):
    """jsonb in binary is its text, after a byte with the version."""

    def load(self, data: Any) -> Any:
        return super().load(data)[1:]


class Claims:
    """Claims by one statement, again and again, which takes the rows that it returns.

    Claimed rows are handled in the claim's own transaction, which commits together with the next
    claim, in one round trip: so a claim and its effects are one, as they are in gapless.
    is_decoded: JSON becomes Python's objects; otherwise it stays bytes.
    """

    def __init__(
        self, conn: Connection[Any], statement: bytes | Composed, *, is_decoded: bool
    ) -> None:
        self._conn = conn
        self._statement = statement
        self._is_open = False
        self._cursor = self.cursor(conn, is_decoded=is_decoded)

    @staticmethod
    def cursor(conn: Connection[Any], *, is_decoded: bool) -> Cursor[Any]:
        """Return a cursor that gets binary rows."""
        cursor = conn.cursor(binary=True)
        if not is_decoded:
            cursor.adapters.register_loader("json", ByteaBinaryLoader)
            cursor.adapters.register_loader("jsonb", _JsonbBytes)
        return cursor

    def next(self, params: dict[str, Any]) -> Rows:
        """Commit the last claim, and claim again; if nothing is found, nothing stays open."""
        with self._conn.pipeline():
            if self._is_open:
                self._conn.execute(b"commit")
            self._conn.execute(b"begin")
            self._cursor.execute(self._statement, params, prepare=True)
        rows = self._cursor.fetchall()
        self._is_open = True
        if not rows:
            self.commit()
        return rows

    def commit(self) -> None:
        if self._is_open:
            self._conn.execute(b"commit")
            self._is_open = False
