"""A migration whose process or session dies in the middle leaves nothing behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from psycopg import Connection

import gapless
from gapless.db.connect import connect
from gapless.db.migrate import migrate, require_schema

PATIENCE_S = 20.0
HOLD = 77  # an advisory lock of the test's own

PROGRAM = """
import sys
from gapless.db.connect import connect
from gapless.db.migrate import migrate
with connect(sys.argv[1], role="migration") as conn:
    migrate(conn)
"""
# The tables and functions are there when the first view is made.
WAIT_IN_THE_MIDDLE = f"""
create function public.wait_in_the_middle() returns event_trigger language plpgsql as $$
begin
  perform pg_advisory_xact_lock({HOLD});
end
$$;
create event trigger wait_in_the_middle on ddl_command_start when tag in ('CREATE VIEW')
  execute function public.wait_in_the_middle();
"""


@contextmanager
def _migration(dsn: str) -> Iterator[subprocess.Popen[bytes]]:
    root = str(Path(gapless.__file__).parents[1])
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, dsn],
        env={**os.environ, "PYTHONPATH": root},
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _waiting(conn: Connection) -> list[int]:
    rows = conn.execute(
        "select pid from pg_locks where locktype = 'advisory' and objid = %s and not granted",
        [HOLD],
    )
    return [row[0] for row in rows]


def _until(conn: Connection, waiting: bool) -> list[int]:
    give_up = time.monotonic() + PATIENCE_S
    while bool(found := _waiting(conn)) != waiting:
        assert time.monotonic() < give_up
        time.sleep(0.02)
    return found


@pytest.mark.parametrize("end", ["kill the process", "terminate the session"])
def test_nothing_is_left_of_it(empty_dsn: str, end: str) -> None:
    with connect(empty_dsn, role="test") as conn:
        conn.execute(WAIT_IN_THE_MIDDLE.encode())
        conn.execute("select pg_advisory_lock(%s)", [HOLD])
        with _migration(empty_dsn) as process:
            (pid,) = _until(conn, waiting=True)
            if end == "kill the process":
                process.send_signal(signal.SIGKILL)
            else:
                conn.execute("select pg_terminate_backend(%s)", [pid])
            _until(conn, waiting=False)
            assert process.wait(PATIENCE_S) != 0
        left = conn.execute(
            "select count(*) from pg_namespace where nspname = 'gapless'"
        ).fetchone()
        assert left == (0,)
        conn.execute("drop event trigger wait_in_the_middle")
        assert migrate(conn) != []
        require_schema(conn)
