"""`gapless run` on a terminal: the live console, with the log's lines under 'lately'.

The console is a process of its own, with the terminal and its own session for reads, so neither a
slow terminal nor a server that does not answer delays the supervisor's heartbeat. If the supervisor
is killed, the console lives on just long enough to restore the terminal.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import termios
from collections.abc import Callable
from time import monotonic, sleep
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

from gapless.logs import set_up_logs
from gapless.worker.log_pipe import LogPipe
from gapless.worker.onlookers import MakeExporter
from gapless.worker.plan import Plan
from gapless.worker.supervisor import Supervisor

if TYPE_CHECKING:
    from gapless.status.console import Letters

_WAY_OUT = "Ctrl-C drains, twice: now"
_CONNECT_TIMEOUT_S = 5
_END_S_MAX = 5.0
_STOP_S_MAX = 1.0
# The state in which gapless.status.terminal leaves it: lines wrap, the first screen, a cursor.
_TAKE_BACK = "\x1b[?7h\x1b[?1049l\x1b[?25h"


def supervise_with_console(
    plan: Plan, letters: Callable[[], Letters], make_exporter: MakeExporter | None = None
) -> int:
    """Run a supervisor under the live console; restore the terminal on every way out.

    letters: returns the console's actions on units set aside; called only in its process.
    """
    lines = LogPipe()
    console = _ConsoleProcess(plan.dsn, lines, letters)
    lines.write_here()
    try:
        with console:
            return Supervisor(plan, console, make_exporter).run()
    finally:
        lines.close()
        console.end()


class _ConsoleProcess:
    """The console's process as the supervisor's loop sees it; while in `with`, Ctrl-Z stops both.

    Ctrl-Z stops the console first, for it has the terminal to give back, then the supervisor.
    """

    def __init__(self, dsn: str, lines: LogPipe, letters: Callable[[], Letters]) -> None:
        self._lines = lines
        self._stop_noted = False
        self._modes: list[Any] | None = None
        with contextlib.suppress(termios.error):
            self._modes = termios.tcgetattr(0)
        parent = os.getpid()
        self._pid: int | None = os.fork()
        if self._pid == 0:
            _be_console(dsn, lines, letters, parent)

    def __enter__(self) -> None:
        self._former = signal.signal(signal.SIGTSTP, self._note_stop)

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGTSTP, self._former)

    def tick(self) -> None:
        """Check whether the console is still there, and whether Ctrl-Z was pressed."""
        if self._has_ended(os.WNOHANG):
            self._give_up()
        if self._stop_noted:
            self._stop_noted = False
            self._stop()

    def filenos(self) -> list[int]:
        return []  # the children write to the log's pipe too

    def end(self) -> None:
        """Wait until the console has restored the terminal; it ends with the log's lines."""
        give_up_s = monotonic() + _END_S_MAX
        while self._pid is not None and not self._has_ended(os.WNOHANG):
            sleep(0.01)
            if monotonic() > give_up_s:
                os.kill(self._pid, signal.SIGKILL)
                self._has_ended(0)
                self._take_back()

    def _note_stop(self, _signal: int, _frame: FrameType | None) -> None:
        self._stop_noted = True

    def _stop(self) -> None:
        if self._pid is not None:
            os.kill(self._pid, signal.SIGTSTP)
            give_up_s = monotonic() + _STOP_S_MAX
            while monotonic() < give_up_s and not self._has_stopped():
                sleep(0.01)
        os.kill(os.getpid(), signal.SIGSTOP)  # resumes here after SIGCONT
        if self._pid is not None:
            os.kill(self._pid, signal.SIGCONT)

    def _has_stopped(self) -> bool:
        return self._has_ended(os.WNOHANG | os.WUNTRACED)

    def _has_ended(self, options: int) -> bool:
        """Tell whether the console has ended, or has stopped where the options ask for that."""
        if self._pid is None:
            return True
        pid, status = os.waitpid(self._pid, options)
        if pid == 0:
            return False
        if not os.WIFSTOPPED(status):
            self._pid = None
            if os.WIFSIGNALED(status):
                self._take_back()
        return True

    def _give_up(self) -> None:
        """Continue without a console: the log's lines go where they go without a terminal."""
        if not self._lines.is_closed:
            self._lines.close()
            set_up_logs("text")
            logging.getLogger("gapless").warning("the console has ended; the supervisor continues")

    def _take_back(self) -> None:
        """Restore the terminal in place of a console that was killed."""
        if self._modes is not None:
            with contextlib.suppress(termios.error):
                termios.tcsetattr(0, termios.TCSANOW, self._modes)
        sys.stdout.write(_TAKE_BACK)
        sys.stdout.flush()


def _be_console(
    dsn: str, lines: LogPipe, letters: Callable[[], Letters], supervisor_pid: int
) -> NoReturn:
    """Be the console's process until the log's lines end; then print the last of them."""
    code = 1
    try:
        # Only the supervisor acts on these; a terminal that is gone ends the console too.
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, signal.SIG_IGN)
        lines.read_here(supervisor_pid)
        # Only this process needs Rich: workers are spared its memory.
        from gapless.db.connect import connect  # noqa: PLC0415
        from gapless.status.loop import accompany  # noqa: PLC0415

        code = accompany(
            lambda: connect(dsn, role="console", connect_timeout_s=_CONNECT_TIMEOUT_S),
            letters(),
            lines,
            _WAY_OUT,
        )
        with contextlib.suppress(OSError):
            sys.stderr.write("".join(f"{line}\n" for line in lines.last))
            sys.stderr.flush()
    finally:
        os._exit(code)
