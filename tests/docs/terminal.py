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
from pathlib import Path
from uuid import uuid4

from support.patience import patience

_STAYS = re.compile(r"gapless (run |status .*--watch|tail .*-f\b)")
_PAUSE = re.compile(r"\bsleep (\d+)(?![\d.])")
_COMMENT = re.compile(r"\s+# .*$")


class Terminal:
    """A shell in `folder`, with gapless and this Python first on its PATH, and no database said."""

    def __init__(self, folder: Path, user: str | None = None, **more: str) -> None:
        """Open one in a folder, as another user if one is named."""
        self.folder = folder
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PG", "GAPLESS", "DB_EVENT")) or name == "GAPLESS_PG_BINDIR"
        }
        kept |= {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"}
        self._shell = subprocess.Popen(
            ["bash", "--norc", "-e"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=folder,
            env={**kept, **more},
            start_new_session=True,
            user=user,
            group=None if user is None else pwd.getpwnam(user).pw_gid,
            extra_groups=None if user is None else [],
        )

    def type(self, text: str) -> str:
        """Run a block; return what it printed. Fails when one of its commands does."""
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        text = "\n".join(map(_typed, text.splitlines()))
        mark = uuid4().hex
        self._shell.stdin.write(f"{text}\necho {mark}\n")
        self._shell.stdin.flush()
        printed = []
        for line in self._shell.stdout:
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


def longer(pause_s: int) -> float:
    """Return the pause of a page on a machine as busy as this one: up to four times as long."""
    return min(4 * pause_s, patience(pause_s))


def _typed(line: str) -> str:
    """Return a line as it is typed: what stays goes into the background, with a file to print to."""
    command = _PAUSE.sub(lambda pause: f"sleep {longer(int(pause[1])):.0f}", _COMMENT.sub("", line))
    if _STAYS.match(command) or command.endswith("&"):
        return f"{command.removesuffix('&')} >>background.log 2>&1 &"
    return command
