"""`gapless run` on a terminal: the live console, with the log's lines under 'lately'."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections import deque

from gapless.db.connect import connect
from gapless.status import LiveConsole, Looker
from gapless.worker.control import Plan
from gapless.worker.supervisor import Supervisor

_FOOTER = "Ctrl-C drains: workers finish their batch and let go; once more ends them at once"
_LAST_LINES = 20
_CONNECT_TIMEOUT_S = 2  # the supervisor's loop waits for it when the server is away


def supervise_with_console(plan: Plan) -> int:
    """Run a supervisor under the live console; the terminal is as before on every way out."""
    lines = _LogPipe()
    console = LiveConsole(footer=_FOOTER)
    looker = Looker(
        lambda: connect(plan.dsn, role="console", connect_timeout_s=_CONNECT_TIMEOUT_S), console
    )
    try:
        with looker, console:
            return Supervisor(plan, _Observer(looker, console, lines)).run()
    finally:
        lines.collect()
        for line in lines.last:
            sys.stderr.write(f"{line}\n")


class _Observer:
    """What the supervisor's loop tells of its turns."""

    def __init__(self, looker: Looker, console: LiveConsole, lines: _LogPipe) -> None:
        self._looker = looker
        self._console = console
        self._lines = lines

    def tick(self) -> None:
        for line in self._lines.collect():
            self._console.note(line)
        self._looker.tick()

    def filenos(self) -> list[int]:
        return [*self._looker.filenos(), self._lines.reader]


class _LogPipe:
    """The log of this process and its children, as lines; nobody waits when it is full."""

    def __init__(self) -> None:
        self.reader, writer = os.pipe()
        os.set_blocking(self.reader, False)
        os.set_blocking(writer, False)
        self.last: deque[str] = deque(maxlen=_LAST_LINES)
        self._rest = ""
        handler = logging.StreamHandler(os.fdopen(writer, "w", encoding="utf-8", errors="replace"))
        handler.setFormatter(logging.Formatter("%(message)s"))
        logging.raiseExceptions = False
        log = logging.getLogger("gapless")
        log.handlers = [handler]
        log.setLevel(logging.INFO)
        log.propagate = False

    def collect(self) -> list[str]:
        """Return the lines that came since the last call."""
        text = self._rest
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(self.reader, 65536):
                text += chunk.decode("utf-8", "replace")
        *lines, self._rest = text.split("\n")
        self.last.extend(lines)
        return lines
