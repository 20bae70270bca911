"""The words for systemd, those of a supervisor that is cut off, and threads beside its loop."""

from collections.abc import Iterator
from pathlib import Path
from socket import AF_UNIX, SOCK_DGRAM, socket
from threading import current_thread
from time import sleep
from typing import Any
from uuid import UUID

import psycopg
import pytest

from gapless.errors import UsageError
from gapless.worker import cut_off, systemd
from gapless.worker.cut_off import CutOff
from gapless.worker.side_thread import SideThread
from gapless.worker.systemd import ServiceManager
from support.servers import until

# -- systemd --------------------------------------------------------------------------------------


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[socket]:
    """Listen as systemd does."""
    with socket(AF_UNIX, SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(0)
        yield listener


def _heard(listener: socket) -> list[str]:
    heard = []
    while True:
        try:
            heard.append(listener.recv(4096).decode().partition("\n")[0])
        except BlockingIOError:
            return heard


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now_s = [1000.0]
    monkeypatch.setattr(systemd, "monotonic", lambda: now_s[0])
    return now_s


@pytest.mark.parametrize(
    ("usec", "pid", "beats"), [("4000000", "", 1), ("4000000", "1", 0), ("", "", 0), ("x", "", 0)]
)
def test_the_watchdog_is_told_by_whom_it_watches(
    listener: socket, now: list[float], usec: str, pid: str, beats: int
) -> None:
    manager = ServiceManager(
        {"NOTIFY_SOCKET": listener.getsockname(), "WATCHDOG_PID": pid, "WATCHDOG_USEC": usec}
    )
    manager.turn(UUID(int=1), drains=False)
    assert _heard(listener).count("WATCHDOG=1") == beats
    manager.close()


def test_without_systemd_nothing_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    manager = ServiceManager({})
    manager.turn(UUID(int=1), drains=True)
    assert (manager.filenos(), caplog.messages) == ([], [])
    ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "nobody")}).turn(None, drains=True)
    assert len(caplog.messages) == 1


def test_a_service_manager_that_is_gone_or_reads_late_keeps_nobody(listener: socket) -> None:
    manager = ServiceManager({"NOTIFY_SOCKET": listener.getsockname()})
    for at in range(2000):
        manager.turn(UUID(int=1) if at % 2 else None, drains=at % 3 == 0)
    listener.close()
    manager.turn(None, drains=True)
    manager.close()


def test_an_address_may_be_abstract() -> None:
    with socket(AF_UNIX, SOCK_DGRAM) as listener:
        listener.bind("")  # the kernel chooses one
        listener.settimeout(0)
        manager = ServiceManager({"NOTIFY_SOCKET": "@" + listener.getsockname()[1:].decode()})
        manager.turn(None, drains=True)
        assert _heard(listener) == ["STOPPING=1"]
        manager.close()


def _fail(retries: Any) -> float:
    """Count a failure; wait as long for each."""
    retries.failures += 1
    return 0.25


# -- cut off --------------------------------------------------------------------------------------

GONE = psycopg.OperationalError("gone")


def test_cut_off_it_says_so_now_and_then(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(cut_off.Retries, "failed", _fail)
    cut = CutOff()
    lines = []
    for _ in range(21):
        assert cut.failed(GONE) == 0.25
        lines.append(len(caplog.messages))
    assert (lines[0], lines[19], lines[20]) == (1, 1, 2)
    cut.ended()
    assert len(caplog.messages) == 2
    cut.failed(GONE)
    assert len(caplog.messages) == 3, "from anew"


# -- a thread beside ------------------------------------------------------------------------------


class Beside(SideThread):
    """Looks, and fails as a test wants; ends after the last."""

    def __init__(self, errors: list[Exception | None], then_s: float = 0.0) -> None:
        super().__init__("beside", "beside", first_s=0.0, then_s=then_s, retry_s=0.0)
        self.errors, self.looks, self.names = errors, 0, set[str]()

    def look(self) -> None:
        self.looks += 1
        self.names.add(current_thread().name)
        assert current_thread().daemon
        error = self.errors.pop(0)
        if not self.errors:
            self.ended.set()
        if error is not None:
            raise error


def test_trouble_is_told_when_it_is_new(caplog: pytest.LogCaptureFixture) -> None:
    errors = [GONE, GONE, UsageError("a\n b"), None, UsageError("a\n b"), None]
    beside = Beside([*errors])
    with beside:
        assert until(beside.ended.is_set)
    assert until(lambda: len(caplog.messages) >= 3)
    assert [each.partition("again: ")[2] for each in caplog.messages] == ["gone", "a b", "a b"]
    assert (beside.looks, beside.names) == (6, {"beside"})


def test_after_it_nothing_is_looked_at() -> None:
    beside = Beside([None] * 99, then_s=3600)
    with beside:
        assert until(lambda: beside.looks == 1)
        assert not beside.ended.is_set()
    assert beside.ended.is_set()
    sleep(0)
    assert beside.looks == 1
