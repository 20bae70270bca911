"""The loop around the live console: one thread that waits for keys, signals and the next look."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable
from time import monotonic
from typing import Any, Protocol

from psycopg import Connection
from rich.console import Console

from gapless.errors import UsageError
from gapless.status.live import KEYS, LiveConsole
from gapless.status.looker import Looker
from gapless.status.terminal import Keyboard, Signals, Stopped, held_back, let_through


class Lines(Protocol):
    """Lines of a log that the console shows among what happened; with their end it ends too."""

    has_ended: bool

    def fileno(self) -> int: ...
    def collect(self) -> list[str]: ...


def watch(
    connect: Callable[[], Connection[Any]],
    *,
    interval_s: float = 1.0,
    screen: Console | None = None,
) -> int:
    """Show the live console until q or a signal; return the exit code.

    The first look's errors are raised before the screen is touched; later ones are shown, and the
    connection is made again. On every way out (q, Ctrl-C, SIGTERM, SIGHUP, Ctrl-Z, an exception)
    the terminal is as it was before.
    Raises UsageError where there is no terminal.
    """
    screen = screen or Console()
    if not screen.is_terminal or screen.is_dumb_terminal:
        raise UsageError(
            "status --watch needs a terminal: without one, take status or status --json"
        )
    console = LiveConsole(screen, footer=KEYS)
    looker = Looker(connect, console, interval_s=interval_s)
    looker.look()
    return _show(looker, console, None)


def accompany(connect: Callable[[], Connection[Any]], lines: Lines, footer: str) -> int:
    """Show the live console beside a supervisor in another process, until its lines end.

    It ends with them, not with q. A database that cannot be reached is shown, and is no error.
    """
    console = LiveConsole(footer=footer)
    return _show(Looker(connect, console), console, lines)


def _show(looker: Looker, console: LiveConsole, lines: Lines | None) -> int:
    try:
        with (
            held_back(),
            looker,
            Signals(looker.close) as signals,
            Keyboard() as keyboard,
            console,
            let_through(),
        ):
            _loop(looker, console, signals, keyboard, lines)
    except Stopped as stopped:
        return stopped.exit_code
    return 0


def _loop(
    looker: Looker,
    console: LiveConsole,
    signals: Signals,
    keyboard: Keyboard,
    lines: Lines | None,
) -> None:
    while True:
        looker.tick()
        pause_s = max(0.0, looker.due_s - monotonic())
        more = [] if lines is None else [lines.fileno()]
        select.select([signals.fileno(), *keyboard.filenos(), *more], [], [], pause_s)
        if lines is not None and not _pass_on(lines, console):
            return
        noted = signals.take()
        if signal.SIGTSTP in noted:
            _suspend(console, signals, keyboard)
        elif noted:  # another size, or continued after SIGSTOP
            if signal.SIGCONT in noted:
                _reopen(console, keyboard)
            console.redraw()
        stays = [console.press(key) for key in keyboard.pressed()]
        if lines is None and not all(stays):
            return


def _pass_on(lines: Lines, console: LiveConsole) -> bool:
    """Show the lines that came; False when they have ended."""
    for line in lines.collect():
        console.note(line)
    return not lines.has_ended


def _suspend(console: LiveConsole, signals: Signals, keyboard: Keyboard) -> None:
    """Give the terminal back, stop as Ctrl-Z means it, and take it again when continued."""
    console.stop()
    keyboard.close()
    signal.signal(signal.SIGTSTP, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTSTP)  # returns when continued
    signals.catch_stop_key()
    signals.take()
    keyboard.open()
    console.start()


def _reopen(console: LiveConsole, keyboard: Keyboard) -> None:
    """Take the terminal again after a stop that could not be noticed: the shell has used it."""
    console.stop()
    keyboard.close()
    keyboard.open()
    console.start()
