"""Messages to systemd about a supervisor (`Type=notify`): it is ready, alive, or stopping.

Protocol: sd_notify(3), one datagram per message to the socket that NOTIFY_SOCKET names. If the
variable is not set, as everywhere but below systemd, no message is sent.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import MutableMapping
from time import monotonic
from uuid import UUID

log = logging.getLogger("gapless.supervisor")

_STARTING_S = 60  # an attempt to reach the database may take this much longer than configured


class ServiceManager:
    """Called at each turn of the supervisor's loop; sends only news, and that the loop turns.

    Takes the variables out of `environment`, so that processes of handlers do not speak for us.
    """

    def __init__(self, environment: MutableMapping[str, str] = os.environ) -> None:
        address = environment.pop("NOTIFY_SOCKET", "")
        pid = environment.pop("WATCHDOG_PID", "")
        interval = environment.pop("WATCHDOG_USEC", "")
        is_watched = interval.isdecimal() and pid in ("", str(os.getpid()))
        self._every_s = int(interval) / 2e6 if is_watched else None  # twice within the limit
        self._socket = _connect(address) if address else None
        self._told = ""
        self._beat_s = 0.0

    def turn(self, member_id: UUID | None, *, drains: bool) -> None:
        """Report that the loop turned. member_id: None if it is no member; drains: it will end."""
        if self._socket is None:
            return
        if drains:
            self._say_once("STOPPING=1\nSTATUS=draining")
        elif member_id is not None:
            self._say_once("READY=1\nSTATUS=a member of its groups")
        elif not self._told:
            self._starting()
            return
        else:
            self._say_once("STATUS=not a member of its groups, or not connected")
        if self._every_s is not None and monotonic() - self._beat_s >= self._every_s:
            self._beat_s = monotonic()
            self._say("WATCHDOG=1")

    def filenos(self) -> list[int]:
        """Return the descriptors that a forked child must close."""
        return [] if self._socket is None else [self._socket.fileno()]

    def close(self) -> None:
        """Send no more messages."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _starting(self) -> None:
        """Report that it waits for its database, as it may do forever (startTimeoutS)."""
        self._say(f"EXTEND_TIMEOUT_USEC={_STARTING_S * 1_000_000}\nSTATUS=waiting for its database")

    def _say_once(self, text: str) -> None:
        if text != self._told:
            self._told = text
            self._say(text)

    def _say(self, text: str) -> None:
        assert self._socket is not None
        try:
            self._socket.send(text.encode())
        except OSError as error:  # systemd reads late, or is gone: nothing else depends on it
            log.debug("systemd was not told %r: %s", text, error)


def _connect(address: str) -> socket.socket | None:
    """Open the socket of the service manager; "@" begins the name of an abstract one."""
    found = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    found.settimeout(0)
    try:
        found.connect("\0" + address[1:] if address.startswith("@") else address)
    except OSError as error:
        log.warning("supervisor: systemd cannot be told anything: %s: %s", address, error)
        found.close()
        return None
    return found
