"""Take a snapshot: one read-only transaction, one round trip, from any machine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC
from typing import Any, LiteralString, TypeVar

from psycopg import Connection, Cursor
from psycopg.rows import class_row

from gapless.db.locked import naming_holders
from gapless.db.queries import query
from gapless.status.section import sections
from gapless.status.snapshot import (
    Change,
    Eviction,
    HeldLog,
    Pending,
    Presence,
    RecentLetter,
    Sequencing,
    Server,
    Snapshot,
    Standing,
    TopicEnd,
)
from gapless.status.strangers import ForeignLockHolder, Obstacle, Unrouted

R = TypeVar("R")


# Lists of the snapshot whose queries have the same names.
_LISTS: dict[str, type[Any]] = {
    "letters": RecentLetter,
    "changes": Change,
    "held": HeldLog,
    "unrouted": Unrouted,
    "foreign_locks": ForeignLockHolder,
    "obstacles": Obstacle,
}


def snapshot(conn: Connection[Any]) -> Snapshot:
    """Look at members, partitions, topics, sequencer and dead letters at one moment.

    Before: `conn` is in autocommit, outside a transaction. After: the same; nothing was written.
    Bound: 5 s on the server (statement_timeout), 1 s behind a lock, whose holder is named;
    psycopg.Error beyond that.
    """
    with naming_holders(conn), conn.pipeline(), conn.transaction():
        conn.execute(query("status", "one_look"))
        conn.execute(query("status", "bounds"))
        server = ask(conn, query("status", "server"), Server)
        sequencing = ask(conn, query("status", "sequencer"), Sequencing)
        members = ask(conn, query("status", "members"), Presence)
        evictions = ask(conn, query("status", "evictions"), Eviction)
        topics = ask(conn, query("status", "topics"), TopicEnd)
        conn.execute(query("status", "by_index"))
        pending = ask(conn, query("status", "pending"), Pending)
        lists = {name: ask(conn, query("status", name), record) for name, record in _LISTS.items()}
        beside = {each.record: ask(conn, query(*each.query), each.record) for each in sections()}
        chunks = conn.execute(query("status", "chunks"))
        conn.execute(query("status", "by_hash"))
        partitions = ask(conn, query("status", "partitions"), Standing)
        sequencer = one_of(sequencing)
        found = {record: tuple(rows) for record, rows in beside.items()}
        return Snapshot(
            place=_place(conn),
            server=_in_utc(one_of(server)),
            sequencer=sequencer,
            topics=tuple(topics),
            pending=() if sequencer.needs_rebase else tuple(pending),  # those of another cluster
            members=tuple(members),
            partitions=_served(partitions, found),
            beside=found,
            evictions=tuple(evictions),
            chunks=one_of(chunks)[0],
            **{name: tuple(rows) for name, rows in lists.items()},
        )


def _in_utc(server: Server) -> Server:
    """Ages are counted from its time: within one zone, Python would do so by the wall clock."""
    return replace(server, taken_ts=server.taken_ts.astimezone(UTC))


def _served(rows: Iterable[Standing], beside: Mapping[type, Sequence[Any]]) -> tuple[Standing, ...]:
    """Return partitions, with the servers of groups that features serve without a lease."""
    by: dict[str, tuple[str | None, str]] = {}
    for each in sections():
        if each.serves is not None:
            by |= each.serves(beside[each.record])
    return tuple(
        replace(row, owner=by[row.group_id][0], start=by[row.group_id][1])
        if row.group_id in by and row.owner_id is None
        else row
        for row in rows
    )


def ask(conn: Connection[Any], text: LiteralString, record: type[R]) -> Cursor[R]:
    """Send a query; its rows are fetched later, so that all of them are one round trip."""
    cursor = conn.cursor(row_factory=class_row(record))
    cursor.execute(text)
    return cursor


def one_of(cursor: Cursor[R]) -> R:
    """Return the only row."""
    row = cursor.fetchone()
    assert row is not None
    return row


def _place(conn: Connection[Any]) -> str:
    """Return the place of the database; a Unix socket's folder means nothing to people."""
    host = conn.info.host
    if not host or host.startswith(("/", "@")):
        return conn.info.dbname
    return f"{conn.info.dbname} on {host}:{conn.info.port}"
