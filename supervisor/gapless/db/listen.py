"""LISTEN and a poll timeout as one wait: a notification only shortens it."""

from __future__ import annotations

import select
from typing import Any

from psycopg import Connection, Notify
from psycopg.pq.abc import PGconn
from psycopg.sql import SQL, Identifier

from gapless.db.schema import channel_in, default_channel, schema
from gapless.settings.schema import DEFAULT_SCHEMA

CHANNEL_BYTES_MAX = 63  # LISTEN silently truncates a longer name, NOTIFY refuses it


def listen(conn: Connection[Any], channel: str) -> None:
    """Subscribe this session to a channel, named `gapless_…` here in any schema."""
    channel = channel_in(channel, schema())
    if len(channel.encode()) > CHANNEL_BYTES_MAX:
        raise ValueError(f"channel name {channel!r} is longer than {CHANNEL_BYTES_MAX} bytes")
    conn.execute(SQL("listen {}").format(Identifier(channel)))


def unlisten(conn: Connection[Any], channel: str) -> None:
    """Cancel a subscription of this session."""
    conn.execute(SQL("unlisten {}").format(Identifier(channel_in(channel, schema()))))


class Notifications:
    """Collects the notifications of a session, whatever it was doing when they arrived.

    For a loop that asks before each turn: Connection.notifies() takes ten times as long.
    has_words: whether any notification of the last channels() had a payload.
    """

    has_words = False

    def __init__(self, conn: Connection[Any]) -> None:
        self._pgconn = conn.pgconn
        self._heard: list[tuple[str, str]] = []
        self._own = schema()
        conn.add_notify_handler(self._hear)

    def _hear(self, notify: Notify) -> None:
        is_default = self._own == DEFAULT_SCHEMA  # channels() gives the names that listen() takes
        channel = notify.channel if is_default else default_channel(notify.channel, self._own)
        self._heard.append((channel, notify.payload))

    def channels(self) -> set[str]:
        """Return the channels notified since the last call, without waiting.

        Raises OperationalError when the connection is lost.
        """
        heard = self.take()
        self.has_words = any(payload for _, payload in heard)
        return {channel for channel, _ in heard}

    def take(self) -> list[tuple[str, str]]:
        """Return channel and payload of each notification since the last call; as channels()."""
        self._pgconn.consume_input()
        hand_over_notifies(self._pgconn)
        heard, self._heard = self._heard, []
        return heard


def hand_over_notifies(pgconn: PGconn) -> None:
    """Give psycopg the notifications that libpq has: it sees only those that it read itself.

    psycopg has not seen those that db.wire read from the socket.
    """
    while notify := pgconn.notifies():
        if pgconn.notify_handler is not None:
            pgconn.notify_handler(notify)


def heard(conn: Connection[Any]) -> list[str]:
    """Return the payloads of the notifications that have already arrived, without waiting.

    Those that arrived while statements ran count too, so call this before going to sleep.
    """
    hand_over_notifies(conn.pgconn)
    return [notify.payload for notify in conn.notifies(timeout=0)]


def wait(conn: Connection[Any], timeout_s: float, *others: int) -> bool:
    """Sleep until `conn` or one of the descriptors `others` has news; tell whether one does.

    Returns at once if a notification has already arrived; it is taken off the queue.
    """
    return bool(heard(conn)) or readable(timeout_s, conn.fileno(), *others)


def readable(timeout_s: float | None, *descriptors: int) -> bool:
    """Wait at most timeout_s until one of the descriptors can be read; tell whether one can.

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
