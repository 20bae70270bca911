"""Retention: what of the log may be dropped, why the rest stays; drop it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gapless.log.catch_up import catch_up
from gapless.log.retention import Chunk, Keep, apply_retention, plan_retention
from gapless.ops.rows import require_autocommit

if TYPE_CHECKING:
    from psycopg import Connection


def list_chunks(conn: Connection[Any]) -> list[Chunk]:
    """Return the chunks of the log, oldest first, and which of them may go.

    Before: `conn` is in autocommit. Gives offsets to what is pending where no sequencer does:
    nobody else finds out which chunks are complete.
    """
    require_autocommit(conn, "list_chunks()")
    catch_up(conn)
    return plan_retention(conn)


def drop_chunks(
    conn: Connection[Any], *, dead_letter_retention_s: int, audit_retention_s: int
) -> list[str]:
    """Drop what list_chunks() lets go, for good; return the names of the chunks.

    Before: `conn` is in autocommit. The seconds: for how long dead letters that are closed, and the
    audit, are kept. What somebody else has locked is left for the next time.
    """
    require_autocommit(conn, "drop_chunks()")
    return apply_retention(conn, Keep(letters_s=dead_letter_retention_s, audit_s=audit_retention_s))
