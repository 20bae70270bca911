"""The account of the operating system that the embedded server runs as.

PostgreSQL refuses to run as root, so root's server runs as `nobody`; other users' servers run as
themselves. No folder is ever opened up for it with chmod: an error names the folder instead.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gapless.errors import ConnectError

_ROOTS_SERVER_RUNS_AS = "nobody"
_PR_SET_PDEATHSIG = 1  # linux/prctl.h

# Prints the first given folder that cannot be entered; nothing if all can.
_FIRST_CLOSED = 'for folder; do [ -x "$folder" ] || { printf %s "$folder"; exit; }; done'


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The account of the server; `is_ours` when that is this process's own account."""

    uid: int
    gid: int
    name: str
    is_ours: bool

    def require_name(self) -> None:
        """Raise ConnectError for a user id without a name, as in some containers: initdb fails."""
        if self.name == str(self.uid):
            raise ConnectError(
                f"PostgreSQL makes its data only for a user with a name, and user id {self.uid} "
                "has none here: add it to /etc/passwd, or give the DSN of a server"
            )

    def give(self, path: Path) -> None:
        """Make the account the owner of one file or folder that this process has just made."""
        if not self.is_ours:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)


def server_account() -> Account:
    """Return the account for a server that this process starts."""
    if os.geteuid() != 0:
        uid = os.geteuid()
        return Account(uid=uid, gid=os.getegid(), name=_name_of(uid), is_ours=True)
    try:
        entry = pwd.getpwnam(_ROOTS_SERVER_RUNS_AS)
    except KeyError as error:
        raise ConnectError(
            f"PostgreSQL does not run as root, and this machine has no user "
            f'"{_ROOTS_SERVER_RUNS_AS}" to run it as: run gapless as an ordinary user'
        ) from error
    return Account(uid=entry.pw_uid, gid=entry.pw_gid, name=entry.pw_name, is_ours=False)


def spawn(
    account: Account,
    argv: Sequence[str | Path],
    *,
    stdin: int = subprocess.DEVNULL,
    output: int = subprocess.PIPE,
    dies_by: signal.Signals = signal.SIGKILL,
) -> subprocess.Popen[str]:
    """Start a program as the account, standard error joined to `output`.

    It gets a session of its own, so that Ctrl-C at the terminal does not reach it, and on Linux the
    signal `dies_by` when this process is gone, for whatever reason.
    """
    try:
        return subprocess.Popen(  # noqa: S603  # every program started here is our own choice
            [str(part) for part in argv],
            stdin=stdin,
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            cwd="/",  # the caller's folder may be closed to the account
            env=_environment(),
            user=None if account.is_ours else account.uid,
            group=None if account.is_ours else account.gid,
            extra_groups=None if account.is_ours else [],
            start_new_session=True,
            preexec_fn=dies_with_us(dies_by),  # noqa: PLW1509  # no other way to do it in time
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise ConnectError(f"cannot run {argv[0]} as user {account.name}: {error}") from error


def run_as(account: Account, argv: Sequence[str | Path], text: str = "") -> tuple[int, str]:
    """Run a program as the account to its end; return its exit code and all its output."""
    with spawn(account, argv, stdin=subprocess.PIPE) as process:
        printed, _ = process.communicate(text)
    return process.returncode, printed


def closed_folder(account: Account, folder: Path) -> Path | None:
    """Return the first folder on the way to `folder`, or itself, that the account cannot enter."""
    way = [part for part in reversed([folder, *folder.parents]) if part.is_dir()]
    _, printed = run_as(account, ["/bin/sh", "-c", _FIRST_CLOSED, "sh", *way])
    return Path(printed) if printed else None


def _environment() -> dict[str, str]:
    # PGDATA, PGOPTIONS and the like are about other servers. LC_ALL: a name that the machine does
    # not know would stop initdb, and macOS makes a process threaded while it looks the locale up.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return kept | {"LC_ALL": "C"}


def dies_with_us(dies_by: signal.Signals) -> Callable[[], None] | None:
    """Return a preexec_fn: its child gets `dies_by` when this process is gone; None off Linux."""
    if sys.platform != "linux":
        return None
    parent_pid = os.getpid()
    prctl = ctypes.CDLL(None).prctl

    def ask() -> None:
        # MUST be after the change of user, which forgets it; Popen calls this last.
        prctl(_PR_SET_PDEATHSIG, int(dies_by))
        if os.getppid() != parent_pid:  # the parent died before the call of prctl()
            os._exit(1)

    return ask


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
