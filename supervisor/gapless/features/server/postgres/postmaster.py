"""The server process of a data folder, found by its postmaster.pid and the process table.

postmaster.pid outlives a power cut, and its process id may by then belong to any program: nothing
here trusts it, or sends a signal, without a look at the program behind it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from gapless.errors import ConnectError

Mode = Literal["smart", "fast", "immediate"]

STOP_TIMEOUT_S = 60.0
_LOOK_AGAIN_S = 0.01
_READY_LINE = 7  # PostgreSQL 10 and newer: the eighth line is the state
_SIGNALS: dict[Mode, signal.Signals] = {
    "smart": signal.SIGTERM,
    "fast": signal.SIGINT,
    "immediate": signal.SIGQUIT,
}


def running_postmaster(data_dir: Path) -> int | None:
    """Return the process id of the server that runs on this data folder, if one does."""
    pid = _pid_in(_lines(data_dir))
    if pid is None or str(data_dir) not in _command(pid):
        return None
    return pid


def takes_connections(data_dir: Path, pid: int) -> bool:
    """Tell whether the server with this process id has said that it is ready."""
    lines = _lines(data_dir)
    return (
        _pid_in(lines) == pid and len(lines) > _READY_LINE and lines[_READY_LINE].strip() == "ready"
    )


def remove_stale_pid_file(data_dir: Path) -> None:
    """Remove a postmaster.pid without a PostgreSQL behind it; it would keep a server from starting.

    If some PostgreSQL is behind it, the server decides: it also looks at the shared memory.
    """
    pid = _pid_in(_lines(data_dir))
    if pid is not None and "postgres" not in _command(pid):
        (data_dir / "postmaster.pid").unlink(missing_ok=True)


def shut_down(pid: int, mode: Mode, is_alive: Callable[[], bool]) -> None:
    """Stop a server and wait for its end; one that takes too long is stopped immediately.

    An immediate stop loses no commit: the next start recovers them from the WAL.
    """
    for attempt in dict.fromkeys((mode, "immediate")):
        try:
            os.kill(pid, _SIGNALS[attempt])
        except ProcessLookupError:
            return
        deadline_s = time.monotonic() + STOP_TIMEOUT_S
        while time.monotonic() < deadline_s:
            if not is_alive():
                return
            time.sleep(_LOOK_AGAIN_S)
    raise ConnectError(f"the embedded PostgreSQL (process {pid}) does not stop")


def _lines(data_dir: Path) -> list[str]:
    try:
        return (data_dir / "postmaster.pid").read_text().splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return []


def _pid_in(lines: list[str]) -> int | None:
    # In single-user mode the number is negative; a file that is being written may be empty.
    return abs(int(lines[0])) if lines and lines[0].lstrip("-").isdigit() else None


def _command(pid: int) -> str:
    """Return a process's command line; empty when there is no such process, or only a zombie."""
    if Path("/proc/self").exists():
        try:
            return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        except (FileNotFoundError, ProcessLookupError):
            return ""
    printed = subprocess.run(  # noqa: S603
        ["/bin/ps", "-ww", "-o", "command=", "-p", str(pid)],
        capture_output=True,
        text=True,
        check=False,
    )
    return printed.stdout
