"""The schema in a database: install or upgrade it, count its contents, drop it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import sleep
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.errors import LockNotAvailable

from gapless.db.migrate import SchemaChange, migrate
from gapless.db.queries import query
from gapless.db.uninstall import uninstall
from gapless.errors import GaplessError
from gapless.log.sequence import configure_chunks, create_chunks
from gapless.ops.rows import require_autocommit, row, rows
from gapless.ops.text import quantity

if TYPE_CHECKING:
    from psycopg import Connection

__all__ = ["Installed", "Losses", "drop_schema", "find_losses", "install_schema", "is_installed"]

_LOCK_TIMEOUT = "10s"
_CHUNK_TRIES = 10
_CHUNK_PAUSE_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """The result of install_schema(): files applied, chunks made, each of chunk_events events.

    chunks_made: how many chunks; None if a lock of another session was in the way; then the
    sequencer makes them.
    """

    changes: Sequence[SchemaChange]
    chunks_made: int | None
    chunk_events: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """The losses of drop_schema().

    events: those that ever got an offset. dead_letters: units.
    """

    topics: int
    events: int
    groups: int
    dead_letters: int
    members: int

    def __str__(self) -> str:
        are = "is" if self.members == 1 else "are"
        running = f"; {quantity(self.members, 'supervisor')} {are} running on it"
        return (
            f"{quantity(self.topics, 'topic')} with {quantity(self.events, 'event')}, "
            f"{quantity(self.groups, 'group')}, {quantity(self.dead_letters, 'dead letter')}"
            + (running if self.members else "")
        )


def install_schema(
    conn: Connection[Any],
    *,
    chunk_events: int | None = None,
    chunks_ahead: int | None = None,
    tell: Callable[[int, int], None] = lambda *_: None,
) -> Installed:
    """Bring the database up to this program, and make the first chunks; repeat freely.

    Before: `conn` is in autocommit, of a role that owns the schema or, before there is one, the
    database. chunk_events: events of a chunk; chunks_ahead: spare chunks; None: unchanged.
    tell: is called with the number of files applied so far, and of all.
    Raises SchemaError for a database of a newer gapless, or one that cannot store every text.
    """
    require_autocommit(conn, "install_schema()")
    changes = migrate(conn, tell=tell)
    has_events, has_ahead = row(conn, query("cli", "chunk_config"))
    chunk_events = has_events if chunk_events is None else chunk_events
    chunks_ahead = has_ahead if chunks_ahead is None else chunks_ahead
    configure_chunks(conn, chunk_events=chunk_events, chunks_ahead=chunks_ahead)
    return Installed(changes=changes, chunks_made=_make_chunks(conn), chunk_events=chunk_events)


def is_installed(conn: Connection[Any]) -> bool:
    """Tell whether there is a schema of gapless, even an empty one."""
    return bool(row(conn, query("cli", "is_installed"))[0])


def find_losses(conn: Connection[Any]) -> Losses | None:
    """Return the losses of drop_schema(); None: the schema is of another version, or incomplete."""
    try:
        return rows(conn, Losses, query("cli", "losses"))[0]
    except psycopg.Error:
        return None


def drop_schema(conn: Connection[Any]) -> list[str]:
    """Drop the schema with everything in it, for good, and the roles; return roles that stay.

    A role stays if others are members of it, if another object depends on it, or if the caller
    may not drop it. Before: `conn` is in autocommit, of the role that owns the schema. Raises
    GaplessError if the tables have been in use for 10 seconds; then nothing was removed.
    """
    try:
        with conn.transaction():
            row(conn, query("connect", "local_lock_timeout"), timeout=_LOCK_TIMEOUT)
            return uninstall(conn)
    except LockNotAvailable as error:
        raise GaplessError(
            f"another session has been using the tables for {_LOCK_TIMEOUT}: nothing was removed; "
            "stop supervisors and publishers first"
        ) from error


def _make_chunks(conn: Connection[Any]) -> int | None:
    for _ in range(_CHUNK_TRIES):
        try:
            return create_chunks(conn)
        except LockNotAvailable:
            sleep(_CHUNK_PAUSE_S)
    return None
