"""Processes that are forked for real: orders go in, news and exit codes come out."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from select import select
from stat import S_ISFIFO
from time import sleep
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from gapless.errors import UsageError
from gapless.worker import child as module
from gapless.worker.child import Child, explain_exit
from gapless.worker.life import live, settle
from gapless.worker.spec import ExitCode
from support.servers import until


@pytest.fixture
def forked() -> Iterator[Callable[[Callable[[Any], None]], Child]]:
    """Fork a child; it is ended with the test."""
    children: list[Child] = []

    def fork(run: Callable[[Any], None]) -> Child:
        children.append(Child.fork("child", 3, run))
        return children[-1]

    yield fork
    for child in children:
        if not child.pipe.closed:
            child.kill()
            _code(child)


def _code(child: Child) -> int:
    """Wait until it has ended."""
    select([child.process.sentinel], [], [], 30)
    assert until(lambda: not child.process.is_alive())
    code = child.reap()
    assert code is not None
    return code


def _obey(pipe: Any) -> None:
    """Say each order again; end when told to, or when nobody can tell any more."""
    while True:
        try:
            order = pipe.recv_bytes()
        except EOFError:
            os._exit(9)
        pipe.send_bytes(b"heard " + order)
        if order == b"drain":
            os._exit(4)


def test_orders_go_in_and_news_come_out(forked: Any) -> None:
    child = forked(_obey)
    assert (child.name, child.slot, child.killed, child.draining) == ("child", 3, False, False)
    assert child.reap() is None
    ends = child.pipe.fileno(), child.news.fileno()
    assert all(S_ISFIFO(os.fstat(fd).st_mode) for fd in ends), "a socket would look like a session"
    assert list(child.heard()) == []
    assert 0 <= child.age_s < 600
    child.order("serve", 101, 1)
    select([child.news], [], [], 30)
    assert list(child.heard()) == [["heard", "serve", "101", "1"]]
    child.drain()
    assert child.draining
    child.drain()  # told once: a second order would break the pipe
    fds = child.descriptors()
    assert {child.pipe.fileno(), child.news.fileno()} < set(fds)
    assert len(fds) > 2
    assert _code(child) == 4
    for fd in fds[:2]:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)


def test_what_a_child_said_before_it_ended_is_heard(forked: Any) -> None:
    child = forked(_obey)
    child.drain()
    select([child.process.sentinel], [], [], 30)
    assert list(child.heard()) == [["heard", "drain"]]
    assert list(child.heard()) == []
    child.order("drop", 1)  # nobody hears it
    assert _code(child) == 4


def test_a_child_has_none_of_its_parents_ends(forked: Any) -> None:
    """Else it would never hear that its supervisor is gone."""
    child = forked(_obey)
    child.pipe.close()
    select([child.process.sentinel], [], [], 30)
    assert child.process.exitcode in (None, 9)
    assert until(lambda: child.process.exitcode == 9)
    child.news.close()


def test_a_killed_child_says_by_whom(forked: Any) -> None:
    child = forked(_obey)
    child.kill("it hung")
    assert child.killed
    assert _code(child) == -signal.SIGKILL
    assert child.explain(-signal.SIGKILL) == "signal SIGKILL: it hung"


def test_what_cannot_be_forked_leaves_nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_self: object) -> None:
        raise OSError("too many")

    before = len(list(Path("/proc/self/fd").iterdir()))
    monkeypatch.setattr(module._CONTEXT.Process, "start", start)
    with pytest.raises(OSError, match="too many"):
        Child.fork("child", 0, _obey)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.parametrize(
    ("code", "killed", "words"),
    [
        (0, False, "exit code 0"),
        (1, False, "exit code 1"),
        (-1, False, "signal SIGHUP"),
        (-9, False, "signal SIGKILL (out of memory?)"),
        (-9, True, "signal SIGKILL"),
        (-11, False, "signal SIGSEGV"),
        (-250, False, "signal 250"),
    ],
)
def test_an_end_in_words(code: int, killed: bool, words: str) -> None:
    assert explain_exit(code, killed=killed) == words


# -- how a child begins and ends ------------------------------------------------------------------


def _spec(**said: Any) -> Any:
    return SimpleNamespace(**{"supervisor_pid": os.getpid(), "close_fds": ()} | said)


def test_a_child_keeps_nothing_and_leaves_signals_to_its_supervisor(forked: Any) -> None:
    reader, writer = os.pipe()
    parent = os.getpid()

    def run(pipe: Any) -> None:
        settle(_spec(supervisor_pid=parent, close_fds=(writer, writer, reader)), "test")
        for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(os.getpid(), each)
        closed = 0
        for fd in (reader, writer):
            try:
                os.fstat(fd)
            except OSError:
                closed += 1
        default = signal.getsignal(signal.SIGTSTP) == signal.SIG_DFL
        default &= signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL
        pipe.send_bytes(f"{closed} {default} {signal.set_wakeup_fd(-1)}".encode())
        os._exit(0)

    former = signal.signal(signal.SIGTSTP, signal.SIG_IGN)
    try:
        child = forked(run)
        select([child.news], [], [], 30)
        assert list(child.heard()) == [["2", "True", "-1"]]
        assert _code(child) == 0
    finally:
        signal.signal(signal.SIGTSTP, former)
        os.close(reader)
        os.close(writer)


def _is_gone(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    return True


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it looks now and then")
def test_a_child_ends_with_its_supervisor_whatever_it_is_at(forked: Any) -> None:
    def run(pipe: Any) -> None:
        supervisor = os.getpid()
        if os.fork() == 0:
            settle(_spec(supervisor_pid=supervisor), "test")
            pipe.send_bytes(str(os.getpid()).encode())
        sleep(3600)

    child = forked(run)
    select([child.news], [], [], 30)
    [[pid]] = child.heard()
    try:
        child.kill()
        assert until(lambda: _is_gone(int(pid)))
    finally:
        with suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)


def test_whose_parent_is_gone_already_ends_at_once(forked: Any) -> None:
    def run(_pipe: Any) -> None:
        settle(_spec(supervisor_pid=1), "test")
        os._exit(0)

    assert _code(forked(run)) == ExitCode.ORPHANED


def _raise(error: Exception | None) -> ExitCode:
    if error is not None:
        raise error
    return ExitCode.FENCED


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (None, ExitCode.FENCED),
        (psycopg.OperationalError("gone"), ExitCode.CONNECTION_LOST),
        (UsageError("no"), ExitCode.CONNECTION_LOST),
        (ZeroDivisionError("bug"), ExitCode.CRASHED),
    ],
)
def test_a_child_leaves_with_what_ended_it(
    forked: Any, error: Exception | None, code: ExitCode
) -> None:
    assert _code(forked(lambda _pipe: live("child", lambda: _raise(error)))) == code
