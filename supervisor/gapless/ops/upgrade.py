"""Plan an upgrade of a database before it is done: files, locks, rows, time.

`sql/locks.json` lists for each file the locks that it takes on existing tables, and its effect on
their rows. It was measured by applying the files; tests/migration/test_next_version.py compares.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psycopg.errors import InsufficientPrivilege

from gapless.db.lock_facts import functions_gone, locks
from gapless.db.migrate import SchemaChange, newest, pending
from gapless.db.queries import query
from gapless.db.schema import schema
from gapless.errors import UsageError
from gapless.ops.rows import row, rows
from gapless.ops.text import quantity, size_text

if TYPE_CHECKING:
    from psycopg import Connection

__all__ = ["PlannedLock", "TableSize", "UpgradePlan", "plan_upgrade"]

# Measured on 2 cores, rows of 1 KB: docs/why/decisions/0032-classic-names.md.
FILE_MS = 1.0
READ_ROWS_PER_S = 140_000
WRITTEN_ROWS_PER_S = 75_000
_BLOCKED = {
    "AccessExclusiveLock": "readers and writers",
    "RowExclusiveLock": "writers of the same rows",
}
_WORK = {"none": "no row is touched", "read": "all rows are read", "written": "rows are written"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSize:
    """A table with its chunks.

    rows: how many rows the server's statistics know of. bytes: the bytes of these rows on disk.
    """

    table: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedLock:
    """The effect of a file on an existing table.

    mode: of the lock, as pg_locks names it; it is held until the whole upgrade commits. blocks: the
    sessions that wait, `readers and writers`, `writers` or `writers of the same rows`. work:
    `none`, `read` (all rows are read once) or `written` (rows are written, at most all). rows,
    bytes: the present size of the table.
    """

    file: str
    table: str
    mode: str
    blocks: str
    work: str
    rows: int
    bytes: int

    def __str__(self) -> str:
        size = f"about {quantity(self.rows, 'row')}, {size_text(self.bytes)}"
        against = f"against {self.blocks}; {_WORK[self.work]}"
        return f"{self.file} locks {self.table} ({size}) {against}"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradePlan:
    """The work that install_schema() would do.

    database: its name. installed: its last migration, `baseline` or None (no schema). migrations:
    those that it lacks. functions: files of functions that are new or changed. views: files of
    views that are new or changed. locks: on existing tables. gone: functions that will be
    dropped; programs that call them have to be changed before. seconds: about how many seconds it
    takes, without waiting for locks. rows_per_s_read: rows assumed to be read in a second.
    rows_per_s_written: rows assumed to be written in a second. file_ms: milliseconds assumed for
    each file.
    """

    database: str
    installed: str | None
    migrations: Sequence[str]
    functions: int
    views: int
    locks: Sequence[PlannedLock]
    gone: Sequence[str]
    seconds: float
    rows_per_s_read: int = READ_ROWS_PER_S
    rows_per_s_written: int = WRITTEN_ROWS_PER_S
    file_ms: float = FILE_MS

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        place = f'database "{self.database}", schema {schema()}'
        if self.installed and not (self.migrations or self.functions or self.views):
            yield f"nothing to do: {place} is up to date"
            return
        yield f"{place}: {f'is at {self.installed}' if self.installed else 'is not there yet'}"
        files = [
            (len(self.migrations), "migration"),
            (self.functions, "function"),
            (self.views, "view"),
        ]
        parts = [] if self.installed else ["baseline"]
        parts += [quantity(number, noun) for number, noun in files if number]
        what = ", ".join([*parts, "roles"])
        yield f"would apply {what}, in one transaction, in about {self.seconds:.1f} s"
        yield from (f"  {each}" for each in self.migrations)
        if self.installed is None:
            return
        yield from (f"  {each}" for each in self.locks)
        if not self.locks:
            yield "no table that is there is locked"
        yield (
            f"time: {self.file_ms:g} ms a file, {self.rows_per_s_read:,} rows/s read, "
            f"{self.rows_per_s_written:,} rows/s written; waiting for locks comes on top"
        )
        if self.gone:
            yield f"gone for programs that call them: {', '.join(self.gone)}"
        yield "programs that run continue; one that starts anew must be of this version"


def plan_upgrade(conn: Connection[Any]) -> UpgradePlan:
    """Return the work of install_schema() on a database; change nothing, wait for no session.

    It needs the right to read the table of migrations, which gapless_consumer and gapless_producer
    have. Raises SchemaError for a database of a newer gapless, or a schema of another program,
    UsageError for a role that may not read it.
    """
    try:
        changes, before = pending(conn), newest(conn)
    except InsufficientPrivilege as error:
        reader = f'role "{conn.info.user}" may not read {schema()}.migration'
        raise UsageError(f"{reader}: grant it gapless_consumer") from error
    sizes = {each.table: each for each in rows(conn, TableSize, query("schema", "sizes"))}
    (there,) = row(conn, query("schema", "function_names"))
    found = [] if before is None else list(_locks(changes, locks(), sizes))
    gone = sorted(set(there) & set(functions_gone())) if changes else []
    kinds = [change.kind for change in changes]
    return UpgradePlan(
        database=conn.info.dbname,
        installed=before,
        migrations=[change.name for change in changes if change.kind == "migrations"],
        functions=kinds.count("functions"),
        views=kinds.count("views"),
        locks=found,
        gone=gone,
        seconds=_seconds(len(changes), found),
    )


def _locks(
    changes: Sequence[SchemaChange],
    files: Mapping[str, Mapping[str, Mapping[str, str]]],
    sizes: Mapping[str, TableSize],
) -> Iterator[PlannedLock]:
    """Yield the effect of each file on existing tables, without those made by an earlier file."""
    for change in changes:
        for table, fact in files.get(f"{change.kind}/{change.name}", {}).items():
            size = sizes.get(table)
            if size is not None:
                yield PlannedLock(
                    file=change.name,
                    table=table,
                    mode=fact["mode"],
                    blocks=_BLOCKED.get(fact["mode"], "writers"),
                    work=fact.get("work", "none"),
                    rows=size.rows,
                    bytes=size.bytes,
                )


def _seconds(files: int, locks: Sequence[PlannedLock]) -> float:
    read = sum(each.rows for each in locks if each.work == "read")
    written = sum(each.rows for each in locks if each.work == "written")
    work_s = read / READ_ROWS_PER_S + written / WRITTEN_ROWS_PER_S
    return round(files * FILE_MS / 1000 + work_s, 3)
