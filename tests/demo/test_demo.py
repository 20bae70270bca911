"""However the demo ends, nothing of it stays behind and runs on."""

import contextlib
import os
import signal
import sys
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from psycopg.sql import SQL, Identifier

from gapless.demo.stage import SUPERVISORS
from support.fleet import until


def _supervisors_of(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in children if b"supervisor-" in _read(int(child), "cmdline")]


def _read(pid: int, what: str) -> bytes:
    """What the kernel tells of a process; nothing when it is gone, or waits to be collected."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/{what}").read_bytes()
    return b""


def _database_of(pid: int) -> str:
    (dsn,) = (
        word.removeprefix(b"GAPLESS_DSN=").decode()
        for word in _read(pid, "environ").split(b"\0")
        if word.startswith(b"GAPLESS_DSN=")
    )
    return str(conninfo_to_dict(dsn)["dbname"])


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_its_supervisors_end_with_it(start, dsn: str, signum: signal.Signals) -> None:
    demo = start("demo", "--flights", "400", "--speed", "1")
    supervisors: list[int] = []
    try:
        until(lambda: len(_supervisors_of(demo.pid)) == SUPERVISORS, "they are started")
        supervisors = _supervisors_of(demo.pid)
        database = _database_of(supervisors[0])
        demo.send_signal(signum)
        demo.wait(60)
        until(lambda: not any(_read(pid, "cmdline") for pid in supervisors), "they have ended")
    finally:
        for pid in supervisors:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    with psycopg.connect(dsn, autocommit=True) as conn:
        looked = conn.execute("select from pg_database where datname = %s", [database])
        is_kept = looked.fetchone() is not None
        conn.execute(SQL("drop database if exists {} with (force)").format(Identifier(database)))
    if signum == signal.SIGKILL:
        return
    assert demo.returncode == 130
    assert "Traceback" not in demo.stderr.read()
    assert not is_kept
