"""Signals as data: the handlers only enqueue, the supervisor's loop acts."""

from __future__ import annotations

import contextlib
import signal
import socket
from types import FrameType
from typing import Any, Self

_STOP = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class SignalQueue:
    """While entered, counts the requests to stop and wakes a select() on `filenos()`."""

    def __init__(self) -> None:
        self._stops = 0
        self._reader, self._writer = socket.socketpair()
        self._reader.settimeout(0)
        self._writer.settimeout(0)
        self._before: dict[signal.Signals, Any] = {}
        self._wakeup_before = -1

    def __enter__(self) -> Self:
        self._wakeup_before = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        for each in _STOP:
            self._before[each] = signal.signal(each, self._count)
        # A handler, even an empty one, lets a child's end interrupt the wait.
        self._before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, _ignore)
        return self

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(self._wakeup_before)
        for each, handler in self._before.items():
            signal.signal(each, handler)
        self._reader.close()
        self._writer.close()

    def take(self) -> int:
        """Return the number of requests to stop since the last call."""
        with contextlib.suppress(BlockingIOError):
            while self._reader.recv(4096):
                pass
        stops, self._stops = self._stops, 0
        return stops

    def filenos(self) -> list[int]:
        return [self._reader.fileno()]

    def private_fds(self) -> list[int]:
        """Return the other descriptors that a forked child must close, besides filenos()."""
        return [self._writer.fileno()]

    def _count(self, _signal: int, _frame: FrameType | None) -> None:
        self._stops += 1


def _ignore(_signal: int, _frame: FrameType | None) -> None:
    pass
