"""PgBouncer in front of a database, in each of its modes, with a new session for every transaction."""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict

from support.ports import free_port
from support.servers import until

PGBOUNCER = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
SESSIONS = 3


@contextmanager
def pooler(dsn: str, folder: Path, mode: str, more: str = "") -> Iterator[str]:
    """Run a pooler that gives the next transaction another of its few sessions; yield its DSN.

    more: lines of its configuration.
    """
    server = conninfo_to_dict(dsn)
    port = free_port()
    known = ("host", "port", "user", "password", "dbname")
    database = " ".join(f"{name}={server[name]}" for name in known if name in server)
    # No named statements, as before version 1.21, where that is a setting.
    unprepared = "max_prepared_statements = 0\n" if _version() >= (1, 21) else ""
    ini = folder / f"{mode}.ini"
    ini.write_text(
        f"[databases]\nlog = {database}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
        f"listen_port = {port}\nauth_type = any\npool_mode = {mode}\nunix_socket_dir =\n"
        f"server_round_robin = 1\ndefault_pool_size = {SESSIONS if mode != 'session' else 50}\n"
        f"{unprepared}{more}"
    )
    is_root = os.geteuid() == 0
    for each in (ini, *ini.parents):
        if is_root and "pytest-of-" in str(each):
            each.chmod(0o755)
    process = subprocess.Popen(
        [str(PGBOUNCER), str(ini)],
        user="nobody" if is_root else None,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert until(lambda: process.poll() is not None or _answers(port))
        made = f"host=127.0.0.1 port={port} dbname=log user={server['user']}"
        if mode == "transaction":
            _fill(made)
        yield made
    finally:
        process.kill()
        process.wait()


def traces(dsn: str) -> set[str]:
    """Return the traces of a program in the sessions of a pooler in transaction mode."""
    found = set()
    with psycopg.connect(dsn, autocommit=True, prepare_threshold=None) as conn:
        for _ in range(SESSIONS):
            found |= {row[0] for row in conn.execute(_TRACES).fetchall()}
    return found


# PgBouncer sets some settings for each client itself; asyncpg sets jit.
_TRACES = """
select 'prepared ' || name from pg_prepared_statements
union all select 'listens to ' || c from pg_listening_channels() c
union all select 'holds a lock' from pg_locks where pid = pg_backend_pid() and locktype = 'advisory'
union all select 'has a table ' || relname from pg_class where relpersistence = 't' and relkind = 'r'
union all select 'has a cursor ' || name from pg_cursors where is_holdable
union all select 'set ' || name from pg_settings where source = 'session' and name not like 'transaction_%' and name not in
  ('application_name', 'client_encoding', 'DateStyle', 'TimeZone', 'standard_conforming_strings', 'jit')
"""


def _fill(dsn: str) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(psycopg.connect(dsn)) for _ in range(SESSIONS)]
        for client in clients:
            client.execute("select 1")  # in a transaction that stays open: so each has its own


def _answers(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def _version() -> tuple[int, ...]:
    said = subprocess.run([str(PGBOUNCER), "--version"], capture_output=True, text=True, check=True)
    return tuple(int(part) for part in said.stdout.split()[1].split(".")[:2])
