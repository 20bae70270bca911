"""The embedded server: found, started as anybody, shared, kept while it is used and no longer."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from gapless.errors import ConnectError, UsageError
from gapless.features.server.folder import ServerFolder, default_folder
from gapless.features.server.postgres.postmaster import running_postmaster
from gapless.features.server.server import acquire, embedded, stop
from support.servers import (
    AS_ROOT,
    USER,
    is_down,
    keeper_pid,
    open_folder,
    program,
    run_as_nobody,
    system_bindir,
    until,
)

STOPS_WITHIN_S = 10.0

ORDINARY_USER = """
import os, psycopg
from gapless.features.server.server import acquire
server = acquire()
with psycopg.connect(server.dsn) as conn:
    user = conn.execute("select current_user").fetchone()[0]
    port = conn.execute("select current_setting('listen_addresses')").fetchone()[0]
print(os.getuid(), os.stat(server.directory / "data").st_uid, server.directory, user, repr(port))
server.release()
"""

# Joins, counts one up, leaves, again and again: most joins meet a server that starts or stops.
RUSH = """
import sys, psycopg
from pathlib import Path
from gapless.features.server.server import embedded
for _ in range(int(sys.argv[2])):
    with embedded(Path(sys.argv[1])) as dsn, psycopg.connect(dsn) as conn:
        conn.execute("insert into visit default values")
"""

# Starts the server of a data folder and leaves it to itself.
ORPHAN = """
import os, sys
from pathlib import Path
from gapless.features.server.postgres import account
from gapless.features.server.postgres.binaries import find_binaries, runnable_by
from gapless.features.server.postgres.cluster import Cluster
account.dies_with_us = lambda dies_by: None
bindir = runnable_by(account.server_account(), find_binaries()).bindir
Cluster(bindir, Path(sys.argv[1])).start()
os._exit(0)
"""


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder for a server, not there yet."""
    with open_folder() as folder:
        yield folder / "server"


@pytest.fixture(params=["found", pytest.param("system", marks=pytest.mark.long)])
def binaries(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The programs gapless finds by itself, and those of the machine's own PostgreSQL."""
    if request.param == "system":
        bindir = system_bindir()
        if bindir is None:
            pytest.skip("no other PostgreSQL on this machine")
        monkeypatch.setenv("GAPLESS_PG_BINDIR", str(bindir))
    return str(request.param)


def ask(dsn: str, question: str) -> object:
    with psycopg.connect(dsn, autocommit=True) as conn:
        row = conn.execute(question).fetchone()
    assert row is not None
    return row[0]


def do(dsn: str, statement: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(statement)


def settings(dsn: str, *names: str) -> list[object]:
    return [ask(dsn, f"select current_setting('{name}')") for name in names]


@pytest.mark.long
def test_data_outlive_the_server(home: Path) -> None:
    with embedded(home) as dsn:
        do(dsn, "create table kept as select 7 as number")
        assert settings(dsn, "fsync", "data_checksums", "server_encoding") == ["on", "on", "UTF8"]
        assert settings(dsn, "listen_addresses", "max_connections") == ["", "200"]
        assert (home / "data").stat().st_mode & 0o777 == 0o700
    assert until(lambda: is_down(home), STOPS_WITHIN_S)
    with embedded(home) as dsn:
        assert ask(dsn, "select number from kept") == 7


@pytest.mark.long
def test_an_ordinary_user_has_a_server_of_their_own() -> None:
    if not AS_ROOT:
        pytest.skip("every other test here runs as an ordinary user already")
    with open_folder() as home:
        printed = run_as_nobody(ORDINARY_USER, home)
        if printed is None:
            pytest.skip("no Python here that user nobody can run")
        uid, owner, directory, user, addresses = printed.split()
        server = Path(directory)
        assert uid == owner
        assert server == home / ".local" / "share" / "gapless" / "default"
        assert (user, addresses) == ("gapless", "''")
        assert until(lambda: is_down(server), STOPS_WITHIN_S)


@pytest.mark.long
def test_processes_share_one_server(home: Path) -> None:
    with program(USER, home) as other:
        assert other.stdout is not None
        theirs = other.stdout.readline().strip()
        ours = acquire(home, options={"max_connections": "7"})
        assert ours.dsn == theirs
        assert settings(theirs, "max_connections") == ["200"], "the first one's options count"
        postmaster = running_postmaster(home / "data")
        assert postmaster is not None
        groups = {os.getpgid(pid) for pid in (postmaster, keeper_pid(home))}
        assert os.getpgid(0) not in groups, "Ctrl-C is not for them"
        other.kill()
        other.wait()
        time.sleep(0.5)
        assert running_postmaster(home / "data") == postmaster, "it has a user left"
    ours.release()
    ours.release()
    assert until(lambda: is_down(home), STOPS_WITHIN_S)


@pytest.mark.long
def test_a_forked_child_counts_as_a_user(home: Path) -> None:
    server = acquire(home)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writer)
        os.read(reader, 1)
        os._exit(0)
    try:
        os.close(reader)
        server.release()
        time.sleep(0.5)
        assert ask(server.dsn, "select 1") == 1
    finally:
        os.close(writer)
        os.waitpid(child, 0)
    assert until(lambda: is_down(home), STOPS_WITHIN_S)


@pytest.mark.long
def test_nobody_is_turned_away_while_it_starts_and_stops(home: Path) -> None:
    with embedded(home) as dsn:
        do(dsn, "create table visit (at timestamptz default clock_timestamp())")
    script = [sys.executable, "-c", RUSH, str(home), "4"]
    guests = [subprocess.Popen(script) for _ in range(3)]
    assert [guest.wait(timeout=120) for guest in guests] == [0, 0, 0]
    with embedded(home) as dsn:
        assert ask(dsn, "select count(*) from visit") == 12


@pytest.mark.long
def test_a_killed_keeper_takes_the_server_along_and_the_next_user_has_both(home: Path) -> None:
    with embedded(home) as dsn:
        do(dsn, "create table kept as select 7 as number")
        os.kill(keeper_pid(home), signal.SIGKILL)
        with embedded(home) as again:
            assert again == dsn
            assert ask(again, "select number from kept") == 7
        assert ask(dsn, "select number from kept") == 7, "the first user is served too"
    assert until(lambda: is_down(home), STOPS_WITHIN_S)


@pytest.mark.long
def test_a_crashed_server_comes_back(home: Path) -> None:
    with embedded(home) as dsn:
        do(dsn, "create table kept as select 7 as number")
        postmaster = running_postmaster(home / "data")
        assert postmaster is not None
        os.kill(postmaster, signal.SIGKILL)
        assert until(lambda: running_postmaster(home / "data") not in (None, postmaster))
        with embedded(home) as again:
            assert ask(again, "select number from kept") == 7


@pytest.mark.long
def test_stop_ends_it_whoever_uses_it(home: Path) -> None:
    assert not stop(home)
    with embedded(home) as dsn:
        assert stop(home)
        assert is_down(home)
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(dsn)
    assert not stop(home)


@pytest.mark.long
def test_an_orphaned_server_is_stopped_first(home: Path) -> None:
    """What macOS has after the keeper was killed: a server, and nobody who keeps it."""
    with embedded(home):
        pass
    assert until(lambda: is_down(home), STOPS_WITHIN_S)
    subprocess.run([sys.executable, "-c", ORPHAN, str(home / "data")], check=True)
    left_alone = running_postmaster(home / "data")
    assert left_alone is not None
    with embedded(home) as dsn:
        assert ask(dsn, "select 1") == 1
        assert running_postmaster(home / "data") not in (None, left_alone)


@pytest.mark.long
@pytest.mark.usefixtures("binaries")
def test_a_throwaway_server_leaves_nothing() -> None:
    with acquire(throwaway=True, options={"work_mem": "5MB"}) as server:
        assert settings(server.dsn, "fsync", "full_page_writes") == ["off", "off"]
        assert settings(server.dsn, "work_mem") == ["5MB"]
    assert not server.directory.exists()


def test_a_throwaway_server_is_never_put_over_something(home: Path) -> None:
    home.mkdir()
    with pytest.raises(ConnectError, match="exists"):
        acquire(home, throwaway=True)
    assert home.exists()


@pytest.mark.long
def test_a_path_too_long_for_a_socket(home: Path) -> None:
    deep = home / ("a" * 60) / ("b, c" * 10)
    with embedded(deep) as dsn:
        door = Path(psycopg.conninfo.conninfo_to_dict(dsn)["host"])
        assert ask(dsn, "select 1") == 1
        assert door.lstat().st_mode & 0o777 == 0o700
        assert len(str(door)) < 80
    assert until(lambda: is_down(deep), STOPS_WITHIN_S)
    assert not door.exists()


@pytest.mark.long
def test_a_folder_somebody_else_made_for_our_socket_is_refused(home: Path) -> None:
    deep = home / ("a" * 60) / ("b" * 40)
    with embedded(deep) as dsn:
        door = Path(psycopg.conninfo.conninfo_to_dict(dsn)["host"])
    assert until(lambda: is_down(deep), STOPS_WITHIN_S)
    door.mkdir()
    door.chmod(0o777)
    (door / "trap").touch()
    try:
        with pytest.raises(ConnectError, match=r"closed to others: remove it$"):
            acquire(deep)
    finally:
        shutil.rmtree(door)


def test_default_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "/x")
    monkeypatch.delenv("GAPLESS_HOME", raising=False)
    assert default_folder("demo", as_root=True) == ServerFolder(Path("/var/lib/gapless/demo"))
    if sys.platform != "darwin":
        assert default_folder("demo", as_root=False) == ServerFolder(Path("/x/gapless/demo"))
    monkeypatch.setenv("GAPLESS_HOME", "/y")
    assert default_folder("demo", as_root=True) == ServerFolder(Path("/y/demo"))
    with pytest.raises(UsageError):
        default_folder("../demo", as_root=True)
