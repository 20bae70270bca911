"""The cost of a statement, counted and not timed: pages touched, tables scanned, rows looked up."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, LiteralString

from psycopg import Connection
from psycopg.rows import class_row

_COUNTERS = """
select s.relname as name, s.seq_scan, s.seq_tup_read, coalesce(s.idx_tup_fetch, 0) as idx_tup_fetch
from pg_stat_xact_user_tables s
where s.schemaname = 'gapless'
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """Counts of one table: sequential scans, rows they read, rows fetched through an index."""

    name: str
    seq_scan: int
    seq_tup_read: int
    idx_tup_fetch: int


@dataclass(slots=True)
class Cost:
    """The work of one transaction on the tables of schema gapless."""

    tables: dict[str, Counters] = field(default_factory=dict)

    @property
    def scanned(self) -> dict[str, int]:
        """Return tables of events and segments that were read whole, with the rows read."""
        return {
            name: counters.seq_tup_read
            for name, counters in self.tables.items()
            if counters.seq_scan and name.startswith(("outbox_message", "log_segment"))
        }

    @property
    def events_looked_up(self) -> int:
        """Return the rows fetched through an index of a chunk."""
        return sum(
            counters.idx_tup_fetch
            for name, counters in self.tables.items()
            if name.startswith("outbox_message")
        )


@contextmanager
def cost(conn: Connection) -> Iterator[Cost]:
    """Run the block in a transaction of its own and count its work; filled in at the end."""
    measured = Cost()
    with conn.transaction():
        before = _counters(conn)
        yield measured
        for name, now in _counters(conn).items():
            was = before.get(name)
            measured.tables[name] = Counters(
                name=name,
                seq_scan=now.seq_scan - (was.seq_scan if was else 0),
                seq_tup_read=now.seq_tup_read - (was.seq_tup_read if was else 0),
                idx_tup_fetch=now.idx_tup_fetch - (was.idx_tup_fetch if was else 0),
            )


def pages(
    conn: Connection,
    statement: LiteralString,
    params: Sequence[object] | Mapping[str, Any] | None = None,
) -> int:
    """Run a statement; return how many pages it touched, those of its functions included."""
    row = conn.execute(f"explain (analyze, buffers, format json) {statement}", params).fetchone()
    assert row is not None
    plan = row[0][0]["Plan"]
    return int(plan["Shared Hit Blocks"]) + int(plan["Shared Read Blocks"])


def _counters(conn: Connection) -> dict[str, Counters]:
    with conn.cursor(row_factory=class_row(Counters)) as cursor:
        return {row.name: row for row in cursor.execute(_COUNTERS)}
