"""Compacted topics, and their progress."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from gapless.db.queries import query
from gapless.ops.rows import rows

if TYPE_CHECKING:
    from psycopg import Connection

__all__ = ["CompactionInfo", "list_compactions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionInfo:
    """A compacted topic; not is_on: its kept events are being removed.

    lag: events still to be taken in. keys: events kept, one for each key. keyless: events passed
    over, because they have no key or are for one group. missing: events passed over, because they
    were deleted. bytes: on disk, of all topics together. moved: the time when an event was last
    taken in. stands_s: seconds since an event was taken in, while some wait; None: none wait.
    starting: groups that read the newest events and have not reached the log yet.
    """

    topic: str
    is_on: bool
    lag: int
    keys: int
    keyless: int
    missing: int
    bytes: int
    moved: datetime | None
    stands_s: float | None
    starting: Sequence[str]


def list_compactions(conn: Connection[Any]) -> list[CompactionInfo]:
    """Return the compacted topics, by name."""
    return rows(conn, CompactionInfo, query("compaction", "compactions"))
