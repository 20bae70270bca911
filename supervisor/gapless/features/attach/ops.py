"""Existing outbox tables, for an operator: attach, mend, detach and list them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from psycopg.errors import DeadlockDetected, LockNotAvailable
from psycopg.types.json import Jsonb

from gapless.db.queries import query
from gapless.errors import GaplessError, RefusedError
from gapless.log.sequence import create_chunks, sequence
from gapless.ops.rows import require_autocommit, row, rows
from gapless.ops.text import quantity

if TYPE_CHECKING:
    from psycopg import Connection

__all__ = [
    "AttachPlan",
    "AttachRequest",
    "Attached",
    "AttachmentInfo",
    "attach_table",
    "detach_table",
    "list_attachments",
    "mend_attachment",
    "plan_attachment",
]  # fmt: skip

LOCK_MS_MAX = 1_000
"""The time to wait for a lock of a table, while its writers wait behind this session."""
LOOK_AGAIN_S = 0.05
_BATCH_ROWS = 1_000


class InUseError(GaplessError):
    """Another session holds a lock that is needed for a moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachPlan:
    """The effects that attaching a table would have.

    columns: of an event, and the column of the table for each. places: where old consumers record
    their progress; None: nowhere. rows: rows in the table. first_id: the lowest id of all rows.
    last_id: the highest id of all rows. missing_ids: ids between these two that no rows have; they
    are taken for rolled back.
    """

    table: str
    topic: str
    id: str
    columns: Mapping[str, str]
    places: Mapping[str, str] | None
    partitions: int
    rows: int
    first_id: int | None
    last_id: int | None
    missing_ids: int

    def __str__(self) -> str:
        columns = ", ".join(f"{name}={column}" for name, column in self.columns.items())
        return (
            f"copy {quantity(self.rows, 'row')} of {self.table} into {self.topic}, ids "
            f"{self.first_id} to {self.last_id} by {self.id}, {self.missing_ids} missing; "
            f"columns: {columns or 'the whole row'}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Attached:
    """The result of attaching a table.

    copied: rows that were there. late: copied rows that were out of order.
    """

    table: str
    topic: str
    copied: int
    late: int

    def __str__(self) -> str:
        late = f", {self.late} of them late" if self.late else ""
        text = f"{quantity(self.copied, 'row')} of {self.table} copied into {self.topic}{late}"
        return f"{text}; new rows are copied as they are inserted"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachmentInfo:
    """The state of an attached table.

    copied_to: the highest id of the rows that were copied in order. live_ts: the time since which
    new rows are copied as they are inserted; None: not yet. groups: each with `ready` (its old
    consumer handles the events) or `switched` (the group handles them). problem: the reason why
    rows are not published, or a note that some were changed since; None: no problem. remedy: the
    command that helps.
    """

    table: str
    topic: str | None
    id: str
    columns: Mapping[str, str | None] = field(metadata={"only_json": True})
    places: Mapping[str, str | None] | None = field(metadata={"only_json": True})
    copied_to: int = field(metadata={"only_json": True})
    live_ts: datetime | None
    groups: Sequence[str]
    attached_by: str = field(metadata={"only_json": True})
    created_ts: datetime = field(metadata={"only_json": True})
    problem: str | None
    remedy: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachRequest:
    """The settings for attaching a table.

    id: the column that orders its rows; None: the primary key. map: column of an event to column of
    the table, None for no column; other columns are mapped by their names. places: {"table": …},
    and the columns "group", "next" or "last", "partition" where they have other names than
    group_id, next_offset, partition_id. despite_changes: also accept a table whose rows were or
    will be updated or deleted; such changes are then no problem of the attachment.
    """

    table: str
    topic: str
    id: str | None = None
    map: Mapping[str, str | None] = field(default_factory=dict)
    places: Mapping[str, str] | None = None
    despite_changes: bool = False


def plan_attachment(conn: Connection[Any], wish: AttachRequest) -> AttachPlan:
    """Return the effects that attach_table() would have; change nothing.

    Raises RefusedError for a table that cannot be attached.
    """
    (plan,) = rows(conn, AttachPlan, query("attach", "plan"), **_params(wish))
    return plan


def attach_table(
    conn: Connection[Any],
    wish: AttachRequest,
    *,
    batch_rows: int = _BATCH_ROWS,
    patience_s: float = 60,
    tell: Callable[[int], None] = lambda _: None,
) -> Attached:
    """Copy the rows of a table into a topic in the order of their ids, and then each new row.

    Before: `conn` is in autocommit. Commits at most batch_rows rows at a time; a kill loses
    nothing, and a repeated call continues from there. An attached table accepts another map while a
    mapped column is gone. The last rows and the trigger are one transaction, in which writers wait;
    it waits for them 1 s at a time. tell: is called with the number of rows copied so far. Raises
    RefusedError for a table that cannot be attached, GaplessError when a transaction that writes to
    the table has not ended after patience_s seconds.
    """
    require_autocommit(conn, "attach_table()")
    (number,) = row(conn, query("attach", "attach"), **_params(wish))
    copied = 0
    give_up_s = monotonic() + patience_s
    while True:
        bound, writers = row(conn, query("attach", "bound"), number=number)
        if bound is not None:
            _await(conn, wish.table, writers, patience_s)
            for more in _batches(conn, number, bound, batch_rows):
                copied += more
                tell(copied)
                give_up_s = monotonic() + patience_s
        if _is_live(conn, number, batch_rows):
            break
        if monotonic() > give_up_s:
            raise GaplessError(
                f"{wish.table} was never without a writer for {patience_s:g} s, so new rows are "
                "not copied yet; copied rows stay: run it again when transactions are shorter"
            )
    (late,) = row(conn, query("attach", "copy_missed"), number=number)
    sequence(conn)
    return Attached(table=wish.table, topic=wish.topic, copied=copied + late, late=late)


def mend_attachment(conn: Connection[Any], table: str, *, patience_s: float = 60) -> int:
    """Create the trigger of an attached table if it is missing; copy and count the missed rows.

    Before: `conn` is in autocommit. Raises RefusedError for a table that is not attached,
    GaplessError when its writers left no room for the trigger for patience_s seconds.
    """
    require_autocommit(conn, "mend_attachment()")
    number = attachment_number(conn, table)
    give_up_s = monotonic() + patience_s
    while not _is_live(conn, number, _BATCH_ROWS):
        if monotonic() > give_up_s:
            raise InUseError(
                f"another session has been using {table} for {patience_s:g} s: try again"
            )
        sleep(LOOK_AGAIN_S)
    (late,) = row(conn, query("attach", "copy_missed"), number=number)
    sequence(conn)
    return int(late)


def detach_table(conn: Connection[Any], table: str) -> bool:
    """Stop copying a table; events and groups stay. False: it was not attached.

    Raises RefusedError for an unknown table, GaplessError when it has been in use for 1 s.
    """
    with in_use(table), conn.transaction():
        limit_locks(conn)
        return bool(row(conn, query("attach", "detach"), table=table)[0])


def list_attachments(conn: Connection[Any]) -> list[AttachmentInfo]:
    """Return all attached tables, by name."""
    return rows(conn, AttachmentInfo, query("attach", "list"))


def _params(wish: AttachRequest) -> dict[str, object]:
    return {
        "table": wish.table,
        "topic": wish.topic,
        "id": wish.id,
        "map": Jsonb(dict(wish.map)),
        "places": None if wish.places is None else Jsonb(dict(wish.places)),
        "despite_changes": wish.despite_changes,
    }


def attachment_number(conn: Connection[Any], table: str) -> int:
    """Return the number of a table's attachment. Raises RefusedError if it is not attached."""
    (number,) = row(conn, query("attach", "number"), table=table)
    if number is None:
        text = f'"{table}" is not attached: gapless attach lists the attached tables'
        raise RefusedError(text, sqlstate="GL404")
    return int(number)


def _batches(conn: Connection[Any], number: int, bound: int, batch_rows: int) -> Iterator[int]:
    params = {"number": number, "bound": bound, "rows": batch_rows}
    while copied := row(conn, query("attach", "copy"), **params)[0]:
        create_chunks(conn)
        sequence(conn)
        yield copied


def _await(conn: Connection[Any], table: str, writers: Sequence[str], patience_s: float) -> None:
    """Wait until these transactions have ended: until then a missing id may still arrive."""
    give_up_s = monotonic() + patience_s
    while writers:
        (pids,) = row(conn, query("attach", "still_writing"), writers=list(writers))
        if not pids:
            return
        if monotonic() > give_up_s:
            who = ", ".join(str(pid) for pid in pids)
            raise GaplessError(
                f"a transaction has been writing to {table} for {patience_s:g} s (process {who}): "
                "an id that is missing may be its own, and come yet; copied rows stay: run it "
                "again when that has ended"
            )
        sleep(LOOK_AGAIN_S)


def _is_live(conn: Connection[Any], number: int, batch_rows: int) -> bool:
    try:
        with conn.transaction():
            limit_locks(conn)
            (live,) = row(conn, query("attach", "go_live"), number=number, rows=batch_rows)
            return bool(live)
    except LockNotAvailable:
        return False


def limit_locks(conn: Connection[Any]) -> None:
    """Wait for locks at most 1 s until the transaction ends: other sessions wait behind it."""
    row(conn, query("connect", "local_lock_timeout"), timeout=f"{LOCK_MS_MAX}ms")


@contextmanager
def in_use(table: str) -> Iterator[None]:
    """Raise a message of one line when another session holds a needed lock."""
    try:
        yield
    except (LockNotAvailable, DeadlockDetected) as error:
        raise InUseError(
            f"another session is using {table}: nothing was changed; try again when its "
            "transactions are shorter"
        ) from error
