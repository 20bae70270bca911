"""The folder of the embedded server's socket: an account that may enter it may connect.

There is no password (`trust`): the folder belongs to the server's account and is closed to others.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
import tempfile
from pathlib import Path

from gapless.errors import ConnectError
from gapless.features.server.postgres.account import Account

PORT = 5432  # only a part of the socket's name
# struct sockaddr_un holds 108 bytes on Linux and 104 elsewhere, the closing zero included.
_PATH_BYTES_MAX = 107 if sys.platform == "linux" else 103
# Both libpq and the server take a comma for the end of a folder's name; the server also a quote.
_CANNOT_BE_SAID = (",", '"')


def socket_folder(data_dir: Path, account: Account) -> Path:
    """Return `socket` beside the data folder, or a short path when that one cannot be used.

    Paths that are too long for a socket's address are common, such as pytest's temporary folders.
    """
    beside = data_dir.parent / "socket"
    if _fits(beside):
        return beside
    digest = hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:12]
    short = Path(tempfile.gettempdir(), f"gapless-{account.uid}-{digest}")
    return short if _fits(short) else Path("/tmp", short.name)  # noqa: S108  # checked when made


def make_socket_folder(folder: Path, account: Account) -> None:
    """Create the folder, or check that the existing one belongs to the account alone."""
    try:
        folder.mkdir(mode=0o700)
        account.give(folder)
    except FileExistsError:
        found = folder.lstat()
        theirs = found.st_uid != account.uid or not stat.S_ISDIR(found.st_mode)
        if theirs or found.st_mode & 0o077:
            # In a folder that is writable for all, another user could wait for our connections.
            raise ConnectError(
                f"{folder}, for the embedded server's socket, must be a folder of user "
                f"{account.name} and closed to others: remove it"
            ) from None
    except OSError as error:
        raise ConnectError(f"cannot make a folder for the server's socket: {error}") from error


def remove_socket_folder(folder: Path) -> None:
    """Remove the folder once the server is gone; it stays if it has other contents."""
    try:
        folder.rmdir()
    except OSError:
        return


def _fits(folder: Path) -> bool:
    path = f"{folder}/.s.PGSQL.{PORT}"
    return len(os.fsencode(path)) <= _PATH_BYTES_MAX and not any(c in path for c in _CANNOT_BE_SAID)
