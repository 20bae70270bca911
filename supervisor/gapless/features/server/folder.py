"""The folder of one embedded server: its files, its locks, and its state.

    data/         the database, the server account's
    socket/       its only entrance, the server account's (elsewhere when this path is too long)
    server.log    the log of the server and its keeper
    users.lock    every user holds it shared; an exclusive holder knows that there are no users
    keeper.lock   the keeper holds it as long as it lives; its process id is in it
    start.lock    held by a process while it looks for the server, and perhaps starts it
    state.json    the server's DSN once it takes connections, or why it did not start
    stay          exists while the server is to run even without users

The locks are flock(2)'s: the kernel releases them however their holder ends.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from gapless.errors import ConnectError, UsageError
from gapless.features.server.postgres.account import Account, closed_folder

SHARED = fcntl.LOCK_SH
EXCLUSIVE = fcntl.LOCK_EX
_LOOK_AGAIN_S = 0.01
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerState:
    """The keeper's message to the processes that wait for it: `dsn` or `error`, never both."""

    dsn: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class ServerFolder:
    """The paths of one embedded server."""

    root: Path

    @property
    def data(self) -> Path:
        return self.root / "data"

    @property
    def log(self) -> Path:
        return self.root / "server.log"

    @property
    def users_lock(self) -> Path:
        return self.root / "users.lock"

    @property
    def keeper_lock(self) -> Path:
        return self.root / "keeper.lock"

    @property
    def start_lock(self) -> Path:
        return self.root / "start.lock"

    @property
    def stay(self) -> Path:
        return self.root / "stay"

    @property
    def _state(self) -> Path:
        return self.root / "state.json"

    def make(self, account: Account) -> None:
        """Create the folder if it is missing; raise ConnectError when the server cannot live in it.

        Root keeps the folder for itself and only lets the server's account pass through.
        """
        try:
            for missing in reversed([p for p in (self.root, *self.root.parents) if not p.exists()]):
                missing.mkdir(exist_ok=True)
                missing.chmod(0o700 if account.is_ours else 0o711)
        except OSError as error:
            raise ConnectError(
                f"cannot make the folder of the embedded server: {error}; set GAPLESS_HOME"
            ) from error
        closed = None if account.is_ours else closed_folder(account, self.root)
        if closed is not None:
            raise ConnectError(
                f"user {account.name}, whom root's server runs as, cannot enter {closed}: "
                f"choose another folder than {self.root} for the embedded server (GAPLESS_HOME)"
            )

    def write_state(self, state: ServerState) -> None:
        """Tell all waiting processes at once."""
        draft = self._state.with_suffix(".new")
        draft.write_text(json.dumps(asdict(state)))
        draft.replace(self._state)

    def read_state(self) -> ServerState:
        """Return the keeper's last message; it is only valid while a keeper holds its lock."""
        try:
            return ServerState(**json.loads(self._state.read_text()))
        except FileNotFoundError:
            return ServerState()

    def clear_state(self) -> None:
        self._state.unlink(missing_ok=True)

    def still_has(self, lock: int) -> bool:
        """Tell whether `lock` is this folder's keeper.lock: the folder may have been removed."""
        try:
            return os.path.samestat(os.fstat(lock), self.keeper_lock.stat())
        except FileNotFoundError:
            return False


def default_folder(name: str, *, as_root: bool) -> ServerFolder:
    """Return the folder of the server called `name`, in this machine's usual place for data."""
    if not _NAME.fullmatch(name):
        raise UsageError(f'"{name}" cannot name an embedded server: letters, digits, ". _ -" only')
    home = os.environ.get("GAPLESS_HOME")
    if home:
        return ServerFolder(Path(home).absolute() / name)
    if as_root:
        return ServerFolder(Path("/var/lib/gapless") / name)
    if sys.platform == "darwin":
        return ServerFolder(Path.home() / "Library" / "Application Support" / "gapless" / name)
    shared = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return ServerFolder(Path(shared).absolute() / "gapless" / name)


def try_flock(path: Path, kind: int) -> int | None:
    """Take a lock without waiting; return its descriptor, or None when another process holds it.

    Forked children inherit the lock, started programs do not. It ends with the last copy of the
    descriptor.
    """
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    except BaseException:
        os.close(lock)
        raise
    return lock


def wait_for_lock(path: Path, kind: int, deadline_s: float) -> int:
    """Take a lock before `deadline_s` on the monotonic clock, or raise ConnectError."""
    while (lock := try_flock(path, kind)) is None:
        if time.monotonic() > deadline_s:
            raise ConnectError(f"{path} stays locked: a gapless process hangs; see who has it open")
        time.sleep(_LOOK_AGAIN_S)
    return lock
