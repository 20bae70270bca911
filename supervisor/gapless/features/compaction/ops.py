"""Compacted topics: which there are, and how far each is."""

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
    """A compacted topic; not is_on: what was kept of it is being removed.

    lag: events that are yet to be taken in. keys: events kept, one of each key. keyless: events
    passed, for they have no key or are for one group. missing: events passed, for somebody deleted
    them. bytes: on disk, of all topics together. moved: when an event was last taken in. stands_s:
    for so many seconds none was, though there are some; None: there are none. starting: groups that
    read the newest events and have not come to the log yet.
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
    return rows(conn, CompactionInfo, query("cli", "compactions"))
