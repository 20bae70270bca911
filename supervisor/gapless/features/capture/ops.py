"""Captured tables, for an operator: capture, release, mend and list them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from psycopg.errors import LockNotAvailable

from gapless.db.queries import query
from gapless.errors import GaplessError
from gapless.ops.rows import row, rows

if TYPE_CHECKING:
    from psycopg import Connection

__all__ = ["CaptureInfo", "capture_table", "list_captures", "mend_capture", "release_capture"]

LOCK_S_MAX = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureInfo:
    """The state of a captured table.

    table: as SQL spells it. topic: None: it is gone. key: the template; None: the primary key.
    columns: of the payload; None: all. problem: the reason why changes are not published; None: no
    problem. remedy: the command that helps.
    """

    table: str
    topic: str | None
    key: str | None
    columns: Sequence[str] | None
    old: str
    captured_by: str = field(metadata={"only_json": True})
    created_ts: datetime = field(metadata={"only_json": True})
    problem: str | None
    remedy: str | None


def capture_table(
    conn: Connection[Any],
    table: str,
    topic: str,
    *,
    key: str | None = None,
    columns: Sequence[str] | None = None,
    old: str = "changed",
) -> None:
    """Publish all further changes of a table, in the transactions that write them.

    table: as SQL spells it, `public."Order Lines"`. key: a template of columns, "{region}/{id}";
    None: the primary key. columns: of the payload; None: all. old: the former values in an update's
    event, "changed", "all" or "none". Locks the table against writers, and waits for them for at
    most 10 s. Raises RefusedError for a table that cannot be captured or is captured already,
    GaplessError when its writers do not let go.
    """
    wanted = None if columns is None else list(columns)
    _changed(conn, "capture", table, topic=topic, key=key, columns=wanted, old=old)


def release_capture(conn: Connection[Any], table: str) -> bool:
    """Stop publishing a table's changes; published events stay. False: it was not captured.

    Name a dropped table as list_captures() does. Raises RefusedError for an unknown table,
    GaplessError when it has been in use for 10 s.
    """
    return bool(_changed(conn, "release", table))


def mend_capture(conn: Connection[Any], table: str) -> int:
    """Create missing and enable disabled triggers, also on new partitions; return their number.

    Changes written in between are not in the topic. Raises RefusedError for a table that is not
    captured, GaplessError when it has been in use for 10 s.
    """
    return int(_changed(conn, "mend", table))


def list_captures(conn: Connection[Any]) -> list[CaptureInfo]:
    """Return all captured tables, by name."""
    return rows(conn, CaptureInfo, query("capture", "list"))


def _changed(conn: Connection[Any], name: str, table: str, **params: object) -> Any:
    try:
        with conn.transaction():
            row(conn, query("connect", "local_lock_timeout"), timeout=f"{LOCK_S_MAX}s")
            return row(conn, query("capture", name), table=table, **params)[0]
    except LockNotAvailable as error:
        raise GaplessError(
            f"another session has been using {table} for {LOCK_S_MAX} s: nothing was changed; try "
            "again when its transactions are shorter"
        ) from error
