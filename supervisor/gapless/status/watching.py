"""`gapless status --watch`: one thread that waits for keys, signals and the next look."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable
from time import monotonic
from typing import Any

from psycopg import Connection
from rich.console import Console

from gapless.errors import UsageError
from gapless.status.live import KEYS, LiveConsole
from gapless.status.looker import Looker
from gapless.status.terminal import Keyboard, Signals, Stopped, held_back, let_through


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
    try:
        with (
            held_back(),
            looker,
            Signals(looker.close) as signals,
            Keyboard() as keyboard,
            console,
            let_through(),
        ):
            _loop(looker, console, signals, keyboard)
    except Stopped as stopped:
        return stopped.exit_code
    return 0


def _loop(looker: Looker, console: LiveConsole, signals: Signals, keyboard: Keyboard) -> None:
    while True:
        looker.tick()
        pause_s = max(0.0, looker.due_s - monotonic())
        select.select([signals.fileno(), *keyboard.filenos()], [], [], pause_s)
        noted = signals.take()
        if signal.SIGTSTP in noted:
            _suspend(console, signals, keyboard)
        elif noted:  # another size, or continued after SIGSTOP
            if signal.SIGCONT in noted:
                _reopen(console, keyboard)
            console.redraw()
        if not all(console.press(key) for key in keyboard.pressed()):
            return


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
