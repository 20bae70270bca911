"""The terminal under the live console: a screen of its own, single keys; restored at the end."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import termios
import tty
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator, Sequence
from types import FrameType, MappingProxyType, TracebackType
from typing import Any, Self

from rich.console import Console, ConsoleDimensions
from rich.text import Text

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
NOTICED = (signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH)
END_OF_FILE = "\x04"
REST_S = 0.05  # a key that sends several characters may come in pieces

# Synchronized: a terminal that knows this shows a picture all at once; others ignore it.
_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"
_TAKE, _GIVE_BACK = "\x1b[?1049h\x1b[?25l\x1b[?7l", "\x1b[?7h\x1b[?1049l\x1b[?25h"
_CLEAR, _REST_OF_LINE = "\x1b[0m\x1b[2J", "\x1b[0m\x1b[K"

_SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1bO.|.", re.DOTALL)
_UNFINISHED = re.compile(r"\x1b(?:O|\[[0-9;?]*[ -/]*)?\Z")
_ARROWS = MappingProxyType(
    {"A": "up", "B": "down", "C": "right", "D": "left", "H": "home", "F": "end"}
)
_NAMES = MappingProxyType(
    {f"\x1b{kind}{letter}": name for kind in "[O" for letter, name in _ARROWS.items()}
    | {"\x1b[1~": "home", "\x1b[4~": "end", "\x1b[7~": "home", "\x1b[8~": "end"}
    | {"\x1b[5~": "pageup", "\x1b[6~": "pagedown", "\x1b": "escape", "\f": "redraw"}
    | {"\r": "enter", "\n": "enter", "\x7f": "backspace", "\b": "backspace"}
    # Ctrl-C is a signal, and a key only where a terminal sends it as one.
    | {END_OF_FILE: "end-of-file", "\x03": "end-of-file"}
)


def key_names(text: str) -> list[str]:
    """Name the keys that send this text: a character is its own name; unknown keys are left out."""
    keys = (_NAMES.get(each, each) for each in _SEQUENCE.findall(text))
    return [key for key in keys if len(key) > 1 or key.isprintable() if not key.startswith("\x1b")]


class Screen:
    """The terminal's other screen: of the lines it shows, it writes those that have changed.

    open() and close() may be repeated. Nothing is cleared between two pictures, so none flickers.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self._shown: list[Text] | None = None
        self._is_open = False

    def open(self) -> None:
        """Take the screen: the other one, no cursor, lines that do not wrap."""
        if not self._is_open:
            self._is_open = True
            self._shown = None
            self._write(_TAKE)

    def close(self) -> None:
        """Restore the screen, even if the terminal is gone."""
        if self._is_open:
            self._is_open = False
            with contextlib.suppress(OSError):
                self._write(_GIVE_BACK)

    def forget(self) -> None:
        """Write all of the next picture: the size has changed, or another program wrote."""
        self._shown = None

    def measure(self) -> tuple[int, int]:
        """Return columns and lines, from the terminal itself: the environment's are old."""
        with contextlib.suppress(OSError, ValueError):  # not a terminal, but a test's file
            size = os.get_terminal_size(self.console.file.fileno())
            if size.columns and size.lines:
                self.console.size = ConsoleDimensions(size.columns, size.lines)
        return self.console.width, self.console.height

    def show(self, lines: Sequence[Text]) -> None:
        """Show a picture, if the screen is open; it must fit."""
        if not self._is_open:
            return
        shown, self._shown = self._shown, list(lines)
        parts = [] if shown is not None and len(shown) == len(lines) else [_CLEAR]
        before = [None] * len(lines) if parts or shown is None else shown
        for n, (line, old) in enumerate(zip(lines, before, strict=True), start=1):
            if old is None or line != old or line.style != old.style:
                # After a full line the cursor stands on its last character.
                rest = _REST_OF_LINE if line.cell_len < self.console.width else ""
                parts.append(f"\x1b[{n};1H{self._styled(line)}{rest}")
        if parts:
            self._write(f"{_BEGIN}{''.join(parts)}{_END}")

    def _styled(self, line: Text) -> str:
        with self.console.capture() as captured:
            self.console.print(line, end="", soft_wrap=True, highlight=False)
        return captured.get()

    def _write(self, text: str) -> None:
        self.console.file.write(text)
        self.console.file.flush()


class Keyboard:
    """A terminal's keys, one by one and without echo, while in `with`; silent if it is none."""

    def __init__(self, fd: int = 0) -> None:
        self._fd = fd
        self._saved: list[Any] | None = None
        self._decoder = getincrementaldecoder("utf-8")(errors="replace")

    def filenos(self) -> list[int]:
        """Return the descriptors to wait for: the terminal, if it is one."""
        return [] if self._saved is None else [self._fd]

    def pressed(self) -> list[str]:
        """Return the names of the keys pressed so far; wait at most 50 ms for the rest of one."""
        if self._saved is None:
            return []
        text = self._read(0)
        while _UNFINISHED.search(text) and (more := self._read(REST_S)):
            text += more
        return key_names(text)

    def _read(self, timeout_s: float) -> str:
        """Return the typed text; the end of the file, or of the terminal, is Ctrl-D."""
        text = ""
        while select.select([self._fd], [], [], timeout_s)[0]:
            try:
                some = os.read(self._fd, 1024)
            except OSError:  # the terminal is gone
                some = b""
            if not some:
                return text + END_OF_FILE
            text += self._decoder.decode(some)
            timeout_s = 0
        return text

    def open(self) -> None:
        """Make the terminal deliver keys one by one."""
        if self._saved is None and os.isatty(self._fd):
            self._saved = termios.tcgetattr(self._fd)
            tty.setcbreak(self._fd, termios.TCSADRAIN)

    def close(self) -> None:
        """Restore the terminal's mode."""
        saved, self._saved = self._saved, None
        if saved is not None:
            # Blocked, so that this is allowed after the shell has taken the terminal: it does so
            # when the job's leader is killed.
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


class Stopped(BaseException):
    """A signal that ends the console: no Exception, so that no `except` on the way catches it."""

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.exit_code = 0 if signum == signal.SIGINT else 128 + signum


@contextlib.contextmanager
def held_back() -> Iterator[None]:
    """Hold back signals, so that none comes between a change to the terminal and its undoing."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def let_through() -> Iterator[None]:
    """Let signals through again, inside held_back()."""
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)


class Signals:
    """Catches signals while in `with`: the first that ends raises Stopped, others are noted.

    Stopped is raised wherever the program is, so a server that does not answer cannot hold up the
    console; `on_end` is called first, to cut the connection on which it waits.
    """

    def __init__(self, on_end: Callable[[], None]) -> None:
        self._on_end = on_end
        self._noted: set[int] = set()
        self._is_ending = False
        self._former: dict[int, Any] = {}
        self._former_wakeup = -1
        self._read_fd = self._write_fd = -1

    def fileno(self) -> int:
        """Return a descriptor that is readable when a signal came."""
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
        """Note Ctrl-Z again, after it was allowed to stop us."""
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
