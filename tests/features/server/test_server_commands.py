"""`gapless server`: the PostgreSQL that gapless runs itself, and gapless.connect(), which finds it."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import gapless as package
from gapless.features.server.server import stop

PATIENCE_S = 30
_PROGRAM = """
import gapless
with gapless.connect() as conn:
    conn.execute("create table seen as select current_database() as db")
with gapless.connect() as conn:
    print(conn.execute("select db from seen").fetchone()[0], conn.autocommit)
"""


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder that root's server, which runs as nobody, can enter."""
    import shutil
    import tempfile

    folder = Path(tempfile.mkdtemp(prefix="gapless-cli-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    stop(folder / "default")
    shutil.rmtree(folder)


@pytest.mark.long
@pytest.mark.slow
def test_server(bare, home: Path) -> None:
    def server(*words: str):
        return bare("server", *words, GAPLESS_HOME=str(home))

    before = server("status", "--json").json
    assert (before["running"], before["version"], before["url"]) == (False, None, None)
    assert not (home / "default").exists(), "a look makes nothing"
    complaint = server("url").complaint(1)
    assert complaint == "the embedded server does not run: gapless server start"

    started = server("start", "--json").json
    assert (started["running"], started["stays"]) == (True, True)
    url = server("url").out.strip()
    assert url == started["url"]
    time.sleep(1)  # the keeper looks for users five times a second: with none, this one stays
    with psycopg.connect(url) as conn:
        assert conn.info.dbname == "gapless"
    assert server("psql", "--", "-Atc", "select 1").out == "1\n"
    assert "runs, until gapless server stop" in server().out

    assert server("stop", "--json").json["stopped"] is True
    assert server("stop").out == "nothing to do: it does not run\n"
    program = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        env={**_without_database(), "GAPLESS_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert program.stdout == "gapless False\n", program.stderr
    give_up_s = time.monotonic() + PATIENCE_S
    while server("status", "--json").json["running"]:
        assert time.monotonic() < give_up_s, "it stayed for its keeper only until it was stopped"
    assert server("psql", "--", "-Atc", "select count(*) from seen").out == "1\n"


@pytest.mark.long
def test_a_configured_database_is_said(bare, dsn: str, home: Path) -> None:
    done = bare("server", GAPLESS_HOME=str(home), GAPLESS_DSN=dsn)
    assert done.code == 0
    assert "a DSN is configured" in done.err


def test_a_wrong_name(bare, home: Path) -> None:
    complaint = bare("server", "--name", "../x", GAPLESS_HOME=str(home)).complaint()
    assert "cannot name an embedded server" in complaint


def test_connect_finds_what_commands_find(dsn: str, tmp_path: Path, monkeypatch) -> None:
    for name in _without_database().keys() ^ os.environ.keys():
        monkeypatch.delenv(name)
    name = psycopg.conninfo.conninfo_to_dict(dsn)["dbname"]
    config = tmp_path / "gapless.yml"
    config.write_text(f"dsn: {json.dumps(dsn)}\n")
    with package.connect(config=config) as conn:
        assert (conn.info.dbname, conn.autocommit) == (name, False)
        assert conn.info.parameter_status("application_name") == "gapless"
    monkeypatch.setenv("GAPLESS_DSN", "host=/nowhere/environment")
    with pytest.raises(package.GaplessError, match="/nowhere/environment"):
        package.connect(config=config)
    with package.connect(dsn, autocommit=True) as conn:
        assert (conn.info.dbname, conn.autocommit) == (name, True)
    monkeypatch.delenv("GAPLESS_DSN")
    monkeypatch.setenv("PGHOST", "/nowhere/libpq")
    with pytest.raises(package.GaplessError, match=r"^cannot connect to PostgreSQL: .*libpq"):
        package.connect()
    with pytest.raises(package.GaplessError, match="is not a connection string"):
        package.connect("nonsense")


def test_connect_commits_at_the_end_or_not_at_all(dsn: str) -> None:
    with package.connect(dsn) as conn:
        conn.execute("create table kept (n int)")
    with pytest.raises(ZeroDivisionError), package.connect(dsn) as conn:
        conn.execute("insert into kept values (1)")
        raise ZeroDivisionError
    with package.connect(dsn) as conn:
        assert conn.execute("select count(*) from kept").fetchone() == (0,)


def _without_database() -> dict[str, str]:
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PG", "GAPLESS", "DB_EVENT")) or name == "GAPLESS_PG_BINDIR"
    }
