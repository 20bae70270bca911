"""Sessions in a forked child: gone there, and nothing of it reaches the server (I7).

Both processes would speak on one socket. The child's end of it is made to lead nowhere before the
session is closed, or its farewell would end the parent's.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from typing import Any
from weakref import WeakSet

import psycopg
from psycopg import Connection

_own: WeakSet[Connection[Any]] = WeakSet()
_inherited: WeakSet[Connection[Any]] = WeakSet()


def keep_from_children(conn: Connection[Any]) -> None:
    """Close a session in every process that is forked from here on."""
    _own.add(conn)


def is_inherited(conn: Connection[Any]) -> bool:
    """Tell whether it is the session of the process from which this one was forked."""
    return conn in _inherited


def _close_all() -> None:
    for conn in tuple(_own):
        _inherited.add(conn)
        with suppress(psycopg.Error, OSError):
            ours, theirs = socket.socketpair()
            with ours, theirs:
                os.dup2(ours.fileno(), conn.pgconn.socket, inheritable=False)
            conn.pgconn.finish()
    _own.clear()


os.register_at_fork(after_in_child=_close_all)
