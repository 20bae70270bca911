"""A shell that a page's blocks are typed into, one after the other, as a reader does.

Commands that stay (`gapless run`, `--watch`, `tail -f`) get a terminal of their own: they run in
the background until the page ends. A pause of a page is longer where the machine is busy.
"""

import os
import pwd
import re
import signal
import subprocess
import sys
import termios
from contextlib import suppress
from fcntl import ioctl
from pathlib import Path
from struct import pack
from uuid import uuid4

from support.patience import patience

_LINES, _COLUMNS = 60, 100
_STAYS = re.compile(r"gapless (run |status .*--watch|tail .*-f\b)")
_PAUSE = re.compile(r"\bsleep (\d+)(?![\d.])")
_COMMENT = re.compile(r"\s+# .*$")


class Terminal:
    """A shell in `folder`, with gapless and this Python first on its PATH, and no database said.

    Its output is a terminal, one that only prints lines: commands show what they show a reader.
    """

    def __init__(self, folder: Path, user: str | None = None, **more: str) -> None:
        """Open one in a folder, as another user if one is named."""
        self.folder = folder
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PG", "GAPLESS", "DB_EVENT")) or name == "GAPLESS_PG_BINDIR"
        }
        kept |= {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"}
        leader, screen = os.openpty()
        settings = termios.tcgetattr(screen)
        settings[1] &= ~termios.OPOST  # a line ends as it was printed
        termios.tcsetattr(screen, termios.TCSANOW, settings)
        ioctl(screen, termios.TIOCSWINSZ, pack("4H", _LINES, _COLUMNS, 0, 0))
        self._printed = os.fdopen(leader, encoding="utf-8")
        self._shell = subprocess.Popen(
            ["bash", "--norc", "-e"],
            stdin=subprocess.PIPE,
            stdout=screen,
            stderr=screen,
            text=True,
            cwd=folder,
            env={**kept, "TERM": "dumb", **more},
            start_new_session=True,
            user=user,
            group=None if user is None else pwd.getpwnam(user).pw_gid,
            extra_groups=None if user is None else [],
        )
        os.close(screen)

    def type(self, text: str) -> str:
        """Run a block; return what it printed. Fails when one of its commands does."""
        assert self._shell.stdin is not None
        text = "\n".join(map(_typed, text.splitlines()))
        mark = uuid4().hex
        self._shell.stdin.write(f"{text}\necho {mark}\n")
        self._shell.stdin.flush()
        printed = []
        with suppress(OSError):  # Linux: the other end was closed
            for line in self._printed:
                if line.rstrip("\n").endswith(mark):
                    return "".join(printed)
                printed.append(line)
        raise AssertionError(f"a command failed:\n{text}\nIt all printed:\n{''.join(printed)}")

    def say(self, name: str) -> str:
        """Return a variable of the shell; empty when it has none."""
        return self.type(f'echo "${{{name}:-}}"').strip()

    def close(self) -> None:
        """End the shell and all that it started."""
        for signum in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self._shell.pid, signum)
                self._shell.communicate(timeout=20)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                continue
        self._printed.close()


def longer(pause_s: int) -> float:
    """Return the pause of a page on a machine as busy as this one: up to four times as long."""
    return min(4 * pause_s, patience(pause_s))


def _typed(line: str) -> str:
    """Return a line as it is typed: what stays goes into the background, with a file to print to."""
    command = _PAUSE.sub(lambda pause: f"sleep {longer(int(pause[1])):.0f}", _COMMENT.sub("", line))
    if command.endswith("&") and ">" in command:  # with a file of its own
        return command
    if _STAYS.match(command) or command.endswith("&"):
        return f"{command.removesuffix('&')} >>background.log 2>&1 &"
    return command
