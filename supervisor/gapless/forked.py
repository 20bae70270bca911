"""User code that returns in a process that it forked: that process ends at once, loudly (I7).

The process is a copy of a worker in the middle of a call. If it continued, there would be two.
"""

from __future__ import annotations

import logging
import os
import queue
import sys
import threading
from concurrent.futures import thread as pools
from contextlib import suppress
from types import FrameType, TracebackType
from typing import NoReturn

log = logging.getLogger("gapless")

CAME_BACK = 70  # EX_SOFTWARE: its exit code, unless it gave another one


class OneProcess:
    """A block that only the process which entered it leaves; a process forked inside it ends."""

    __slots__ = ("_pid",)

    def __enter__(self) -> None:
        self._pid = os.getpid()

    def __exit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None:
        if os.getpid() != self._pid:
            end_forked(error)


class _CameBack(threading.Semaphore):
    """The lock that a pool's thread releases when it waits for work: user code has returned."""

    def __init__(self) -> None:
        super().__init__(0)
        self._thread_id = threading.get_ident()

    def release(self, n: int = 1) -> None:
        if threading.get_ident() == self._thread_id:
            end_forked()
        super().release(n)


def _leave_pool() -> None:
    """If a thread of a pool forked, end this process when it returns, without its queued work."""
    frame: FrameType | None = sys._getframe()  # noqa: SLF001 - inspect's reads files
    while frame is not None and frame.f_code is not pools._worker.__code__:  # noqa: SLF001
        frame = frame.f_back
    executor = frame and frame.f_locals["executor_reference"]()
    if executor is not None:
        executor._idle_semaphore = _CameBack()  # noqa: SLF001 - it has no other way
        with suppress(queue.Empty):
            while True:
                executor._work_queue.get_nowait()  # noqa: SLF001


os.register_at_fork(after_in_child=_leave_pool)


def end_forked(error: BaseException | None = None) -> NoReturn:
    """End this process, in which user code came back with `error`; clean nothing up."""
    how = "it returned" if error is None else repr(error)[:200]
    code = error.code if isinstance(error, SystemExit) else CAME_BACK
    code = code or 0 if isinstance(code, int | None) else 1  # as in sys.exit()
    said = (
        f"a handler came back in process {os.getpid()}, which it forked ({how}): that process is "
        f"ended, exit code {code}, and process {os.getppid()} continues: end it by os._exit(), or "
        "let multiprocessing or subprocess start it"
    )
    if log.handlers:
        log.error(said)
    else:  # our log is not set up: a line that a test framework records in memory would be lost
        os.write(2, f"gapless: {said}\n".encode(errors="replace"))
    os._exit(code)
