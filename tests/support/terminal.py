"""A pseudo terminal with a program in it, and a minimal shell that gives the program the terminal."""

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

from support.patience import bounded_patience

PATIENCE_S = 20.0
ENTER, LEAVE = "\x1b[?1049h", "\x1b[?1049l"
SHOW_CURSOR = "\x1b[?25h"

# It reports when the program stops, and continues it. argv: the program, and its arguments.
SHELL = """
import os, signal, sys
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
pid = os.fork()
if pid == 0:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpgrp())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    exec(sys.argv[1])
    os._exit(run(*sys.argv[2:]))
os.write(1, b"pid %d\\n" % pid)
while True:
    _, status = os.waitpid(pid, os.WUNTRACED)
    os.tcsetpgrp(0, os.getpgrp())
    if not os.WIFSTOPPED(status):
        break
    os.write(1, b"stopped\\n")
    os.read(0, 100)  # a line: go on
    os.tcsetpgrp(0, pid)
    os.killpg(pid, signal.SIGCONT)
os.write(1, b"code %d\\n" % os.waitstatus_to_exitcode(status))
os.read(0, 100)  # a line: end, and the terminal with it
"""


class Terminal:
    """The other side of a pseudo terminal: it receives the output, and types keys."""

    def __init__(self, fd: int, shell_pid: int) -> None:
        self.fd = fd
        self.shell_pid = shell_pid
        self.text = ""
        self.saved = termios.tcgetattr(fd)
        self.pid = 0
        self._seen = 0  # up to here the text was waited for, or came before the last key

    def wait_for(self, happened: str | Callable[[], bool]) -> None:
        """Read until a new text comes, or until something is true.

        New is all text behind the one that was waited for last, and behind the last key: one read
        may bring two texts that are waited for one after the other.
        """
        give_up = time.monotonic() + bounded_patience(PATIENCE_S)
        while not (self._finds(happened) if isinstance(happened, str) else happened()):
            assert time.monotonic() < give_up, f"{happened!r} did not come: {self.text[-2000:]!r}"
            self._read(0.1)

    def keys(self, text: str) -> None:
        self._seen = len(self.text)
        os.write(self.fd, text.encode())

    @property
    def is_restored(self) -> bool:
        """Tell whether screen, cursor and modes are as before."""
        return (
            termios.tcgetattr(self.fd) == self.saved
            and self.text.rfind(LEAVE) > self.text.rfind(ENTER)
            and self.text.rfind(SHOW_CURSOR) > self.text.rfind(ENTER)
        )

    @property
    def is_as_before(self) -> bool:
        """Tell whether the modes are as before; for programs that take no screen of their own."""
        return termios.tcgetattr(self.fd) == self.saved

    def kill(self, number: signal.Signals) -> None:
        """Signal the program."""
        os.kill(self.pid, number)

    @property
    def plain(self) -> str:
        """Return the output without escapes."""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.text)

    def close(self) -> None:
        """Hang up; once only, since another file may have the number by then."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def resize(self, rows: int, columns: int) -> None:
        self._seen = len(self.text)
        ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def _finds(self, text: str) -> bool:
        """Tell whether a new text has come; what is behind it is new to the next wait."""
        at = self.text.find(text, self._seen)
        if at >= 0:
            self._seen = at + len(text)
        return at >= 0

    def _read(self, timeout_s: float) -> None:
        if select.select([self.fd], [], [], timeout_s)[0]:
            with suppress(OSError):
                self.text += os.read(self.fd, 65536).decode(errors="replace")


@contextmanager
def in_terminal(program: str, *words: str, shows: str) -> Iterator[Terminal]:
    """Run a program, which defines run(*words), in a pseudo terminal; yield once it `shows` this text."""
    shell_pid, fd = pty.fork()
    if shell_pid == 0:
        # A stale size in the environment must not count.
        os.environ |= {"TERM": "xterm-256color", "COLUMNS": "133", "LINES": "55"}
        os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
        os.execve(sys.executable, [sys.executable, "-c", SHELL, program, *words], os.environ)
    terminal = Terminal(fd, shell_pid)
    terminal.resize(24, 80)
    try:
        terminal.wait_for(shows)
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
