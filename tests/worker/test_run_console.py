"""`gapless run` on a terminal: the console beside the supervisor, and the terminal given back."""

import os
import signal
import termios
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from psycopg import Connection

from support.terminal import ENTER, PATIENCE_S, Terminal, in_terminal

PROGRAM = """
import sys
from gapless.cli.main import main
def run(dsn, app):
    return main(["run", app, "--dsn", dsn, "--name", "host-a", "--create-topics"])
"""
APP = """
import gapless

@gapless.handler(topic="t", group="g")
def handle(unit, conn):
    pass
"""
OWNED = "select count(*) from gapless.lease where owner is not null"
ACTIVE = "host-a active"


@pytest.fixture
def terminal(dsn: str, tmp_path: Path) -> Iterator[Terminal]:
    app = tmp_path / "app.py"
    app.write_text(APP)
    with in_terminal(PROGRAM, dsn, str(app), shows=ACTIVE) as found:
        yield found
        for pid in children(found.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def children(pid: int) -> list[int]:
    with suppress(OSError):
        return [int(n) for n in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def console(terminal: Terminal) -> int:
    """The first child that was forked."""
    return children(terminal.pid)[0]


def value(conn: Connection, statement: str) -> int:
    row = conn.execute(statement).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.long
def test_ctrl_c_drains_and_gives_the_terminal_back(terminal: Terminal, conn: Connection) -> None:
    terminal.wait_for(lambda: value(conn, OWNED) == 8)
    terminal.keys("\x03")
    terminal.wait_for("code 0")
    assert terminal.is_restored
    assert "supervisor: drained" in terminal.text[terminal.text.rfind("[?1049l") :], "last lines"
    assert value(conn, OWNED) == 0


def test_killed_the_terminal_is_given_back_all_the_same(terminal: Terminal) -> None:
    os.kill(terminal.pid, signal.SIGKILL)
    terminal.wait_for("code -9")
    terminal.wait_for(lambda: terminal.is_restored)


@pytest.mark.long
def test_ctrl_z_and_back(terminal: Terminal, conn: Connection) -> None:
    for _ in range(2):
        terminal.keys("\x1a")
        terminal.wait_for("stopped")
        assert terminal.is_restored
        terminal.keys("\n")
        terminal.wait_for(ENTER)
        terminal.wait_for(ACTIVE)
        # Continued twice, by the shell and by its supervisor, the console takes the terminal twice.
        terminal.wait_for(lambda: termios.tcgetattr(terminal.fd) != terminal.saved)
    terminal.wait_for(lambda: value(conn, OWNED) == 8)
    terminal.keys("\x03")
    terminal.wait_for("code 0")
    assert terminal.is_restored


@pytest.mark.long
def test_a_killed_console_leaves_the_supervisor_and_a_usable_terminal(
    terminal: Terminal, conn: Connection
) -> None:
    terminal.wait_for(lambda: value(conn, OWNED) == 8)
    os.kill(console(terminal), signal.SIGKILL)
    terminal.wait_for("the supervisor continues")
    assert terminal.is_restored
    assert value(conn, OWNED) == 8
    os.kill(terminal.pid, signal.SIGTERM)
    terminal.wait_for("code 0")


@pytest.mark.long
def test_a_console_without_an_answer_never_keeps_the_supervisor(
    terminal: Terminal, conn: Connection
) -> None:
    """Its looks wait behind a lock; the heartbeat goes on."""
    with conn.transaction():
        conn.execute("lock table gapless.log_segment")
        beat = "select max(beat) from gapless.member"
        before = value(conn, beat)
        os.kill(console(terminal), signal.SIGSTOP)
        give_up = time.monotonic() + PATIENCE_S
        while value(conn, beat) < before + 2:
            assert time.monotonic() < give_up, "no heartbeat"
            time.sleep(0.05)
    os.kill(console(terminal), signal.SIGCONT)


@pytest.mark.long
def test_a_terminal_that_only_prints_gets_lines(dsn: str, tmp_path: Path) -> None:
    app = tmp_path / "app.py"
    app.write_text(APP)
    program = "import os\nos.environ['TERM'] = 'dumb'\n" + PROGRAM
    with in_terminal(program, dsn, str(app), shows="acquired, epoch 1") as terminal:
        terminal.keys("\x03")
        terminal.wait_for("code 0")
        assert "\x1b[" not in terminal.text
