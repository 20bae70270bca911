"""Sessions in a forked child: closed there, without a word to the server (I7).

Otherwise both processes would use one socket. The child's descriptor is redirected before the
session is closed, or its goodbye would end the parent's. A fork outside Python (in C) calls no
hook: there the session stays as it was, and only the process id tells.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from typing import Any
from weakref import WeakSet

import psycopg
from psycopg import Connection

_open: WeakSet[Connection[Any]] = WeakSet()


def keep_from_children(conn: Connection[Any]) -> None:
    """Close a session in every process that is forked from now on."""
    _open.add(conn)


def _close_all() -> None:
    for conn in tuple(_open):
        with suppress(psycopg.Error, OSError):
            ours, theirs = socket.socketpair()
            with ours, theirs:
                os.dup2(ours.fileno(), conn.pgconn.socket, inheritable=False)
            conn.pgconn.finish()


os.register_at_fork(after_in_child=_close_all)
