"""A pooler in transaction mode is noticed and refused; one in session mode is used."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

PGBOUNCER = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")

pytestmark = pytest.mark.skipif(PGBOUNCER is None, reason="pgbouncer is not installed")


@pytest.fixture
def pooler(dsn: str, tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """Start PgBouncer in a pool mode before the test's database; returns its DSN."""
    started: list[subprocess.Popen[bytes]] = []

    def start(mode: str) -> str:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        server = conninfo_to_dict(dsn)
        database = " ".join(
            f"{key}={value}"
            for key, value in server.items()
            if key in {"host", "port", "user", "password", "dbname"}
        )
        ini = tmp_path / f"{mode}.ini"
        ini.write_text(
            f"[databases]\nlog = {database}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
            f"listen_port = {port}\nauth_type = any\npool_mode = {mode}\nunix_socket_dir =\n"
            "ignore_startup_parameters = extra_float_digits\n"
        )
        is_root = os.geteuid() == 0
        for folder in (ini, *ini.parents):
            if is_root and "pytest-of-" in str(folder):
                folder.chmod(0o755)
        started.append(
            subprocess.Popen(
                [str(PGBOUNCER), str(ini)],
                user="nobody" if is_root else None,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        )
        give_up = time.monotonic() + 10
        while time.monotonic() < give_up and started[-1].poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
            except OSError:
                time.sleep(0.02)
            else:
                break
        return f"host=127.0.0.1 port={port} dbname=log user={server['user']}"

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_transaction_mode_is_refused(bare, pooler) -> None:
    dsn = pooler("transaction")
    for words in (("topics",), ("init",), ("publish", "t", "1")):
        complaint = bare(*words, "--dsn", dsn).complaint()
        assert "is a pooler in transaction mode" in complaint
    done = bare("doctor", "--json", "--dsn", dsn)
    assert done.code == 1
    assert "is a pooler in transaction mode" in done.json["checks"][0]["text"]


def test_session_mode_is_used(bare, pooler) -> None:
    dsn = pooler("session")
    assert bare("publish", "t", "1", "--create", "--wait", "--dsn", dsn).code == 0
    done = bare("doctor", "--json", "--dsn", dsn)
    checks = {check["name"]: check for check in done.json["checks"]}
    assert checks["pooler"]["text"].startswith("a pooler in session mode")
    assert checks["wake-up"]["level"] == "ok"
