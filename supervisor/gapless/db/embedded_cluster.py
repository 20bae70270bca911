"""One PostgreSQL data folder and the server on it: make, start, stop, crash.

Knows nothing of users, keepers and locks: whoever drives it MUST be the only one who does.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from psycopg.conninfo import make_conninfo

from gapless.db.embedded_account import Account, closed_folder, run, server_account, spawn
from gapless.db.embedded_binaries import look_at
from gapless.errors import ConnectError

NAME = "gapless"  # of the superuser and of the database
PORT = 5432  # only a part of the socket's name
START_TIMEOUT_S = 120.0  # crash recovery included
STOP_TIMEOUT_S = 60.0

# struct sockaddr_un holds 108 bytes on Linux, 104 elsewhere, the closing zero included.
_SOCKET_PATH_BYTES_MAX = 107 if sys.platform == "linux" else 103
_SIGNALS = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}
_LOOK_AGAIN_S = 0.01

_OPTIONS = {"max_connections": "200", "shared_buffers": "128MB"}
_THROWAWAY = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}

Mode = Literal["smart", "fast", "immediate"]


class Cluster:
    """A data folder, and the server that runs on it when it runs.

    The server's log, its socket's folder and half-made data folders lie beside `data_dir`.
    """

    def __init__(
        self,
        bindir: Path,
        data_dir: Path,
        options: Mapping[str, str] | None = None,
        *,
        throwaway: bool = False,
    ) -> None:
        self.bindir = bindir
        self.data_dir = data_dir.absolute()
        self.log_path = self.data_dir.parent / "server.log"
        self.options = _OPTIONS | (_THROWAWAY if throwaway else {}) | dict(options or {})
        self._throwaway = throwaway
        self._account = server_account()
        self._socket_dir = _socket_dir(self.data_dir, self._account)
        self._process: subprocess.Popen[str] | None = None

    @property
    def is_made(self) -> bool:
        return all((self.data_dir / part).exists() for part in ("PG_VERSION", "global/pg_control"))

    @property
    def postmaster_pid(self) -> int | None:
        """The process id of the server, None when it does not run."""
        if self._process is not None:
            return self._process.pid if self._process.poll() is None else None
        return running_postmaster(self.data_dir)

    def is_running(self) -> bool:
        return self.postmaster_pid is not None

    def dsn(self, dbname: str = NAME) -> str:
        """Return how to connect as the superuser."""
        return make_conninfo(host=str(self._socket_dir), port=PORT, user=NAME, dbname=dbname)

    def init(self) -> None:
        """Make the data folder with its superuser and database: all of it, or nothing.

        What an interrupted initdb has left under the folder's name is moved out of the way.
        """
        parent = self.data_dir.parent
        for left_by_a_killed_one in parent.glob(".making-*"):
            shutil.rmtree(left_by_a_killed_one)
        making = Path(tempfile.mkdtemp(dir=parent, prefix=".making-"))
        self._account.give(making)
        settings = ["--username", NAME, "--auth=trust", "--encoding=UTF8", "--locale=C"]
        settings += ["--no-sync"] if self._throwaway else ["--data-checksums"]
        self._make([self.bindir / "initdb", "-D", making, *settings], "")
        single = [self.bindir / "postgres", "--single", "-D", making, "-c", "exit_on_error=on"]
        self._make([*single, "postgres"], f"create database {NAME}")
        if self.data_dir.exists() and any(self.data_dir.iterdir()):
            self.data_dir.rename(tempfile.mkdtemp(dir=parent, prefix="incomplete-"))
        making.rename(self.data_dir)

    def start(self) -> None:
        """Start the server and wait until it takes connections; raise ConnectError if it fails.

        Its parent is this process, and it stops (fast) when this process dies.
        """
        self._refuse_other_version()
        _remove_stale_pid_file(self.data_dir)
        _make_socket_dir(self._socket_dir, self._account)
        deadline_s = time.monotonic() + START_TIMEOUT_S
        log_bytes = self._spawn()
        while not self._is_ready():
            if self._process.wait_or_none(_LOOK_AGAIN_S) is None: ...
