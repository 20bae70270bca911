"""The loops around a look: `--watch`, the console of `gapless run`, `--watch --json`.

They run on one thread, which waits for keys, signals, lines of a log, and the next look.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
from collections.abc import Callable
from time import monotonic, sleep
from typing import Any, NoReturn, Protocol, Self

import psycopg
from psycopg import Connection
from rich.console import Console

from gapless.errors import GaplessError, UsageError
from gapless.status.console import Letters, LiveConsole, one_line
from gapless.status.document import happening, to_document
from gapless.status.history import History
from gapless.status.look import snapshot
from gapless.status.news import Happening
from gapless.status.terminal import Keyboard, Signals, Stopped, held_back, let_through
from gapless.status.view import ConsoleState

RETRY_S = 0.5


class Display(Protocol):
    """Takes the looks, or the reason why there is no newer one."""

    def look(self, conn: Connection[Any], /) -> None: ...
    def lost(self, trouble: str, /) -> None: ...


class SnapshotLoop:
    """Makes a display such as the LiveConsole look; call `tick()` in any loop. Use it in `with`.

    A lost connection (a restart of the server) is reported and opened again. Bound of a tick: a
    round trip, or the time of `connect`; give it a connect_timeout_s that the loop can bear.
    """

    def __init__(
        self,
        connect: Callable[[], Connection[Any]],
        display: Display,
        *,
        interval_s: float = 1.0,
    ) -> None:
        self._connect = connect
        self._display = display
        self._interval_s = interval_s
        self._conn: Connection[Any] | None = None
        self._lost_s: float | None = None
        self.due_s = 0.0  # monotonic: when tick() has something to do

    def tick(self) -> None:
        """Look, if it is time."""
        if monotonic() < self.due_s:
            return
        try:
            self.look()
        except (psycopg.Error, GaplessError) as error:
            is_cut = self._conn is None or self._conn.broken
            self.close()
            self._tell("connection lost" if is_cut else "no answer", error)
            self.due_s = monotonic() + RETRY_S

    def look(self) -> None:
        """Look now. Raises psycopg.Error or GaplessError when that fails."""
        if self._conn is None:
            self._conn = self._connect()
        self._display.look(self._conn)
        self._lost_s = None
        self.due_s = monotonic() + self._interval_s

    def close(self) -> None:
        """Close the connection at once; safe in a signal handler, it never waits."""
        conn, self._conn = self._conn, None
        if conn is not None:
            with contextlib.suppress(psycopg.Error):
                conn.close()

    def _tell(self, what: str, error: Exception) -> None:
        now = monotonic()
        if self._lost_s is None:
            self._lost_s = now
        for_s = f" ({now - self._lost_s:.0f}s)" if now - self._lost_s >= 1 else ""
        self._display.lost(f"{what}, retrying{for_s}: {one_line(error)}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Lines(Protocol):
    """Lines of a log that the console shows among the news; it ends when they end."""

    has_ended: bool

    def fileno(self) -> int: ...
    def collect(self) -> list[str]: ...


def watch(
    connect: Callable[[], Connection[Any]],
    letters: Letters,
    *,
    interval_s: float = 1.0,
    console: Console | None = None,
) -> int:
    """Show the live console until q or a signal; return the exit code.

    The first look's errors are raised before the screen is touched; later ones are shown, and the
    connection is opened again. Every way out (q, Ctrl-C, SIGTERM, SIGHUP, Ctrl-Z, an exception)
    restores the terminal.
    Raises UsageError where there is no terminal.
    """
    console = console or Console()
    if not console.is_terminal or console.is_dumb_terminal:
        raise UsageError(
            "status --watch needs a terminal: without one, take status or status --json"
        )
    live = LiveConsole(letters, ConsoleState(), console)
    looker = SnapshotLoop(connect, live, interval_s=interval_s)
    looker.look()
    return _run(looker, live, None)


def accompany(
    connect: Callable[[], Connection[Any]], letters: Letters, lines: Lines, way_out: str
) -> int:
    """Show the live console beside a supervisor in another process, until its lines end.

    It ends with them, not with q. An unreachable database is shown, and is no error.
    """
    live = LiveConsole(letters, ConsoleState(way_out=way_out, stays=True))
    return _run(SnapshotLoop(connect, live), live, lines)


def _run(looker: SnapshotLoop, live: LiveConsole, lines: Lines | None) -> int:
    try:
        with (
            held_back(),
            looker,
            Signals(looker.close) as signals,
            Keyboard() as keyboard,
            live,
            let_through(),
        ):
            while not live.has_quit and _turn(looker, live, signals, keyboard, lines):
                pass
    except Stopped as stopped:
        return stopped.exit_code
    return 0


def _turn(
    looker: SnapshotLoop,
    live: LiveConsole,
    signals: Signals,
    keyboard: Keyboard,
    lines: Lines | None,
) -> bool:
    """Look if it is time, wait for an event, act on it; False when the lines end."""
    looker.tick()
    pause_s = max(0.0, looker.due_s - monotonic())
    more = [] if lines is None else [lines.fileno()]
    select.select([signals.fileno(), *keyboard.filenos(), *more], [], [], pause_s)
    if lines is not None:
        for line in lines.collect():
            live.note(line)
        if lines.has_ended:
            return False
    noted = signals.take()
    if signal.SIGTSTP in noted:
        _suspend(live, signals, keyboard)
    elif noted:  # another size, or continued after SIGSTOP
        if signal.SIGCONT in noted:
            _let_go(live, keyboard)  # the shell has used the terminal
            _take_again(live, keyboard)
        live.repaint()
    keys = keyboard.pressed()
    live.press(keys)
    if keys and live.wants_look:
        looker.due_s = 0.0
    return True


def _suspend(live: LiveConsole, signals: Signals, keyboard: Keyboard) -> None:
    """Give the terminal back, stop as Ctrl-Z demands, and take it again when continued."""
    _let_go(live, keyboard)
    signal.signal(signal.SIGTSTP, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTSTP)  # returns when continued
    signals.catch_stop_key()
    signals.take()
    _take_again(live, keyboard)


def _let_go(live: LiveConsole, keyboard: Keyboard) -> None:
    live.stop()
    keyboard.close()


def _take_again(live: LiveConsole, keyboard: Keyboard) -> None:
    keyboard.open()
    live.start()


class Stream:
    """Turns each look into a document, with the news since the look before."""

    def __init__(self, write: Callable[[dict[str, Any]], None]) -> None:
        self._write = write
        self._history = History()
        self._told: Happening | None = None

    def look(self, conn: Connection[Any]) -> None:
        """Write the document of a look; `happenings` are the news: at, kind, text."""
        shot = snapshot(conn)
        self._history.add(shot)
        document = to_document(shot, self._history)
        self._write({**document, "happenings": [happening(each) for each in self._news()]})

    def lost(self, trouble: str) -> None:
        """Write why there is no newer look: a document with nothing but `trouble`."""
        self._write({"trouble": trouble})

    def _news(self) -> list[Happening]:
        happenings = self._history.happenings
        known = next((n for n, each in enumerate(happenings) if each is self._told), -1)
        self._told = happenings[-1] if happenings else None
        return list(happenings[known + 1 :])


def stream(
    connect: Callable[[], Connection[Any]],
    write: Callable[[dict[str, Any]], None],
    *,
    interval_s: float = 1.0,
) -> NoReturn:
    """Look and write forever. The first look's errors are raised, later ones are written."""
    with SnapshotLoop(connect, Stream(write), interval_s=interval_s) as looker:
        looker.look()
        while True:
            sleep(max(0.0, looker.due_s - monotonic()))
            looker.tick()
