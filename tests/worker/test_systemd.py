"""What a supervisor tells systemd: ready when it is a member, alive while its loop turns, stopping."""

import socket
from collections.abc import Iterator
from pathlib import Path
from signal import SIGTERM

import pytest

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
    """Not ready before its database, nor given up by systemd while it waits for that."""
    fleet.close_door()
    a = fleet.start("a")
    until(lambda: any("EXTEND_TIMEOUT_USEC" in line for line in manager.hear()), "it waits")
    until(lambda: a.logged("is not currently accepting connections"), "it has tried")
    assert "READY=1" not in manager.hear()
    fleet.open_door()
    until(lambda: "READY=1" in manager.hear(), "it is ready", within=a.log)
    assert a.logged("supervisor: joined")
    manager.forget()
    until(lambda: manager.hear().count("WATCHDOG=1") >= 2, "its loop turns", within=a.log)
    a.signal(SIGTERM)
    until(lambda: "STOPPING=1" in manager.hear(), "it stops", within=a.log)
    assert a.ended() == 0
    assert manager.hear().count("READY=1") <= 1


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
