"""As process 1 of a container: what is left to us is reaped, signals reach the child, once each."""

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from support.fleet import until

# Linux alone lets another process than 1 be given the orphans: PR_SET_CHILD_SUBREAPER.
_AS_ONE = """
import ctypes, os, signal, subprocess, sys, time
from gapless.worker.pid_one import work_in_a_child
assert ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0
def work():
    got = []
    for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(each, lambda number, _: got.append(number))
    print("works", flush=True)
    WORK
sys.exit(work_in_a_child(work))
"""
_UNTIL_TOLD = """
    while not got:
        time.sleep(0.01)
    time.sleep(0.3)  # for a second one
    print(*got, flush=True)
    return 7
"""
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="subreapers are Linux's")


def script(work: str) -> str:
    return _AS_ONE.replace("    WORK\n", work.lstrip("\n"))


@contextmanager
def process_one(work: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        [sys.executable, "-c", script(work)], stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        try:
            yield process
        finally:
            with suppress(OSError):  # it may have ended, and its children with it
                for pid in [*children_of(process.pid), process.pid]:
                    os.kill(pid, signal.SIGKILL)


def said(process: subprocess.Popen[bytes]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().decode().strip()


def children_of(pid: int) -> dict[int, str]:
    """The children of a process and their state: Z is a zombie."""
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return {
        int(each): Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()[0]
        for each in listed
    }


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_reaches_the_child_once(number: signal.Signals) -> None:
    with process_one(_UNTIL_TOLD) as one:
        assert said(one) == "works"
        one.send_signal(number)
        assert said(one) == str(int(number))
        assert one.wait(20) == 7


def test_orphans_are_reaped() -> None:
    work = """
    # A child that starts another one and ends: that one is left to process 1.
    subprocess.run(["sh", "-c", "sleep 0.1 & exit 0"], stdout=subprocess.DEVNULL)
    print("left", flush=True)
    while not got:
        time.sleep(0.01)
    return 0
"""
    with process_one(work) as one:
        assert (said(one), said(one)) == ("works", "left")
        until(lambda: len(children_of(one.pid)) == 1, "the orphan is reaped", timeout_s=10)
        one.send_signal(signal.SIGTERM)
        assert one.wait(20) == 0


@pytest.mark.parametrize(
    ("work", "code"),
    [
        ("\n    os.kill(os.getpid(), signal.SIGKILL)\n", 137),
        ("\n    raise SystemExit(2)\n", 2),
        ("\n    return 0\n", 0),
    ],
)
def test_how_the_child_ended_is_told(work: str, code: int) -> None:
    with process_one(work) as one:
        assert one.wait(20) == code


def test_the_terminal_tells_the_child_alone() -> None:
    """Ctrl-C at `docker run -it`: from the terminal it goes to a group of processes."""
    ours, theirs = pty.openpty()
    pid = os.fork()
    if pid == 0:
        os.setsid()
        slave = os.open(os.ttyname(theirs), os.O_RDWR)  # becomes the session's terminal
        for fd in (0, 1, 2):
            os.dup2(slave, fd)
        os.execv(sys.executable, [sys.executable, "-c", script(_UNTIL_TOLD)])
    os.close(theirs)
    try:
        seen = b""
        while b"works" not in seen:
            seen += os.read(ours, 1000)
        os.write(ours, b"\x03")
        while b"2\r\n" not in seen.rpartition(b"works")[2]:
            seen += os.read(ours, 1000)
        assert b"2 2" not in seen
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    finally:
        os.close(ours)
