"""The server the benchmarks run on: our own throwaway one, or the one whose DSN was given."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import Connection, sql
from psycopg.conninfo import make_conninfo

from benchmarks.queries import query
from gapless.db.connect import connect
from gapless.db.migrate import migrate
from gapless.log.sequence import create_chunks

# Durable as by default; only memory and checkpoints are set, so that a checkpoint does not fall
# into one side's turn and not into the other's.
OPTIONS = {
    "shared_buffers": "1GB",
    "max_connections": "200",
    "max_wal_size": "16GB",
    "checkpoint_timeout": "1h",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What a benchmark is given.

    quick: fewer and shorter rounds. commit_delay_ms: imitates a slower disk or a synchronous replica.
    """

    dsn: str
    quick: bool
    commit_delay_ms: float

    @property
    def rounds(self) -> int:
        return 3 if self.quick else 5

    @contextmanager
    def database(
        self, name: str, *, template: str = "template1", commit_delay_ms: float | None = None
    ) -> Iterator[str]:
        """Yield the DSN of a fresh database, with the schema unless a template is named."""
        name = f"gapless_bench_{name}"
        delay_ms = self.commit_delay_ms if commit_delay_ms is None else commit_delay_ms
        identifier = sql.Identifier(name)
        with psycopg.connect(self.dsn, autocommit=True) as admin:
            admin.execute(sql.SQL("drop database if exists {} with (force)").format(identifier))
            admin.execute(
                sql.SQL("create database {} template {}").format(identifier, sql.Identifier(template))
            )
            _imitate_slow_commits(admin, identifier, delay_ms)
            dsn = make_conninfo(self.dsn, dbname=name)
            try:
                if template == "template1":
                    with connect(dsn, role="bench") as conn:
                        migrate(conn)
                        create_chunks(conn)
                yield dsn
            finally:
                admin.execute(sql.SQL("drop database {} with (force)").format(identifier))


@contextmanager
def server(dsn: str | None) -> Iterator[str]:
    """Yield the DSN of a superuser: of the server given, or of one started for this run."""
    if dsn is not None:
        yield dsn
        return
    from gapless.db.embedded import embedded
    with embedded(throwaway=True, options=OPTIONS) as own:
        yield own


def settings(dsn: str) -> dict[str, str]:
    """Return the server's settings that its figures depend on."""
    with psycopg.connect(dsn) as conn:
        return dict(conn.execute(query("settings")).fetchall())


def pgbench_path() -> Path:
    """Return where pgbench is: beside the server binaries, or on the PATH."""
    found = os.environ.get("GAPLESS_PG_BINDIR") or shutil.which("pgbench")
    if found:
        return Path(found) if found.endswith("pgbench") else Path(found) / "pgbench"
    from gapless.db.embedded import acquire
    return acquire() / "pgbench"


def _imitate_slow_commits(
    admin: Connection, database: sql.Identifier, commit_delay_ms: float
) -> None:
    # commit_siblings 0: also a commit that is alone waits, as it would for a slow disk.
    for name, value in (("commit_delay", round(commit_delay_ms * 1000)), ("commit_siblings", 0)):
        if commit_delay_ms:
            admin.execute(
                sql.SQL("alter database {} set {} = {}").format(
                    database, sql.Identifier(name), sql.Literal(value)
                )
            )
