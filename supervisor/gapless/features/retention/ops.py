"""Retention: chunks of the log that may be dropped, and why the rest stays; drop them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from gapless import feature
from gapless.features.retention.chunks import (
    Chunk,
    HistoryRetention,
    Retention,
    apply_retention,
    plan_retention,
)
from gapless.log.catch_up import catch_up
from gapless.ops.place import read_age
from gapless.ops.rows import require_autocommit
from gapless.ops.text import ONLY_JSON, size_text

if TYPE_CHECKING:
    from psycopg import Connection

__all__ = ["drop_chunks", "list_chunks"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkRow:
    """A chunk for people. newest: when its newest event got its offset; size: bytes, in words."""

    chunk: str
    events: int | None
    size: str
    bytes: int = field(metadata=ONLY_JSON)
    newest: datetime | None
    goes: bool
    why_it_stays: str


def list_chunks(conn: Connection[Any]) -> list[Chunk]:
    """Return the chunks of the log, oldest first, and whether each may go.

    Before: `conn` is in autocommit. Gives offsets to pending events where no sequencer
    runs: otherwise no session would find out which chunks are complete.
    """
    require_autocommit(conn, "list_chunks()")
    catch_up(conn)
    return plan_retention(conn)


def drop_chunks(
    conn: Connection[Any],
    *,
    dead_letter_retention_s: int,
    audit_retention_s: int,
    tell: Callable[[int], None] = lambda _: None,
) -> list[str]:
    """Drop the chunks that list_chunks() lets go, permanently; return their names.

    Before: `conn` is in autocommit. The seconds: for how long closed dead letters, and the audit,
    are kept. tell: is called with the number of chunks so far whose events are dropped. Chunks that
    another session has locked are left for the next time.
    """
    require_autocommit(conn, "drop_chunks()")
    for step in feature.given(lambda each: each.step):
        while step(conn):  # where no supervisor does, retention would wait for it
            pass
    keep = HistoryRetention(letters_s=dead_letter_retention_s, audit_s=audit_retention_s)
    return apply_retention(conn, keep, tell=tell)


def read_keep(text: str) -> int | None:
    """Read how long a topic keeps events: an age as 7d, or forever (None). Raises UsageError."""
    return read_age(None if text == "forever" else text, "--retention", also=", or forever")


def read_retention(
    before: Retention, keep: str | None, archive: str | None, overrun: str | None
) -> Retention:
    """Return a topic's retention with an operator's changes; None: that part stays as it was.

    keep: as in read_keep(), archive: the name of a pipeline, overrun: groups separated by commas;
    both may be `none`. Raises UsageError.
    """
    said: dict[str, Any] = {}
    if keep is not None:
        said["keep_s"] = read_keep(keep)
    if archive is not None:
        said["archive"] = None if archive == "none" else archive
    if overrun is not None:
        names = [name.strip() for name in overrun.split(",")]
        said["overrun"] = () if overrun == "none" else tuple(filter(None, names))
    return replace(before, **said)


def chunk_row(chunk: Chunk) -> ChunkRow:
    """Describe a chunk's size, and why it stays, for people."""
    why = "; ".join(chunk.reasons)
    return ChunkRow(
        chunk=chunk.chunk,
        events=chunk.events,
        size=size_text(chunk.bytes),
        bytes=chunk.bytes,
        newest=chunk.newest,
        goes=chunk.goes,
        why_it_stays=why if why or chunk.goes else "an older chunk stays",
    )
