"""The server that gapless starts itself when no PostgreSQL is configured.

    with embedded() as dsn:
        conn = psycopg.connect(dsn)

Every process that uses one folder shares one server. The first starts it, and it stops when the
last is gone, however it ended: each holds a lock that the kernel releases, and a keeper process
(keeper) watches it. Forked children count as users too.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from gapless.errors import ConnectError
from gapless.features.server.folder import (
    EXCLUSIVE,
    SHARED,
    ServerFolder,
    default_folder,
    try_flock,
    wait_for_lock,
)
from gapless.features.server.keeper import Order
from gapless.features.server.postgres.account import closed_folder, server_account
from gapless.features.server.postgres.binaries import find_binaries, runnable_by
from gapless.features.server.postgres.cluster import START_TIMEOUT_S, Cluster
from gapless.features.server.postgres.postmaster import (
    STOP_TIMEOUT_S,
    running_postmaster,
    shut_down,
)

_LOOK_AGAIN_S = 0.01
# A stopping server, a recovery, and a first initdb on a slow disk, one after the other.
_PATIENCE_S = STOP_TIMEOUT_S + START_TIMEOUT_S


class EmbeddedServer:
    """A share in a running server: it runs at least until `release`, or the end of this process."""

    def __init__(self, folder: ServerFolder, users_lock: int, dsn: str, *, throwaway: bool) -> None:
        self.dsn = dsn
        self.directory = folder.root
        self._folder = folder
        self._users_lock: int | None = users_lock
        self._throwaway = throwaway

    def release(self) -> None:
        """Give the share back; the server stops soon if it was the last. Again: does nothing.

        A throwaway server is gone, with its folder, when this returns.
        """
        if self._users_lock is None:
            return
        # Closed, not unlocked: a forked child still holds its copy of the same lock.
        os.close(self._users_lock)
        self._users_lock = None
        deadline_s = time.monotonic() + STOP_TIMEOUT_S
        while self._throwaway and self.directory.exists() and time.monotonic() < deadline_s:
            time.sleep(_LOOK_AGAIN_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.release()


def acquire(
    directory: Path | None = None,
    *,
    name: str = "default",
    options: Mapping[str, str] | None = None,
    throwaway: bool = False,
) -> EmbeddedServer:
    """Join the server of a folder, starting it if it does not run; return a share in it.

    The folder is `directory`, or the one called `name` in this machine's usual place. `options` are
    server settings; they count only if this call starts the server. A throwaway server runs without
    waiting for disks, loses everything when the machine stops, and is removed in the end; its
    folder must not exist. Raises ConnectError with one line when no server can be started.
    """
    account = server_account()
    if throwaway:
        folder = _throwaway_folder(directory)
    elif directory is not None:
        folder = ServerFolder(directory.resolve())
    else:
        folder = default_folder(name, as_root=not account.is_ours)
    order = Order(options=dict(options or {}), throwaway=throwaway)
    try:
        folder.make(account)
        users_lock, dsn = _join(folder, order)
    except OSError as error:
        raise ConnectError(f"cannot use {folder.root} for the embedded server: {error}") from error
    return EmbeddedServer(folder, users_lock, dsn, throwaway=throwaway)


@contextmanager
def embedded(
    directory: Path | None = None,
    *,
    name: str = "default",
    options: Mapping[str, str] | None = None,
    throwaway: bool = False,
) -> Iterator[str]:
    """Yield the DSN of the server of a folder; it runs at least as long; see `acquire`."""
    with acquire(directory, name=name, options=options, throwaway=throwaway) as server:
        yield server.dsn


@contextmanager
def throwaway_cluster(options: Mapping[str, str] | None = None) -> Iterator[Cluster]:
    """Yield a new running cluster for this process alone, to stop, crash and start at will.

    Commits survive every crash but the machine's: only the waiting for disks is off.
    """
    account = server_account()
    folder = _throwaway_folder(None)
    folder.make(account)
    bindir = runnable_by(account, find_binaries()).bindir
    wanted = {"synchronous_commit": "on"} | dict(options or {})
    cluster = Cluster(bindir, folder.data, wanted, throwaway=True)
    try:
        cluster.init()
        cluster.start()
        yield cluster
    finally:
        cluster.stop("immediate")
        shutil.rmtree(folder.root)


def stop(directory: Path | None = None, *, name: str = "default") -> bool:
    """Stop the server of a folder, even if it has users; return whether one ran.

    After: the server and its keeper are gone; the data stay.
    """
    as_root = not server_account().is_ours
    folder = (
        ServerFolder(directory.resolve()) if directory else default_folder(name, as_root=as_root)
    )
    if not folder.keeper_lock.exists():
        return False
    is_kept = False
    while (keeper_lock := try_flock(folder.keeper_lock, EXCLUSIVE)) is None:
        is_kept = True
        _tell_keeper_to_stop(folder)
        time.sleep(_LOOK_AGAIN_S)
    try:
        left_alone = running_postmaster(folder.data)
        if left_alone is not None:
            shut_down(left_alone, "fast", lambda: running_postmaster(folder.data) is not None)
        return is_kept or left_alone is not None
    finally:
        os.close(keeper_lock)


def _join(folder: ServerFolder, order: Order) -> tuple[int, str]:
    """Become a user of the server; return the lock that proves it, and the DSN.

    The order MUST be: start.lock, so that one at a time starts a server; users.lock, which waits
    for a keeper that is stopping and keeps the next one from it; only then the look for a keeper.
    """
    deadline_s = time.monotonic() + _PATIENCE_S
    start_lock = wait_for_lock(folder.start_lock, EXCLUSIVE, deadline_s)
    try:
        users_lock = wait_for_lock(folder.users_lock, SHARED, deadline_s)
        try:
            return users_lock, _find_or_start(folder, order, deadline_s)
        except BaseException:
            os.close(users_lock)
            raise
    finally:
        os.close(start_lock)


def _find_or_start(folder: ServerFolder, order: Order, deadline_s: float) -> str:
    """Return the DSN of the server of a running keeper, or of the keeper started here."""
    is_started = False
    while time.monotonic() < deadline_s:
        keeper_lock = try_flock(folder.keeper_lock, EXCLUSIVE)
        if keeper_lock is None:
            dsn = folder.read_state().dsn
            if dsn is not None:
                return dsn
        elif is_started:
            os.close(keeper_lock)
            raise ConnectError(_why_it_ended(folder))
        else:
            folder.clear_state()
            _start_keeper(folder, keeper_lock, order)
            is_started = True
        time.sleep(_LOOK_AGAIN_S)
    raise ConnectError(f"the embedded server does not get ready (log: {folder.log})")


def _tell_keeper_to_stop(folder: ServerFolder) -> None:
    pid = folder.keeper_lock.read_text()
    if pid:  # else it has only just been started
        with suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGTERM)


def _start_keeper(folder: ServerFolder, keeper_lock: int, order: Order) -> None:
    """Start the keeper and hand it the lock; it is not a child of this process."""
    package_root = str(Path(__file__).parents[2])
    python_path = [package_root, os.environ.get("PYTHONPATH", "")]
    log = os.open(folder.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        os.ftruncate(keeper_lock, 0)  # an earlier keeper's process id may be reused by now
        subprocess.run(  # noqa: S603
            [
                *(sys.executable, "-P", "-m", "gapless.features.server.keeper"),
                *(str(folder.root), str(keeper_lock), order.dumps()),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, python_path))},
            pass_fds=[keeper_lock],
            start_new_session=True,
            check=False,
        )
    finally:
        os.close(log)
        os.close(keeper_lock)


def _why_it_ended(folder: ServerFolder) -> str:
    return folder.read_state().error or (
        f"the embedded server's keeper ended before the server was ready (log: {folder.log})"
    )


def _throwaway_folder(directory: Path | None) -> ServerFolder:
    if directory is not None:
        if directory.exists():
            raise ConnectError(f"{directory} exists: a throwaway server removes its folder")
        return ServerFolder(directory.resolve())
    account = server_account()
    # TMPDIR may be one of root's own folders, where its server cannot go.
    usable = tempfile.gettempdir()
    if not account.is_ours and closed_folder(account, Path(usable)) is not None:
        usable = "/tmp"  # noqa: S108  # the folder in it gets a name of its own
    made = Path(tempfile.mkdtemp(prefix="gapless-", dir=usable)).resolve()
    if not account.is_ours:
        made.chmod(0o711)
    return ServerFolder(made)
