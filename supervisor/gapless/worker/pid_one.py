"""Process 1 of a container: let a child do the work, and reap orphaned processes.

A process whose parent has ended is given to process 1, which must wait for it, or it stays in the
table of processes as a zombie. Here these are processes that handlers start and do not wait for.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress

_FORWARDED = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
_BY_SIGNAL = 128  # a shell adds this to a signal's number


def as_any_process(work: Callable[[], int]) -> int:
    """Return the result of work(): in a child if we are process 1, otherwise here."""
    return work_in_a_child(work) if os.getpid() == 1 else work()


def work_in_a_child(work: Callable[[], int]) -> int:
    """Fork; return the result of work() in the child, and the child's exit code here.

    The child gets our signals, and the terminal if we have one. If a signal ends it, the exit code
    is 128 plus the signal's number, as in a shell.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _FORWARDED)  # none before it can be forwarded
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)  # Ctrl-C comes once: from us, or from the terminal
        _take_the_terminal()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _FORWARDED)
        return work()
    for number in _FORWARDED:
        signal.signal(number, lambda number, _: _forward(child, number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _FORWARDED)
    while True:
        pid, status = os.wait()
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else _BY_SIGNAL - code


def _forward(child: int, number: int) -> None:
    with suppress(ProcessLookupError):  # it has ended: os.wait() reports it next
        os.kill(child, number)


def _take_the_terminal() -> None:
    """Become the foreground process group of the terminal, if there is one."""
    before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    with suppress(OSError):  # no terminal
        os.tcsetpgrp(0, os.getpgrp())
    signal.signal(signal.SIGTTOU, before)
