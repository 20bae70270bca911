"""Set the stage: a fresh database with schema, topic and tables; and two supervisors."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import psycopg
from psycopg import Connection
from psycopg.conninfo import make_conninfo
from psycopg.sql import SQL, Identifier

from gapless.db.connect import connect
from gapless.db.migrate import migrate
from gapless.demo.flights import examples, flights, flights_name
from gapless.errors import GaplessError, UsageError
from gapless.features.server.postgres.account import dies_with_us
from gapless.log.sequence import create_chunks
from gapless.log.topics import ensure_topic

PARTITIONS = 8
SUPERVISORS = 2
STOP_S_MAX = 20.0


@contextlib.contextmanager
def fresh_database(dsn: str, *, keep: bool) -> Iterator[str]:
    """Make a database for the demo beside the one that `dsn` names; drop it unless `keep`."""
    name = f"gapless_demo_{secrets.token_hex(3)}"
    with connect(dsn, role="demo") as conn:
        try:
            conn.execute(SQL("create database {}").format(Identifier(name)))
        except psycopg.errors.InsufficientPrivilege as error:
            raise UsageError(
                f'role "{conn.info.user}" may not create a database for the demo: '
                "grant it CREATEDB, or run the demo without --dsn"
            ) from error
    try:
        yield make_conninfo(dsn, dbname=name)
    finally:
        if not keep:
            with connect(dsn, role="demo") as conn:
                conn.execute(SQL("drop database {} with (force)").format(Identifier(name)))


def install_demo(conn: Connection[Any], tell: Callable[[int, int], None] = lambda *_: None) -> None:
    """Install the schema, the topic and the tables to which the handlers write.

    tell: is called with the number of files of the schema applied so far, and of all.
    """
    migrate(conn, tell=tell)
    create_chunks(conn)
    ensure_topic(conn, "flights", partitions=PARTITIONS)
    conn.execute(flights("queries").schema())


@dataclass(frozen=True, slots=True)
class RunningDemo:
    """The supervisors: separate processes, as on separate machines; each logs to a file."""

    processes: list[subprocess.Popen[bytes]]
    logs: list[Path]

    def check(self) -> None:
        """Raise GaplessError if one has ended before its time, with its last words."""
        for process, log in zip(self.processes, self.logs, strict=True):
            if process.poll() is not None:
                lines = log.read_text().strip().splitlines() or ["it said nothing"]
                raise GaplessError(f"supervisor ended with {process.returncode}: {lines[-1]}")

    def stop(self) -> None:
        """Drain them, as SIGTERM does; kill those that do not end in time."""
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
        deadline = monotonic() + STOP_S_MAX
        for process in self.processes:
            try:
                process.wait(max(0.1, deadline - monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextlib.contextmanager
def crew(dsn: str, folder: Path) -> Iterator[RunningDemo]:
    """Start the supervisors; they are stopped on every way out."""
    command = [sys.executable, "-m", "gapless", "run", f"{flights_name()}.handlers"]
    environment = {**os.environ, "GAPLESS_DSN": dsn}
    environment["PYTHONPATH"] = os.pathsep.join(
        filter(None, [str(examples()), environment.get("PYTHONPATH")])
    )
    processes: list[subprocess.Popen[bytes]] = []
    logs = []
    try:
        for number in range(1, SUPERVISORS + 1):
            log = folder / f"supervisor-{number}.log"
            with log.open("wb") as output:
                processes.append(
                    subprocess.Popen(  # noqa: S603 - our own interpreter and module
                        [*command, "--name", f"supervisor-{number}", "--log-format", "text"],
                        stdin=subprocess.DEVNULL,
                        stdout=output,
                        stderr=output,
                        env=environment,
                        start_new_session=True,  # Ctrl-C is for the demo, which then drains them
                        preexec_fn=dies_with_us(signal.SIGTERM),  # noqa: PLW1509 - kill -9, too
                    )
                )
            logs.append(log)
        yield RunningDemo(processes, logs)
    finally:
        RunningDemo(processes, logs).stop()
