"""The terminal under the live console: single keys, signals, and everything put back as it was."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import termios
import tty
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType
from typing import Any, Self

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
NOTICED = (signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH)
_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|O.|.?)")


class Stopped(BaseException):
    """A signal that ends the console: no error, so that no `except` on the way takes it for one."""

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.exit_code = 0 if signum == signal.SIGINT else 128 + signum


@contextlib.contextmanager
def held_back() -> Iterator[None]:
    """Hold back signals, so that none comes between a change to the terminal and who undoes it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def let_through() -> Iterator[None]:
    """Let signals come again, inside held_back()."""
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)


class Signals:
    """Catches signals while in `with`: the first that ends raises Stopped, others are noted.

    Stopped is raised from wherever the program is, so a server that does not answer cannot keep the
    console; `on_end` is called before, to cut the connection that is being waited for.
    """

    def __init__(self, on_end: Callable[[], None]) -> None:
        self._on_end = on_end
        self._noted: set[int] = set()
        self._is_ending = False
        self._former: dict[int, Any] = {}
        self._former_wakeup = -1
        self._read_fd = self._write_fd = -1

    def fileno(self) -> int:
        """Readable when a signal came."""
        return self._read_fd

    def take(self) -> set[int]:
        """Return the signals noted since the last call."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self._read_fd, 512):
                pass
        noted, self._noted = self._noted, set()
        return noted

    def _end(self, signum: int, _: FrameType | None) -> None:
        if not self._is_ending:  # a second one must not interrupt the way out
            self._is_ending = True
            self._on_end()
            raise Stopped(signum)

    def _note(self, signum: int, _: FrameType | None) -> None:
        self._noted.add(signum)

    def catch_stop_key(self) -> None:
        """Note Ctrl-Z again, after it was let do what it does."""
        signal.signal(signal.SIGTSTP, self._note)

    def __enter__(self) -> Self:
        self._read_fd, self._write_fd = os.pipe()
        os.set_blocking(self._read_fd, False)
        os.set_blocking(self._write_fd, False)
        self._former_wakeup = signal.set_wakeup_fd(self._write_fd, warn_on_full_buffer=False)
        for signum in (*ENDING, *NOTICED):
            if signal.getsignal(signum) != signal.SIG_IGN:  # such as SIGHUP under nohup
                handler = self._end if signum in ENDING else self._note
                self._former[signum] = signal.signal(signum, handler)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for signum, handler in self._former.items():
            signal.signal(signum, handler)
        signal.set_wakeup_fd(self._former_wakeup)
        os.close(self._read_fd)
        os.close(self._write_fd)


class Keyboard:
    """A terminal's keys, one by one and without echo, while in `with`; silent if it is none."""

    def __init__(self, fd: int = 0) -> None:
        self._fd = fd
        self._saved: list[Any] | None = None

    def filenos(self) -> list[int]:
        """Return what to wait for: the terminal, if it is one."""
        return [] if self._saved is None else [self._fd]

    def pressed(self) -> str:
        """Return the keys pressed so far, without waiting; end of file is Ctrl-D."""
        read = ""
        while self._saved is not None and select.select([self._fd], [], [], 0)[0]:
            try:
                some = os.read(self._fd, 1024)
            except OSError:  # the terminal is gone
                return "\x04"
            if not some:
                return read + "\x04"
            read += some.decode(errors="replace")
        return _ESCAPES.sub("", read)

    def open(self) -> None:
        """Have the keys delivered one by one."""
        if self._saved is None and os.isatty(self._fd):
            self._saved = termios.tcgetattr(self._fd)
            tty.setcbreak(self._fd, termios.TCSADRAIN)

    def close(self) -> None:
        """Put the terminal back as it was."""
        saved, self._saved = self._saved, None
        if saved is not None:
            # Blocked, so that it is let do this after the shell has taken the terminal: that is so
            # when the job's leader was killed.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTTOU,))
            with contextlib.suppress(termios.error):  # it is gone
                termios.tcsetattr(self._fd, termios.TCSADRAIN, saved)
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
