"""Without any DSN the command starts a PostgreSQL of its own, says where, and keeps its data."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gapless.db.embedded.server import stop


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


def test_libpq_is_left_alone(bare, home: Path) -> None:
    """What chooses a server in libpq's environment is a DSN; what only refines one is not."""
    chosen = bare("topics", GAPLESS_HOME=str(home), PGSERVICE="nowhere")
    assert 'service "nowhere" not found' in chosen.complaint()
    assert not (home / "default").exists()
