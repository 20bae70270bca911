"""PostgreSQL's own programs, of the version of the server: psql, pg_dump."""

import shutil
import subprocess
from pathlib import Path

import psycopg
import pytest

TIMEOUT_S = 120


def tool(dsn: str, name: str) -> str:
    """Return the path of a program beside the server's, or in PATH; skip the test without it."""
    with psycopg.connect(dsn) as conn:
        row = conn.execute("select setting from pg_config where name = 'BINDIR'").fetchone()
    beside = Path(row[0]) / name if row else None
    found = str(beside) if beside is not None and beside.exists() else shutil.which(name)
    if found is None:
        pytest.skip(f"there is no {name} beside the server, nor in PATH")
    return found


def psql(dsn: str, script: str, *, stops: bool = True) -> str:
    """Run a script as people do; return its output; AssertionError if it fails and stops."""
    stop = f"ON_ERROR_STOP={int(stops)}"
    argv = [tool(dsn, "psql"), "-X", "-q", "-A", "-t", "-v", stop, "-d", dsn]
    return _run(argv, script)


def pg_dump(dsn: str, *options: str) -> str:
    """Return the whole database, or the part that the options choose, as a script for psql."""
    return _run([tool(dsn, "pg_dump"), "-d", dsn, *options], "")


def _run(argv: list[str], text: str) -> str:
    done = subprocess.run(
        argv, input=text, text=True, capture_output=True, timeout=TIMEOUT_S, check=False
    )
    if done.returncode != 0:
        raise AssertionError(f"{Path(argv[0]).name}: {done.stderr.strip()}")
    return done.stdout
