"""A first migration whose process or session dies in the middle leaves nothing behind."""

import os
import signal
import subprocess
import sys

import pytest

from gapless.db.connect import connect
from gapless.db.migrate import migrate, require_schema
from gapless.db.queries import sql_root
from migration.following import HOLD, WAIT_HALF_WAY, WAITING
from support.fleet import until


@pytest.mark.parametrize("end", ["kill the process", "terminate the session"])
def test_nothing_is_left_of_it(empty_dsn: str, end: str) -> None:
    with connect(empty_dsn, role="test") as conn:
        conn.execute(WAIT_HALF_WAY.encode())
        conn.execute("select pg_advisory_lock(%s)", [HOLD])
        with subprocess.Popen(
            [sys.executable, "-m", "gapless", "init"],
            env=os.environ
            | {"PYTHONPATH": str(sql_root().parent / "supervisor"), "GAPLESS_DSN": empty_dsn},
            stderr=subprocess.DEVNULL,
        ) as process:
            try:
                until(lambda: conn.execute(WAITING).fetchone(), "it is half way")
                if end == "kill the process":
                    process.send_signal(signal.SIGKILL)
                else:
                    conn.execute(f"select pg_terminate_backend(w.pid) from ({WAITING}) w")
                until(lambda: not conn.execute(WAITING).fetchone(), "its session is over")
                assert process.wait(20.0) != 0
            finally:
                process.kill()
        left = "select count(*) from pg_namespace where nspname = 'gapless'"
        assert conn.execute(left).fetchone() == (0,)
        conn.execute("drop event trigger wait_half_way")
        assert migrate(conn) != []
        require_schema(conn)
