"""Topics: find, create, check and change the number of partitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from psycopg import Connection
from psycopg.rows import class_row

from gapless.db.queries import query
from gapless.db.refused import refused
from gapless.errors import RefusedError
from gapless.settings.stranger import closest, hint

__all__ = ["Topic", "adopt_topic", "create_topic", "discard_unrouted", "find_topic"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic: `partitions` is their number; they are numbered from 0."""

    topic_id: int
    name: str
    partitions: int


def find_topic(conn: Connection, name: str) -> Topic | None:
    """Return the topic of that name, or None."""
    with conn.cursor(row_factory=class_row(Topic)) as cursor:
        return cursor.execute(query("log", "topic"), {"name": name}).fetchone()


def require_topic(conn: Connection, name: str) -> Topic:
    """Return the topic of that name. Raises RefusedError (GL404) when there is none."""
    topic = find_topic(conn, name)
    if topic is None:
        raise RefusedError(missing(conn, name), sqlstate="GL404")
    return topic


def missing(conn: Connection, name: str) -> str:
    """Return a sentence for an unknown topic: the one that was probably meant, and the remedy."""
    row = conn.execute(query("log", "topic_names")).fetchone()
    meant = hint(closest(name, row[0] if row else ())) or ":"
    return f'topic "{name}" does not exist{meant} create it with gapless topics create {name}'


def ensure_topic(
    conn: Connection,
    name: str,
    *,
    partitions: int,
    keep_s: float | None = None,
    dedupe_window_s: float | None = None,
) -> Topic:
    """Return the topic; create it with that many partitions if it is new.

    keep_s: the minimum time that a new topic keeps its events; None is forever.
    dedupe_window_s: the time that a new topic remembers dedupe keys; None is the default, 7 days.

    Raises UsageError when it exists with another number, or the name is not a topic name.
    """
    return create_topic(
        conn, name, partitions=partitions, keep_s=keep_s, dedupe_window_s=dedupe_window_s
    )[0]


def create_topic(
    conn: Connection,
    name: str,
    *,
    partitions: int,
    keep_s: float | None = None,
    dedupe_window_s: float | None = None,
) -> tuple[Topic, bool]:
    """Do as ensure_topic(); return also whether this call has created the topic.

    Raises the errors of ensure_topic().
    """
    params = {
        "name": name,
        "partitions": partitions,
        "keep_s": keep_s,
        "window_s": dedupe_window_s,
    }
    with conn.transaction():
        _create(conn, params)
        topic = require_topic(conn, name)
        # Several sessions may have found none; one of them has created it.
        made = conn.execute(query("log", "topic_is_ours"), {"topic_id": topic.topic_id}).fetchone()
    return topic, made == (True,)


def adopt_topic(
    conn: Connection, topic_id: int, name: str, *, partitions: int, keep_s: float | None = None
) -> tuple[Topic, int]:
    """Create a topic for an id that producers used without one; return also its number of events.

    The events get their offsets in the sequencer's next run. keep_s: as in ensure_topic().
    Raises RefusedError when the id has no events (GL404) or the name is taken (GL409), UsageError
    when it is not a topic name.
    """
    params = {"topic_id": topic_id, "name": name, "partitions": partitions, "keep_s": keep_s}
    with refused():
        row = conn.execute(query("log", "adopt_topic"), params).fetchone()
    assert row is not None
    return require_topic(conn, name), row[0]


def count_unrouted(conn: Connection) -> int:
    """Return the number of events of topic ids without a topic; they have no offset."""
    row = conn.execute(query("log", "count_unrouted")).fetchone()
    assert row is not None
    return int(row[0])


def discard_unrouted(conn: Connection, topic_id: int | None = None) -> int:
    """Give up the events of an id without a topic, None: of all such ids; return their number.

    They are deleted: no group has ever seen them.
    """
    row = conn.execute(query("log", "discard_unrouted"), {"topic_id": topic_id}).fetchone()
    assert row is not None
    return row[0] or 0


def _create(conn: Connection, params: Mapping[str, Any]) -> None:
    try:
        with refused():
            conn.execute(query("log", "create_topic"), params)
    except RefusedError as error:
        if error.sqlstate != "GL409":
            raise
        text = f"{error}, or leave totalPartitions (--partitions) out"
        raise RefusedError(text, sqlstate=error.sqlstate) from error


def set_partitions(conn: Connection, name: str, partitions: int) -> Topic:
    """Change a topic's number of partitions while all workers run; return the changed topic.

    Before: `conn` is in autocommit. Waits for a run of the sequencer, and for no worker.
    Raises RefusedError for an unknown topic, or a number outside 1 to 4096.
    """
    with refused():
        conn.execute(query("log", "set_partitions"), {"name": name, "partitions": partitions})
    return require_topic(conn, name)


def set_dedupe_window(conn: Connection, name: str, window_s: float) -> None:
    """Set the time that a topic remembers dedupe keys, including those that it already has.

    Raises RefusedError for an unknown topic, or a window that is not positive.
    """
    with refused():
        conn.execute(query("log", "set_dedupe_window"), {"name": name, "window_s": window_s})
