"""What a supervisor tells systemd: ready when it is a member, alive while its loop turns, stopping."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from signal import SIGCONT, SIGSTOP, SIGTERM
from uuid import uuid4

import pytest

from gapless.worker.systemd import ServiceManager
from support.fleet import Fleet, until

WATCHDOG_S = 1.0


class Manager:
    """The socket of a service manager, and what was said to it."""

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0" + address[1:] if address.startswith("@") else address)
        self.socket.setblocking(False)
        self.said: list[str] = []

    def hear(self) -> list[str]:
        """Return all that was said so far, a line each."""
        try:
            while True:
                self.said += self.socket.recv(4096).decode().splitlines()
        except BlockingIOError:
            return self.said

    def forget(self) -> None:
        self.hear()
        self.said.clear()


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Manager]:
    address = str(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    monkeypatch.setenv("WATCHDOG_USEC", str(int(WATCHDOG_S * 1e6)))
    made = Manager(address)
    yield made
    made.socket.close()


@pytest.mark.long
def test_ready_alive_stopping(fleet: Fleet, manager: Manager) -> None:
    a = fleet.start("a")
    until(lambda: "READY=1" in manager.hear(), "it is ready", within=a.log)
    assert a.logged("supervisor: joined")
    manager.forget()
    until(lambda: manager.hear().count("WATCHDOG=1") >= 2, "its loop turns", within=a.log)
    a.signal(SIGTERM)
    until(lambda: "STOPPING=1" in manager.hear(), "it stops", within=a.log)
    assert a.ended() == 0
    assert manager.hear().count("READY=1") <= 1


@pytest.mark.long
def test_a_supervisor_that_hangs_is_not_alive(fleet: Fleet, manager: Manager) -> None:
    a = fleet.start("a")
    until(lambda: "WATCHDOG=1" in manager.hear(), "its loop turns", within=a.log)
    a.signal(SIGSTOP)
    manager.forget()
    with pytest.raises(pytest.fail.Exception):
        until(manager.hear, "a sign of life", timeout_s=1.5 * WATCHDOG_S)
    a.signal(SIGCONT)
    until(lambda: "WATCHDOG=1" in manager.hear(), "its loop turns again", within=a.log)


@pytest.mark.long
def test_it_is_not_ready_before_its_database(fleet: Fleet, manager: Manager) -> None:
    """Nor given up by systemd while it waits."""
    fleet.close_door()
    a = fleet.start("a")
    until(lambda: any("EXTEND_TIMEOUT_USEC" in line for line in manager.hear()), "it waits")
    until(lambda: a.logged("is not currently accepting connections"), "it has tried")
    assert "READY=1" not in manager.hear()
    fleet.open_door()
    until(lambda: "READY=1" in manager.hear(), "it is ready", within=a.log)


@pytest.mark.long
def test_a_supervisor_that_lost_its_database_is_alive(fleet: Fleet, manager: Manager) -> None:
    """To start it again would not bring the database back."""
    a = fleet.start("a")
    until(lambda: "READY=1" in manager.hear(), "it is ready", within=a.log)
    fleet.close_door()
    fleet.terminate("gapless/%")
    until(
        lambda: any("not connected" in line for line in manager.hear()),
        "it is no member",
        within=a.log,
    )
    manager.forget()
    until(lambda: manager.hear().count("WATCHDOG=1") >= 2, "its loop turns", within=a.log)
    fleet.open_door()
    until(lambda: "READY=1" in manager.hear(), "it is a member again", within=a.log)


@pytest.mark.long
def test_nobody_listens(fleet: Fleet, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    a = fleet.start("a")
    fleet.until_owners(a=4)
    assert a.logged("systemd cannot be told anything")


def test_a_manager_that_does_not_read(manager: Manager) -> None:
    """Its socket is full: the supervisor's loop does not wait for it."""
    told = ServiceManager()
    for number in range(5000):
        told.turn(uuid4() if number % 2 else None, drains=False)
    told.close()


@pytest.mark.skipif(os.uname().sysname != "Linux", reason="abstract sockets are Linux's")
def test_an_abstract_socket() -> None:
    address = f"@gapless-{uuid4().hex}"
    manager = Manager(address)
    told = ServiceManager({"NOTIFY_SOCKET": address})
    told.turn(uuid4(), drains=False)
    told.close()
    assert manager.hear()[0] == "READY=1"
    assert "WATCHDOG=1" not in manager.hear(), "nobody asked for it"
    manager.socket.close()


@pytest.mark.parametrize(
    ("pid", "is_ours"),
    [("", True), ("ours", True), ("1", False)],  # not the pid: xdist compares names
)
def test_the_watchdog_is_for_one_process(manager: Manager, pid: str, is_ours: bool) -> None:
    environment = dict(os.environ) | {"WATCHDOG_PID": pid.replace("ours", str(os.getpid()))}
    told = ServiceManager(environment)
    told.turn(uuid4(), drains=False)
    told.close()
    assert ("WATCHDOG=1" in manager.hear()) is is_ours
    assert not {"NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC"} & set(environment)
