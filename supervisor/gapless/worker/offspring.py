"""Processes that handlers fork: they keep nothing of their worker, and end when it ends.

Signals are blocked from before the fork until the child has its own answers to them, so none is
lost in between, even when `terminate()` follows `start()` at once.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType

from setproctitle import setproctitle

from gapless import failpoints
from gapless.telemetry import meter

PR_SET_PDEATHSIG = 1
_STOP = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def disown_offspring(name: str, close: Callable[[], None]) -> None:
    """Make processes that this worker forks from now on begin as any process does.

    name: the worker's name. close: closes the things that only the worker may keep open.
    """
    worker_pid = os.getpid()
    before = threading.local()

    def block() -> None:
        before.mask = signal.pthread_sigmask(signal.SIG_BLOCK, _STOP)

    def unblock() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, before.mask)

    def begin() -> None:
        nonlocal worker_pid
        if not worker_pid:  # a child of a child: its parent has done this
            unblock()
            return
        for each in _STOP:
            signal.signal(each, signal.SIG_DFL)
        unblock()  # a signal of that time ends it now; a KeyboardInterrupt would be ignored here
        end_with(worker_pid)
        worker_pid = 0
        setproctitle(f"forked by a handler of {name}")
        close()
        meter.use(None)
        failpoints.arm({})

    os.register_at_fork(before=block, after_in_parent=unblock, after_in_child=begin)


def end_with(worker_pid: int) -> None:
    """End this process when its worker ends, not just when the thread that forked it ends."""

    def look(_signal: int | None = None, _frame: FrameType | None = None) -> None:
        if os.getppid() != worker_pid:
            os._exit(1)

    if sys.platform == "linux":
        signal.signal(signal.SIGRTMIN, look)
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGRTMIN)
        look()
