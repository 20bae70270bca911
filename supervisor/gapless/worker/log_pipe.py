"""The log of a supervisor and its children as lines in a pipe: no writer waits when it is full."""

from __future__ import annotations

import contextlib
import logging
import os
from collections import deque
from typing import TextIO

_LAST_LINES = 20


class LogPipe:
    """A pipe made before a fork; afterwards one process reads, the other and its children write."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        self._handler: logging.StreamHandler[TextIO] | None = None
        self._supervisor_pid = 0
        self._rest = ""
        self.last: deque[str] = deque(maxlen=_LAST_LINES)
        self.has_ended = False

    # -- the writing side -------------------------------------------------------------------------

    def write_here(self) -> None:
        """Send log records from now on, of this process and of processes forked from it."""
        os.close(self._reader)
        stream: TextIO = os.fdopen(self._writer, "w", encoding="utf-8", errors="replace")
        handler = logging.StreamHandler(stream)
        handler.setFormatter(logging.Formatter("%(message)s"))
        logging.raiseExceptions = False  # a line that finds the pipe full is lost
        log = logging.getLogger("gapless")
        log.handlers = [handler]
        log.setLevel(logging.INFO)
        log.propagate = False
        self._handler = handler

    @property
    def is_closed(self) -> bool:
        return self._handler is None

    def close(self) -> None:
        """Write no more; when all writers are closed, the lines have ended."""
        handler, self._handler = self._handler, None
        if handler is not None:
            logging.getLogger("gapless").removeHandler(handler)
            with contextlib.suppress(OSError, ValueError):
                handler.stream.close()

    # -- the reading side -------------------------------------------------------------------------

    def read_here(self, supervisor_pid: int) -> None:
        """Read the lines of a process and its children; they end with the process."""
        os.close(self._writer)
        self._supervisor_pid = supervisor_pid

    def fileno(self) -> int:
        return self._reader

    def collect(self) -> list[str]:
        """Return the lines that came since the last call."""
        # Checked before the read, so that no line written before a death is missed. Checked at all,
        # because a program that a handler has started may keep the pipe open.
        is_orphan = os.getppid() != self._supervisor_pid
        text = self._rest
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(self._reader, 65536):
                text += chunk.decode("utf-8", "replace")
            self.has_ended = True
        self.has_ended |= is_orphan
        *lines, self._rest = text.split("\n")
        self.last.extend(lines)
        return lines
