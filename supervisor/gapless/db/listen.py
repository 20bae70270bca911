"""LISTEN and a poll timeout as one wait: a notification only makes it shorter."""

from __future__ import annotations

import select
from typing import Any

from psycopg import Connection
from psycopg.sql import SQL, Identifier

CHANNEL_BYTES_MAX = 63  # LISTEN silently cuts a longer name, NOTIFY refuses it


def listen(conn: Connection[Any], channel: str) -> None:
    """Subscribe this session to a channel."""
    if len(channel.encode()) > CHANNEL_BYTES_MAX:
        raise ValueError(f"channel name {channel!r} is longer than {CHANNEL_BYTES_MAX} bytes")
    conn.execute(SQL("listen {}").format(Identifier(channel)))


def unlisten(conn: Connection[Any], channel: str) -> None:
    """Cancel a subscription of this session."""
    conn.execute(SQL("unlisten {}").format(Identifier(channel)))


def channels_heard(conn: Connection[Any]) -> set[str]:
    """Return the channels of the notifications that are here already, without waiting."""
    return {notify.channel for notify in conn.notifies(timeout=0)}


def heard(conn: Connection[Any]) -> list[str]:
    """Return the payloads of the notifications that are here already, without waiting.

    Those that arrived while statements ran count too, so look here before going to sleep.
    """
    return [notify.payload for notify in conn.notifies(timeout=0)]


def wait(conn: Connection[Any], timeout_s: float, *others: int) -> bool:
    """Sleep until something may have happened on `conn` or the descriptors `others`; tell whether.

    Returns at once when a notification is here already; it is taken off the queue.
    """
    return bool(heard(conn)) or readable(timeout_s, conn.fileno(), *others)


def readable(timeout_s: float | None, *descriptors: int) -> bool:
    """Wait until one of the descriptors can be read, timeout_s at most; tell whether one can.

    Not select(): it refuses descriptors above 1023, which a supervisor of many workers has.
    """
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(None if timeout_s is None else timeout_s * 1000))


def writable(descriptor: int) -> None:
    """Wait until a descriptor can be written to."""
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    poll.poll()
