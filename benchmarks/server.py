"""The server of the benchmarks: our own throwaway one, or the one whose DSN was given."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from socket import create_server
from typing import Literal, TypeVar

import psycopg
from psycopg import Connection, sql
from psycopg.conninfo import make_conninfo

from benchmarks.chart import Chart
from benchmarks.queries import query
from gapless.db.connect import connect
from gapless.db.migrate import migrate
from gapless.errors import UsageError
from gapless.features.server.postgres.binaries import find_binaries
from gapless.features.server.postgres.socket import PORT
from gapless.features.server.server import embedded

# It is removed in the end, and still as durable as a server is by default: fsync is the cost of a
# commit. Memory and checkpoints are set so that no checkpoint falls into one side's turn alone.
OPTIONS = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "shared_buffers": "1GB",
    "max_connections": "400",
    "max_wal_size": "16GB",
    "checkpoint_timeout": "1h",
}


Size = Literal["tiny", "quick", "full"]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The surroundings of a benchmark.

    size: tiny is for the tests (does it run?), quick for a look, full for figures to publish.
    commit_delay_ms: a commit takes this much longer, as on a slow disk or with a replica.
    minutes: how long the held snapshot is held; None: by the size.
    charts: the list to which a benchmark adds its curves.
    is_own: the server is removed in the end, so its settings may be changed.
    migrated: a database with the schema, to be copied; without it, each database is migrated.
    """

    dsn: str
    size: Size = "full"
    commit_delay_ms: float = 0.0
    minutes: float | None = None
    charts: list[Chart] = field(default_factory=list)
    is_own: bool = False
    migrated: str = ""

    def pick(self, tiny: T, quick: T, full: T) -> T:
        """Return the value that fits the size."""
        return {"tiny": tiny, "quick": quick, "full": full}[self.size]

    @property
    def rounds(self) -> int:
        return self.pick(1, 3, 3)

    @contextmanager
    def database(
        self, purpose: str, *, template: str | None = None, commit_delay_ms: float | None = None
    ) -> Iterator[str]:
        """Yield the DSN of a fresh database: with the schema, or a copy of another purpose's."""
        name = database_name(purpose)
        source = database_name(template) if template else self.migrated or "template1"
        delay_ms = self.commit_delay_ms if commit_delay_ms is None else commit_delay_ms
        identifier = sql.Identifier(name)
        with psycopg.connect(self.dsn, autocommit=True) as admin:
            admin.execute(sql.SQL("drop database if exists {} with (force)").format(identifier))
            admin.execute(
                sql.SQL("create database {} template {}").format(identifier, sql.Identifier(source))
            )
            _imitate_slow_commits(admin, identifier, delay_ms)
            dsn = make_conninfo(self.dsn, dbname=name)
            try:
                if source == "template1":
                    with connect(dsn, role="bench") as conn:
                        migrate(conn)
                yield dsn
            finally:
                admin.execute(sql.SQL("drop database {} with (force)").format(identifier))


def database_name(purpose: str) -> str:
    """Return the name of a benchmark's database for a purpose."""
    return f"gapless_bench_{purpose}"


@contextmanager
def server(dsn: str | None) -> Iterator[str]:
    """Yield a superuser's DSN: of the given server, or of one started for this run."""
    if dsn is not None:
        with connect(dsn, role="bench") as conn:
            row = conn.execute(query("is_superuser")).fetchone()
        if row != ("on",):
            raise UsageError(
                "--dsn: not a superuser, who could make databases and look into the server"
            )
        yield dsn
        return
    tcp = {"listen_addresses": "127.0.0.1"} if _is_free(PORT) else {}
    with embedded(throwaway=True, options=OPTIONS | tcp) as own:
        yield own


def _is_free(port: int) -> bool:
    """Tell whether our server may listen there too: Java knows no sockets of files."""
    with suppress(OSError), create_server(("127.0.0.1", port)):
        return True
    return False


def settings(dsn: str) -> dict[str, str]:
    """Return the server's settings on which its figures depend."""
    with psycopg.connect(dsn) as conn:
        return dict(conn.execute(query("settings")).fetchall())


def pgbench_path() -> Path:
    """Return the path of pgbench: beside the server's programs, or on the PATH."""
    beside = find_binaries().bindir / "pgbench"
    found = str(beside) if beside.exists() else shutil.which("pgbench")
    if found is None:
        raise UsageError("there is no pgbench: install PostgreSQL's client programs")
    return Path(found)


def _imitate_slow_commits(
    admin: Connection, database: sql.Identifier, commit_delay_ms: float
) -> None:
    # commit_siblings 0: even a lone commit waits, as it would for a slow disk.
    for name, value in (("commit_delay", round(commit_delay_ms * 1000)), ("commit_siblings", 0)):
        if commit_delay_ms:
            admin.execute(
                sql.SQL("alter database {} set {} = {}").format(
                    database, sql.Identifier(name), sql.Literal(value)
                )
            )
