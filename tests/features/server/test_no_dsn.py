"""Without any DSN the command starts a PostgreSQL of its own, says where, and keeps its data."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gapless.features.server.server import stop
from support.commands import environment
from support.terminal import in_terminal


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder that root's server, which runs as nobody, can enter."""
    folder = Path(tempfile.mkdtemp(prefix="gapless-cli-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    stop(folder / "default")
    shutil.rmtree(folder)


@pytest.mark.long
def test_no_dsn(bare, home: Path) -> None:
    said = f"gapless: no DSN is configured: using the embedded PostgreSQL of {home}/default\n"
    done = bare("init", "--partitions", "2", GAPLESS_HOME=str(home))
    assert (done.code, done.err) == (0, said)
    assert bare("publish", "outbox", '"kept"', GAPLESS_HOME=str(home)).code == 0
    stop(home / "default")
    done = bare("tail", "outbox", "--json", GAPLESS_HOME=str(home))
    assert (done.code, done.json["payload"], done.err) == (0, "kept", said)


TWICE = """
import subprocess
def run(home, *env):
    for _ in range(2):
        subprocess.run(
            [sys.executable, "-m", "gapless", "topics", "list"],
            env={**os.environ, "GAPLESS_HOME": home}, check=False,
        )
    return 0
"""


def test_a_terminal_is_told_once(bare, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert bare("init", GAPLESS_HOME=str(home)).code == 0
    for name in set(os.environ) - set(environment()):
        monkeypatch.delenv(name)
    with in_terminal(TWICE, str(home), shows="no topic yet") as terminal:
        terminal.wait_for("code 0")
        assert terminal.text.count("no topic yet") == 2
        assert terminal.text.count("no DSN is configured") == 1


def test_libpq_is_left_alone(bare, home: Path) -> None:
    """What chooses a server in libpq's environment is a DSN; what only refines one is not."""
    chosen = bare("topics", GAPLESS_HOME=str(home), PGSERVICE="nowhere")
    assert 'service "nowhere" not found' in chosen.complaint()
    assert not (home / "default").exists()
