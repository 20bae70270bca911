"""The console's process, as a supervisor's loop knows it: its end, its stop, and the terminal.

With an operating system that only says what a test wants, and a clock that sleep moves.
"""

import os
import signal
import termios
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from gapless.worker import console as module
from gapless.worker.console import _ConsoleProcess

CONSOLE, ME = 41, 40
RUNS, ENDED, KILLED, STOPPED = (0, 0), (CONSOLE, 0), (CONSOLE, 9), (CONSOLE, 0x137F)
BACK = "\x1b[?7h\x1b[?1049l\x1b[?25h"


class LeftError(BaseException):
    """In place of os._exit()."""


class Stream:
    """A terminal to write to; written: what has been flushed."""

    def __init__(self) -> None:
        self._text = self.written = ""

    def write(self, text: str) -> None:
        self._text += text

    def flush(self) -> None:
        self.written = self._text


class Lines:
    """The pipe of the log's lines."""

    def __init__(self, story: list[object]) -> None:
        self._say = story.append
        self.is_closed = False
        self.last = ["one", "two"]

    def close(self) -> None:
        self._say("lines closed")
        self.is_closed = True

    def write_here(self) -> None:
        self._say("writes")

    def read_here(self, supervisor_pid: int) -> None:
        self._say(("reads of", supervisor_pid))


class System:
    """What the operating system says, and what it was asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1000.0
        self.story: list[object] = []
        self.ends: list[tuple[int, int]] = []  # what waitpid() says; the last one stays
        self.forks, self.modes = CONSOLE, ["modes"]
        say = self.story.append
        real = {name: getattr(os, name) for name in ("WNOHANG", "WUNTRACED", "WIFSTOPPED")}
        fake = SimpleNamespace(
            **real, WIFSIGNALED=os.WIFSIGNALED, getpid=lambda: ME, waitpid=self._waitpid,
            kill=lambda pid, number: say((pid, number)), fork=lambda: self.forks, _exit=self._exit,
        )  # fmt: skip
        monkeypatch.setattr(module, "os", fake)
        monkeypatch.setattr(module, "sleep", self._sleep)
        monkeypatch.setattr(module, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(module, "set_up_logs", lambda how: say(("logs", how)))
        monkeypatch.setattr(termios, "tcgetattr", self._tcgetattr)
        monkeypatch.setattr(termios, "tcsetattr", self._tcsetattr)
        self.is_gone = False
        self.lines: Any = Lines(self.story)
        self.step_s: float | None = None  # by which each sleep moves the clock
        self.out, self.err = Stream(), Stream()
        monkeypatch.setattr(module, "sys", SimpleNamespace(stdout=self.out, stderr=self.err))

    def _waitpid(self, pid: int, options: int) -> tuple[int, int]:
        assert pid == CONSOLE
        assert options in (0, os.WNOHANG, os.WNOHANG | os.WUNTRACED)
        if options == 0:
            self.story.append("waits")
        if len(self.ends) > 1:
            return self.ends.pop(0)
        return self.ends[0]

    def _sleep(self, seconds: float) -> None:
        self.now_s += self.step_s or seconds
        assert self.now_s < 1100, "it does not end"

    def _tcgetattr(self, fd: int) -> list[str]:
        assert fd == 0
        if not self.modes:
            raise termios.error
        return self.modes

    def _tcsetattr(self, *said: object) -> None:
        self.story.append(("terminal", *said))
        if self.is_gone:
            raise termios.error

    def _exit(self, code: int) -> NoReturn:
        raise LeftError(code)

    def console(self, *ends: tuple[int, int]) -> _ConsoleProcess:
        self.ends = list(ends)
        return _ConsoleProcess("dsn", self.lines, lambda: "letters")  # type: ignore[arg-type, return-value]


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch) -> System:
    return System(monkeypatch)


RESTORED = ("terminal", 0, termios.TCSANOW, ["modes"])


@pytest.mark.parametrize("has_modes", [False, True])
def test_a_terminal_that_is_gone_is_no_trouble(system: System, *, has_modes: bool) -> None:
    system.modes = ["modes"] * has_modes
    console = system.console(KILLED)
    system.is_gone = True
    console.end()
    assert system.story == [RESTORED] * has_modes
    assert system.out.written == BACK


def test_one_that_ends_in_the_last_moment_may_have_left_the_terminal_as_it_was(
    system: System,
) -> None:
    runs = int(module._END_S_MAX / 0.01) + 2
    system.console(*[RUNS] * runs, ENDED).end()
    assert system.story[2:] == [RESTORED]
    assert system.out.written == BACK


STOP = [(CONSOLE, signal.SIGTSTP), (ME, signal.SIGSTOP), (CONSOLE, signal.SIGCONT)]


def test_at_ctrl_z_the_console_stops_first_and_both_go_on(system: System) -> None:
    console = system.console(RUNS)
    before = signal.getsignal(signal.SIGTSTP)
    with console:
        signal.raise_signal(signal.SIGTSTP)
        assert system.story == [], "at the next turn"
        system.ends = [RUNS, RUNS, RUNS, STOPPED, RUNS]
        console.tick()
        assert system.story == STOP
        assert system.now_s == pytest.approx(1000.02)
        console.tick()
        assert system.story == STOP, "once"
    assert signal.getsignal(signal.SIGTSTP) == before


def test_a_console_that_does_not_stop_is_not_waited_for_long(system: System) -> None:
    system.console(RUNS)._stop()
    assert system.story == STOP
    assert system.now_s == pytest.approx(1000 + module._STOP_S_MAX, abs=0.011)


def test_so_long_and_no_longer(system: System) -> None:
    system.step_s = module._STOP_S_MAX
    system.console(RUNS, STOPPED, RUNS)._stop()
    assert system.ends == [STOPPED, RUNS], "it was looked at once"
    system.step_s = module._END_S_MAX
    system.console(RUNS, ENDED).end()
    assert system.story == STOP, "looked at for the last time it had ended"


def test_one_that_ends_instead_is_not_woken(system: System) -> None:
    console = system.console(RUNS, ENDED)
    console._stop_noted = True
    console.tick()
    assert system.story == STOP[:2]
    console._stop_noted = True
    console._stop()
    assert system.story == [*STOP[:2], STOP[1]], "without one it stops alone"


def test_the_child_is_the_console(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setattr(module, "_be_console", lambda *said: told.append(said))
    assert system.console(RUNS).filenos() == [], "children write to the pipe too"
    assert told == []
    system.forks = 0
    system.console(RUNS)
    [(dsn, lines, _, parent)] = told
    assert (dsn, lines, parent) == ("dsn", system.lines, ME)


def _be(
    system: System, monkeypatch: pytest.MonkeyPatch, accompany: Any
) -> tuple[int, list[object]]:
    """Be the console; its exit code, and which signals it has ignored."""
    ignored: list[object] = []
    monkeypatch.setattr(signal, "signal", lambda *said: ignored.append(said))
    monkeypatch.setattr("gapless.status.loop.accompany", accompany)
    monkeypatch.setattr("gapless.db.connect.connect", lambda *said, **more: (said, more))
    with pytest.raises(LeftError) as left:
        module._be_console("dsn", system.lines, lambda: "letters", 7)  # type: ignore[arg-type, return-value]
    return left.value.args[0], ignored


def test_it_shows_what_there_is_and_then_says_the_last_lines(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    def accompany(connect: Any, *said: object) -> int:
        limit = {"role": "console", "connect_timeout_s": module._CONNECT_TIMEOUT_S}
        assert connect() == (("dsn",), limit)
        assert said == ("letters", system.lines, module._WAY_OUT)
        return 5

    code, ignored = _be(system, monkeypatch, accompany)
    assert code == 5
    assert ignored == [(signal.SIGINT, signal.SIG_IGN), (signal.SIGTERM, signal.SIG_IGN)]
    assert system.story == [("reads of", 7)]
    assert system.err.written == "one\ntwo\n"


def test_one_that_fails_says_so_by_its_exit_code(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    def accompany(*_: object) -> int:
        raise ZeroDivisionError

    assert _be(system, monkeypatch, accompany)[0] == 1


def test_a_terminal_that_is_gone_changes_nothing_of_its_exit_code(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(_text: str) -> None:
        raise OSError

    monkeypatch.setattr(system.err, "write", write)
    assert _be(system, monkeypatch, lambda *_: 5)[0] == 5


@pytest.mark.parametrize("fails", [False, True])
def test_however_it_ends_the_lines_do_and_the_console_with_them(
    system: System, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    def run(*said: object) -> Any:
        def work() -> int:
            system.story.append(said[::2])
            if fails:
                raise ZeroDivisionError
            return 3

        return SimpleNamespace(run=work)

    monkeypatch.setattr(module, "LogPipe", lambda: system.lines)
    monkeypatch.setattr(module, "Supervisor", run)
    system.ends = [KILLED]
    plan: Any = SimpleNamespace(dsn="dsn")
    socket: Any = "socket"
    letters: Any = None
    with suppress(ZeroDivisionError):
        assert module.supervise_with_console(plan, letters, socket) == 3
    assert system.story == ["writes", (plan, "socket"), "lines closed", RESTORED]
