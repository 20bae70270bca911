"""User code that comes back in a process that it forked: that process ends at once, loudly (I7).

It is a copy of a worker in the middle of a call. Were it to continue, there would be two.
"""

from __future__ import annotations

import logging
import os
from types import TracebackType
from typing import NoReturn

log = logging.getLogger("gapless")

CAME_BACK = 70  # EX_SOFTWARE: its exit code, unless it said another one


class OneProcess:
    """A block that only the process which entered it leaves; one that was forked in it ends."""

    __slots__ = ("_pid",)

    def __enter__(self) -> None:
        self._pid = os.getpid()

    def __exit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None:
        if os.getpid() != self._pid:
            end_forked(error)


def end_forked(error: BaseException | None = None) -> NoReturn:
    """End this process, in which user code came back with `error`; clean nothing up."""
    how = "it returned" if error is None else repr(error)[:200]
    code = error.code if isinstance(error, SystemExit) else CAME_BACK
    code = code or 0 if isinstance(code, int | None) else 1  # as sys.exit() has it
    said = (
        f"a handler came back in process {os.getpid()}, which it forked ({how}): that process is "
        f"ended, exit code {code}, and process {os.getppid()} continues: end it by os._exit(), or "
        "let multiprocessing or subprocess start it"
    )
    if log.handlers:
        log.error(said)
    else:  # nobody set up our log: what a test framework records in memory would be lost
        os.write(2, f"gapless: {said}\n".encode(errors="replace"))
    os._exit(code)
