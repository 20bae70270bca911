"""Traps at failpoints, laid and sprung while processes run.

A trap is a file, named like its point, that says what to do. The first process that passes the point
takes it away, and does it: exactly one process, exactly once.
"""

import os
import signal
import socket
import time
from pathlib import Path
from typing import Any, Literal

import psycopg
from psycopg import Connection

from gapless import failpoints

Action = Literal["kill", "terminate", "stall", "lose"]
ACTIONS: tuple[Action, ...] = ("kill", "terminate", "stall", "lose")
_sessions: dict[int, Connection[Any]] = {}  # by process: the one it opened last


def lay(folder: Path, point: str, action: Action) -> None:
    """Lay a trap for whoever comes next."""
    hidden = folder / f".{point}"
    hidden.write_text(action)
    hidden.rename(folder / point)


def sprung(folder: Path, point: str) -> int | None:
    """Return the pid of the process that fell into the trap."""
    for path in folder.glob(f"{point}@*"):
        return int(path.name.rpartition("@")[2])
    return None


def clear(folder: Path) -> None:
    """Take all traps away, and what is left of those that were sprung."""
    for path in folder.iterdir():
        path.unlink()


def arm(folder: Path, dsn: str) -> None:
    """Let this process, and those it forks, fall into the traps of a folder."""
    _remember_sessions()

    def pass_by(point: str) -> None:
        taken = folder / f"{point}@{os.getpid()}"
        try:
            (folder / point).rename(taken)
        except FileNotFoundError:
            return
        _DEEDS[taken.read_text()](dsn)

    failpoints.arm(dict.fromkeys(failpoints.POINTS, pass_by))


def _remember_sessions() -> None:
    connect = Connection.connect

    def remember(*args: Any, **kwargs: Any) -> Connection[Any]:
        made = connect(*args, **kwargs)
        _sessions[os.getpid()] = made
        return made

    Connection.connect = remember  # type: ignore[assignment]


def _kill(_: str) -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)


def _terminate(dsn: str) -> None:
    """End this process's session, and return when it is gone."""
    session = _sessions.get(os.getpid())
    if session is None:
        return
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute("select pg_terminate_backend(%s, 5000)", [session.info.backend_pid])


def _stall(_: str) -> None:
    """Stop everything that belongs to the instance, as a machine that swaps does."""
    os.killpg(os.getpgrp(), signal.SIGSTOP)
    time.sleep(0.05)  # the signal comes a moment later


def _lose(_: str) -> None:
    """Let the next statement reach the server, and its answer be lost: we hear nothing any more."""
    session = _sessions.get(os.getpid())
    if session is None or session.closed:
        return
    with socket.socket(fileno=os.dup(session.fileno())) as line:
        line.shutdown(socket.SHUT_RD)


_DEEDS = {"kill": _kill, "terminate": _terminate, "stall": _stall, "lose": _lose}
