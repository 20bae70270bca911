"""Embedded servers seen from outside: other processes that use one, and whether it still runs."""

import os
import pwd
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import gapless
from gapless.features.server.folder import SHARED, ServerFolder, try_flock
from gapless.features.server.postgres.binaries import find_binaries
from gapless.features.server.postgres.postmaster import running_postmaster
from gapless.features.server.server import stop
from support.patience import bounded_patience

DatabaseLike = Callable[[str], AbstractContextManager[str]]
"""Make a copy of a database for as long as the block lasts: the fixture database_like."""

AS_ROOT = os.geteuid() == 0
PATIENCE_S = 60.0

# A user of the server in the given folder: prints the DSN, and stays until its input ends.
USER = """
import sys
from pathlib import Path
from gapless.features.server.server import acquire
server = acquire(Path(sys.argv[1]) if sys.argv[1:] else None)
print(server.dsn, flush=True)
sys.stdin.read()
"""


def until(happened: Callable[[], bool], patience_s: float = PATIENCE_S) -> bool:
    """Wait for something to happen; return whether it did."""
    began_s = time.monotonic()
    while not happened():
        if time.monotonic() - began_s > bounded_patience(patience_s):
            return False
        time.sleep(0.02)
    return True


def is_down(home: Path) -> bool:
    """Tell whether a folder has no server and no keeper any more."""
    folder = ServerFolder(home)
    if running_postmaster(folder.data) is not None:
        return False
    free = try_flock(folder.keeper_lock, SHARED)
    if free is not None:
        os.close(free)
    return free is not None


def keeper_pid(home: Path) -> int:
    return int(ServerFolder(home).keeper_lock.read_text())


@contextmanager
def open_folder(prefix: str = "gapless-test-") -> Iterator[Path]:
    """Yield a new folder that root's server can pass through: pytest's tmp_path is closed to it.

    Servers that a test leaves running in it are stopped.
    """
    made = Path(tempfile.mkdtemp(prefix=prefix)).resolve()
    made.chmod(0o711 if AS_ROOT else 0o700)
    try:
        yield made
    finally:
        for lock in list(made.rglob("keeper.lock")):
            stop(lock.parent)
        shutil.rmtree(made)


def system_bindir() -> Path | None:
    """Return the bin folder of a PostgreSQL of the machine, beside the wheel's."""
    found = sorted(Path("/").glob("usr/lib/postgresql/*/bin/initdb"))
    return found[-1].parent if found else None


@contextmanager
def program(
    script: str, *args: object, env: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """Run a Python script beside the test, its standard input and output on pipes."""
    with subprocess.Popen(
        [sys.executable, "-c", script, *map(str, args)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": _package_root()} | dict(env or {}),
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def run_as_nobody(script: str, home: Path) -> str | None:
    """Run a script as an unprivileged user who lives in `home`; return its output.

    None when that user can reach no Python of this version, or not this checkout.
    """
    env = environment_of("nobody", home)
    if env is None:
        return None
    done = _run_as("nobody", [f"{home}/bin/python", "-c", script], env)
    assert done is not None
    assert done.returncode == 0, done.stderr
    return done.stdout


def environment_of(user: str, home: Path) -> dict[str, str] | None:
    """Make `home` a user's own, with `python` and `gapless` in its bin; return the environment.

    None when that user can reach no Python of this version, or not this checkout.
    """
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    env = {
        "HOME": str(home),
        "PATH": f"{home}/bin{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join([_package_root(), sysconfig.get_path("purelib")]),
        "GAPLESS_PG_BINDIR": str(find_binaries().bindir),
    }
    # The system's interpreter with this environment's packages: ours may be below /root.
    for python in filter(
        None, (sys.executable, shutil.which(version, path="/usr/local/bin:/usr/bin"))
    ):
        done = _run_as(user, [python, "-c", "import gapless, psycopg"], env)
        if done is None or done.returncode != 0:
            continue
        (home / "bin").mkdir()
        for name, words in (("python", ""), ("gapless", " -m gapless")):
            (home / "bin" / name).write_text(f'#!/bin/sh\nexec {python}{words} "$@"\n')
            (home / "bin" / name).chmod(0o755)
        account = pwd.getpwnam(user)
        os.chown(home, account.pw_uid, account.pw_gid)
        return env
    return None


def _run_as(
    user: str, command: list[str], env: Mapping[str, str]
) -> subprocess.CompletedProcess[str] | None:
    """Run a command as a user; return None when he may not run the program."""
    try:
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            cwd="/",
            env=env,
            user=user,
            group=pwd.getpwnam(user).pw_gid,
            extra_groups=[],
            check=False,
            timeout=PATIENCE_S,
        )
    except PermissionError:
        return None


def _package_root() -> str:
    return str(Path(gapless.__file__).parents[1])
