"""The embedded server, for people: look at it, and let it run without users."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from gapless.features.server.folder import SHARED, ServerFolder, default_folder, try_flock
from gapless.features.server.postgres.account import server_account
from gapless.features.server.postgres.binaries import find_binaries
from gapless.features.server.server import EmbeddedServer, acquire


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStanding:
    """The state of an embedded server: its dsn while it runs, the major version of its data.

    stays: it runs until it is stopped, not only as long as it has users.
    """

    folder: Path
    log: Path
    dsn: str | None
    stays: bool
    version: int | None


def standing_of(name: str) -> ServerStanding:
    """Look at the server called `name`; starts nothing. Raises UsageError for a bad name."""
    folder = _folder(name)
    dsn = folder.read_state().dsn if _is_kept(folder) else None
    made_by = folder.data / "PG_VERSION"
    return ServerStanding(
        folder=folder.root,
        log=folder.log,
        dsn=dsn,
        stays=dsn is not None and folder.stay.exists(),
        version=int(made_by.read_text()) if made_by.exists() else None,
    )


def start(name: str) -> ServerStanding:
    """Start the server called `name` unless it runs; it stays until `stop`, with or without users.

    Raises ConnectError when no server can be started.
    """
    with acquire(name=name) as server:
        stay(server)
    return standing_of(name)


def stay(server: EmbeddedServer) -> None:
    """Let a running server stay after its last user leaves."""
    ServerFolder(server.directory).stay.touch(mode=0o600)


def psql(name: str) -> Path | None:
    """Return the psql beside the programs of this server, if there is one."""
    program = find_binaries(standing_of(name).version).bindir / "psql"
    return program if os.access(program, os.X_OK) else None


def _folder(name: str) -> ServerFolder:
    return default_folder(name, as_root=not server_account().is_ours)


def _is_kept(folder: ServerFolder) -> bool:
    """Tell whether a keeper holds its lock; makes nothing where no server ever was."""
    if not folder.keeper_lock.exists():
        return False
    lock = try_flock(folder.keeper_lock, SHARED)
    if lock is None:
        return True
    os.close(lock)
    return False
