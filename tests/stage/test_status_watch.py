"""`status --watch` in a terminal: keys, signals, lost connections, and all put back as it was."""

from __future__ import annotations

import io
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from fcntl import ioctl

import psycopg
import pytest
from psycopg import Connection
from rich.console import Console

from gapless.db.connect import connect
from gapless.errors import UsageError
from gapless.log.topics import Topic
from gapless.status import LiveConsole, watch
from support.group import owner
from support.patience import patience

PATIENCE_S = 20.0
ENTER, LEAVE = "\x1b[?1049h", "\x1b[?1049l"
SHOW_CURSOR = "\x1b[?25h"

# A shell in small: it gives a program the terminal, says when it stopped, and continues it.
SHELL = """
import os, signal, sys
from gapless.db.connect import connect
from gapless.status import watch
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
pid = os.fork()
if pid == 0:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpgrp())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os._exit(watch(lambda: connect(sys.argv[1], role="status"), interval_s=0.2))
os.write(1, b"pid %d\\n" % pid)
while True:
    _, status = os.waitpid(pid, os.WUNTRACED)
    os.tcsetpgrp(0, os.getpgrp())
    if not os.WIFSTOPPED(status):
        break
    os.write(1, b"stopped\\n")
    os.read(0, 100)  # a line: go on
    os.tcsetpgrp(0, pid)
    os.kill(pid, signal.SIGCONT)
os.write(1, b"code %d\\n" % os.waitstatus_to_exitcode(status))
os.read(0, 100)  # a line: end, and the terminal with it
"""


class Terminal:
    """The other side of a pseudo terminal: what it was sent, and the keys typed into it."""

    def __init__(self, fd: int, shell_pid: int) -> None:
        self.fd = fd
        self.shell_pid = shell_pid
        self.text = ""
        self.saved = termios.tcgetattr(fd)
        self.pid = 0

    def wait_for(self, happened: str | Callable[[], bool]) -> None:
        """Read until a text comes that was not there yet, or until something is true."""
        start = len(self.text)
        give_up = time.monotonic() + PATIENCE_S
        while not (happened in self.text[start:] if isinstance(happened, str) else happened()):
            assert time.monotonic() < give_up, f"{happened!r} did not come: {self.text[-2000:]!r}"
            self._read(0.1)

    def keys(self, text: str) -> None:
        os.write(self.fd, text.encode())

    @property
    def is_restored(self) -> bool:
        """Whether screen, cursor and modes are as before."""
        return (
            termios.tcgetattr(self.fd) == self.saved
            and self.text.rfind(LEAVE) > self.text.rfind(ENTER)
            and self.text.rfind(SHOW_CURSOR) > self.text.rfind(ENTER)
        )

    @property
    def plain(self) -> str:
        """What was shown, without escapes."""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.text)

    def close(self) -> None:
        """Hang up; once only, for the number may be another file's by then."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def resize(self, rows: int, columns: int) -> None:
        ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def _read(self, timeout_s: float) -> None:
        if select.select([self.fd], [], [], timeout_s)[0]:
            with suppress(OSError):
                self.text += os.read(self.fd, 65536).decode(errors="replace")


@contextmanager
def _terminal(dsn: str) -> Iterator[Terminal]:
    """Run the console of a database in a pseudo terminal; yield once it shows something."""
    shell_pid, fd = pty.fork()
    if shell_pid == 0:
        # A stale size in the environment must not count.
        os.environ |= {"TERM": "xterm-256color", "COLUMNS": "133", "LINES": "55"}
        os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
        os.execve(sys.executable, [sys.executable, "-c", SHELL, dsn], os.environ)
    terminal = Terminal(fd, shell_pid)
    terminal.resize(24, 80)
    try:
        terminal.wait_for("q quit")
        found = re.search(r"pid (\d+)", terminal.text)
        assert found
        terminal.pid = int(found[1])
        yield terminal
    finally:
        for pid in (terminal.pid, shell_pid):
            with suppress(ProcessLookupError):
                os.kill(pid or shell_pid, signal.SIGKILL)
        os.waitpid(shell_pid, 0)
        terminal.close()


@pytest.fixture
def terminal(dsn: str) -> Iterator[Terminal]:
    with _terminal(dsn) as found:
        yield found


def test_the_screen_is_taken_and_given_back(terminal: Terminal) -> None:
    assert ENTER in terminal.text
    assert termios.tcgetattr(terminal.fd) != terminal.saved, "keys come one by one"
    terminal.keys("q")
    terminal.wait_for("code 0")
    assert terminal.is_restored


@pytest.mark.parametrize(
    ("signum", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_leaves_the_terminal_as_it_was(
    terminal: Terminal, signum: signal.Signals, code: int
) -> None:
    os.kill(terminal.pid, signum)
    terminal.wait_for(f"code {code}")
    assert terminal.is_restored


def test_many_signals_at_once(terminal: Terminal) -> None:
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGTERM) * 5:
        with suppress(ProcessLookupError):
            os.kill(terminal.pid, signum)
    terminal.wait_for("code ")
    assert terminal.is_restored


def test_ctrl_c(terminal: Terminal) -> None:
    terminal.keys("\x03")
    terminal.wait_for("code 0")
    assert terminal.is_restored


def test_ctrl_z_and_back(terminal: Terminal) -> None:
    terminal.keys("\x1a")
    terminal.wait_for("stopped")
    assert terminal.is_restored
    terminal.keys("\n")
    terminal.wait_for(ENTER)
    terminal.wait_for("q quit")
    assert termios.tcgetattr(terminal.fd) != terminal.saved
    terminal.keys("\x1a")
    terminal.wait_for("stopped")
    terminal.keys("\n")
    terminal.wait_for("q quit")
    terminal.keys("q")
    terminal.wait_for("code 0")
    assert terminal.is_restored


def test_continued_after_a_stop_it_could_not_notice(terminal: Terminal) -> None:
    os.kill(terminal.pid, signal.SIGSTOP)
    terminal.wait_for("stopped")
    termios.tcsetattr(terminal.fd, termios.TCSANOW, terminal.saved)  # as a shell does
    terminal.keys("\n")
    terminal.wait_for(ENTER)
    terminal.keys("q")
    terminal.wait_for("code 0")
    assert terminal.is_restored


def test_the_terminal_is_closed(terminal: Terminal) -> None:
    os.kill(terminal.shell_pid, signal.SIGKILL)  # the session's leader: SIGHUP for the others
    terminal.close()
    give_up = time.monotonic() + PATIENCE_S
    while _is_alive(terminal.pid):
        assert time.monotonic() < give_up, "it goes on without a terminal"
        time.sleep(0.02)


def _is_alive(pid: int) -> bool:
    """Tell whether a process runs; one that has ended may wait for its parent for ever."""
    try:
        with open(f"/proc/{pid}/stat") as stat:  # noqa: PTH123
            return stat.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_another_size_is_painted_at_once(terminal: Terminal) -> None:
    terminal.resize(10, 50)
    os.kill(terminal.pid, signal.SIGWINCH)
    terminal.wait_for("q quit  l lag  p partition  r rate  f group  spac…")


def test_a_lost_connection_is_made_again(terminal: Terminal, conn: Connection) -> None:
    terminal.wait_for(lambda: _cut(conn) > 0)
    terminal.wait_for("retrying")
    start = len(terminal.plain)
    terminal.wait_for(lambda: _sessions(conn) == 1)
    terminal.wait_for("gapless")
    terminal.wait_for("q quit")
    assert "no sequencer" in terminal.plain[start:]
    terminal.keys("q")
    terminal.wait_for("code 0")
    assert terminal.is_restored


def test_a_server_that_does_not_answer_cannot_keep_it(dsn: str, conn: Connection) -> None:
    with psycopg.connect(dsn) as other, _terminal(dsn) as terminal:
        other.execute("lock table gapless.lease")  # for 1 s a look waits, then the next one
        time.sleep(0.5)
        began = time.monotonic()
        os.kill(terminal.pid, signal.SIGTERM)
        terminal.wait_for("code 143")
        assert time.monotonic() - began < patience(1.0)
        assert terminal.is_restored


def test_keys_sort_and_filter(dsn: str, topic: Topic) -> None:
    with owner(dsn, "billing", topic), _terminal(dsn) as terminal:
        terminal.keys("l")
        terminal.wait_for("by lag")
        terminal.keys("\x1b[A\x1bOPf")  # arrows and function keys are none of ours
        terminal.wait_for("group billing")
        terminal.keys("q")
        terminal.wait_for("code 0")


def test_no_terminal_is_an_error(dsn: str) -> None:
    with pytest.raises(UsageError, match="needs a terminal"):
        watch(lambda: connect(dsn, role="status"), screen=Console(file=io.StringIO()))


def test_the_first_look_fails_before_the_screen_is_touched(
    dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails() -> Connection:
        raise UsageError("no such database")

    with pytest.raises(UsageError, match="no such database"):
        watch(fails, screen=Console(force_terminal=True, _environ={"TERM": "xterm"}))
    assert ENTER not in capsys.readouterr().out


def test_an_exception_gives_the_screen_back(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Console(force_terminal=True, _environ={"TERM": "xterm"})
    with pytest.raises(ZeroDivisionError), LiveConsole(screen) as console:
        console.note("before the first look")
        console.lost("no connection yet")
        _ = 1 / 0
    out = capsys.readouterr().out
    assert out.index(ENTER) < out.index("no connection yet") < out.index(LEAVE)
    console.stop()
    assert capsys.readouterr().out == "", "stopping twice is harmless"


def _sessions(conn: Connection) -> int:
    row = conn.execute(
        "select count(*) from pg_stat_activity where application_name = 'gapless/status'"
        " and datname = current_database()"
    ).fetchone()
    assert row is not None
    return int(row[0])


def _cut(conn: Connection) -> int:
    row = conn.execute(
        "select count(pg_terminate_backend(pid)) from pg_stat_activity"
        " where application_name = 'gapless/status' and datname = current_database()"
    ).fetchone()
    assert row is not None
    return int(row[0])
