"""One PostgreSQL data folder and the server on it: make, start, stop, crash.

Knows nothing of users, keepers and locks: a cluster MUST have only one driver.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from psycopg.conninfo import make_conninfo

from gapless.errors import ConnectError
from gapless.features.server.postgres.account import run_as, server_account, spawn
from gapless.features.server.postgres.binaries import look_at
from gapless.features.server.postgres.postmaster import (
    Mode,
    remove_stale_pid_file,
    running_postmaster,
    shut_down,
    takes_connections,
)
from gapless.features.server.postgres.socket import (
    PORT,
    make_socket_folder,
    remove_socket_folder,
    socket_folder,
)

NAME = "gapless"  # of the superuser and of the database
START_TIMEOUT_S = 120.0  # recovery after a crash included
_LOOK_AGAIN_S = 0.01
_LOG_BYTES_MAX = 10_000_000
# A crashed server's last processes still hold its shared memory; they end by themselves.
_NOT_YET = "is still in use"
_LOG_PREFIX = re.compile(r"^.*?(?:FATAL|PANIC|ERROR): +")

# search_path: by default, unqualified tables would go into the schema named as the role: ours.
_OPTIONS = {"max_connections": "200", "shared_buffers": "128MB", "search_path": "public"}
_THROWAWAY = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


class Cluster:
    """A data folder, and the server on it while it runs.

    The server's log, its socket and half-made data folders lie beside `data_dir`, whose parent MUST
    exist. `options` are server settings; they take precedence over ALTER SYSTEM.
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
        self.data_dir = data_dir.resolve()
        self.log_path = self.data_dir.parent / "server.log"
        self._options = _OPTIONS | (_THROWAWAY if throwaway else {}) | dict(options or {})
        self._throwaway = throwaway
        self._account = server_account()
        self._socket_folder = socket_folder(self.data_dir, self._account)
        self._process: subprocess.Popen[str] | None = None

    @property
    def is_made(self) -> bool:
        return all((self.data_dir / part).exists() for part in ("PG_VERSION", "global/pg_control"))

    @property
    def postmaster_pid(self) -> int | None:
        """The process id of the server, whichever process started it; None when it does not run."""
        if self._process is not None and self._process.poll() is None:
            return self._process.pid
        return running_postmaster(self.data_dir)

    @property
    def exit_code(self) -> int | None:
        """The exit code of the server that `start` started; None while it runs."""
        return None if self._process is None else self._process.poll()

    def is_running(self) -> bool:
        return self.postmaster_pid is not None

    def dsn(self, dbname: str = NAME) -> str:
        """Return the DSN of the superuser."""
        return make_conninfo(host=str(self._socket_folder), port=PORT, user=NAME, dbname=dbname)

    def init(self) -> None:
        """Create the data folder with its superuser and database: all of it, or nothing.

        The remains of an interrupted initdb under the folder's name are moved out of the way.
        """
        self._account.require_name()
        parent = self.data_dir.parent
        for left_by_a_killed_one in parent.glob(".making-*"):
            shutil.rmtree(left_by_a_killed_one)
        making = Path(tempfile.mkdtemp(dir=parent, prefix=".making-"))
        self._account.give(making)
        settings = ["--username", NAME, "--auth=trust", "--encoding=UTF8", "--locale=C"]
        settings += ["--no-sync"] if self._throwaway else ["--data-checksums"]
        self._make([self.bindir / "initdb", "-D", making, *settings])
        alone = ["--single", *(["-F"] if self._throwaway else []), "-c", "exit_on_error=on"]
        self._make(
            [self.bindir / "postgres", *alone, "-D", making, "postgres"],
            f"create database {NAME}\n",
        )
        if self.data_dir.exists() and any(self.data_dir.iterdir()):
            self.data_dir.rename(tempfile.mkdtemp(dir=parent, prefix="incomplete-"))
        making.rename(self.data_dir)
        # The name MUST be on disk before the first commit is: otherwise a power cut could leave a
        # folder full of events that looks half made.
        _sync(parent)

    def start(self) -> None:
        """Start the server and wait until it takes connections; raise ConnectError if it fails.

        It is a child of this process, and stops (fast) when this process dies.
        """
        self._refuse_other_version()
        remove_stale_pid_file(self.data_dir)
        make_socket_folder(self._socket_folder, self._account)
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while True:
            log = self._open_log()
            try:
                log_from_bytes = os.fstat(log).st_size
                self._process = self._spawn(log)
            finally:
                os.close(log)
            if self._comes_up(self._process, deadline_s):
                return
            said = self._said_since(log_from_bytes)
            if _NOT_YET not in said or time.monotonic() > deadline_s:
                raise ConnectError(
                    f"the embedded PostgreSQL did not start: {_gist(said)} (log: {self.log_path})"
                )
            time.sleep(_LOOK_AGAIN_S * 10)

    def stop(self, mode: Mode = "fast") -> None:
        """Stop the server, if one runs, and wait for its end, whichever process started it."""
        pid = self.postmaster_pid
        if pid is not None:
            shut_down(pid, mode, self.is_running)
        remove_socket_folder(self._socket_folder)

    def restart(self, mode: Mode = "fast") -> None:
        """Stop and start again: every session ends."""
        self.stop(mode)
        self.start()

    def kill(self) -> None:
        """Kill the server's main process with SIGKILL, as the kernel does when memory runs out."""
        pid = self.postmaster_pid
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
        while self.is_running():
            time.sleep(_LOOK_AGAIN_S)

    def kill_backend(self, backend_pid: int) -> None:
        """Kill one session's process with SIGKILL: the server ends all sessions and recovers."""
        os.kill(backend_pid, signal.SIGKILL)

    def _make(self, argv: Sequence[str | Path], text: str = "") -> None:
        exit_code, printed = run_as(self._account, argv, text)
        self._log(printed)
        if exit_code != 0:
            raise ConnectError(
                f"cannot make the data folder {self.data_dir}: {_gist(printed)} "
                f"(log: {self.log_path})"
            )

    def _refuse_other_version(self) -> None:
        made_by = (self.data_dir / "PG_VERSION").read_text().strip()
        found = look_at(self.bindir)
        if found is None:
            raise ConnectError(f"{self.bindir} has no initdb and postgres that can be run")
        if made_by != str(found.major):
            raise ConnectError(
                f"the data folder {self.data_dir} was made by PostgreSQL {made_by}, and "
                f"{self.bindir} is PostgreSQL {found.major}: set GAPLESS_PG_BINDIR to the bin "
                f"folder of a PostgreSQL {made_by}, or choose another folder (GAPLESS_HOME)"
            )

    def _spawn(self, log: int) -> subprocess.Popen[str]:
        argv: list[str | Path] = [self.bindir / "postgres", "-D", self.data_dir]
        argv += ["-k", self._socket_folder, "-h", "", "-p", str(PORT)]
        for name, value in self._options.items():
            argv += ["-c", f"{name}={value}"]
        return spawn(self._account, argv, output=log, dies_by=signal.SIGINT)

    def _comes_up(self, process: subprocess.Popen[str], deadline_s: float) -> bool:
        while process.poll() is None:
            if takes_connections(self.data_dir, process.pid):
                return True
            if time.monotonic() > deadline_s:
                self.stop("immediate")
            time.sleep(_LOOK_AGAIN_S)
        return False

    def _open_log(self) -> int:
        if self.log_path.exists() and self.log_path.stat().st_size > _LOG_BYTES_MAX:
            self.log_path.replace(self.log_path.with_suffix(".log.old"))
        how = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
        return os.open(self.log_path, how, 0o600)

    def _log(self, text: str) -> None:
        with os.fdopen(self._open_log(), "a", errors="replace") as log:
            log.write(text)

    def _said_since(self, log_from_bytes: int) -> str:
        with self.log_path.open("rb") as log:
            log.seek(log_from_bytes)
            return log.read(100_000).decode(errors="replace")


def _sync(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _gist(said: str) -> str:
    """Return the line that explains the failure: the last error, or else the last line."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if _LOG_PREFIX.match(line) or "error:" in line]
    last = (errors or lines or ["it said nothing"])[-1]
    return _LOG_PREFIX.sub("", last)
