"""As process 1 of a container: let a child do the work, and reap whatever is left to us.

A process whose parent has ended is given to process 1, which must wait for it, or it stays in the
table of processes as a zombie. Here that is what handlers start and do not wait for.
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
_BY_SIGNAL = 128  # what a shell adds to a signal's number


def as_any_process(work: Callable[[], int]) -> int:
    """Return what work() does: as process 1 in a child, else here."""
    return work_in_a_child(work) if os.getpid() == 1 else work()


def work_in_a_child(work: Callable[[], int]) -> int:
    """Fork; return the child's work() there, and here, when it has ended, its exit code.

    The child gets our signals, and the terminal if we have one. Ended by a signal: 128 and its
    number, as a shell says it.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _FORWARDED)  # none before it can be forwarded
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)  # Ctrl-C comes once: by us, or by the terminal
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
    with suppress(ProcessLookupError):  # it has ended: os.wait() says so next
        os.kill(child, number)


def _take_the_terminal() -> None:
    """Become the group of processes that the terminal, if there is one, writes to and reads."""
    before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    with suppress(OSError):  # no terminal
        os.tcsetpgrp(0, os.getpgrp())
    signal.signal(signal.SIGTTOU, before)
