"""What a replay would handle: which offsets of which partitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from gapless.db.queries import query
from gapless.ops.rows import rows

if TYPE_CHECKING:
    from psycopg import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """A partition of a replay; stop_offset is exclusive. The times are those of both ends."""

    partition_id: int
    start_offset: int
    stop_offset: int
    first_event: datetime | None
    last_event: datetime | None

    @property
    def events(self) -> int:
        return self.stop_offset - self.start_offset


def ranges(conn: Connection[Any], what: Mapping[str, object]) -> list[Range]:
    """Return what create_replay() would make a scratch group for; it is made, and rolled back.

    Raises what it raises.
    """
    with conn.transaction(force_rollback=True):
        conn.execute(query("control", "create_replay"), what)
        return rows(conn, Range, query("control", "replay_ranges"), group=what["group"])
