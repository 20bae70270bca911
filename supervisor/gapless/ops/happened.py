"""Recent happenings: evictions, hand-overs, errors, dead letters, and people's commands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from gapless.db.queries import query
from gapless.errors import UsageError
from gapless.ops.rows import rows

if TYPE_CHECKING:
    from psycopg import Connection

__all__ = ["Happened", "happened_since"]

ROWS_MAX = 1000
_SECONDS_MAX = 36_500 * 86_400
_UNSAID = ("holder",)  # of no interest to a person
_FIRST = ("error", "reason", "from", "to", "events", "attempts")  # the others follow


@dataclass(frozen=True, slots=True, kw_only=True)
class HappenedRow:
    """A row as the query returns it."""

    ts: datetime
    kind: str
    group: str | None
    topic: str | None
    partition: int | None
    offset: int | None
    who: str | None
    detail: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Happened:
    """One thing that happened, by the database's clock.

    kind: joined, evicted (members); hand-over, error (partitions); retry, dead letter, redrive,
    discard (units: offset is that of the first event); or a command on a group, as the
    audit calls it: pause, resume, seek, skip, overrun, replay, drop, restore, …
    who: the supervisor, worker or role that did it, or to which it happened. what: the details.
    """

    ts: datetime
    kind: str
    group: str | None
    topic: str | None
    partition: int | None
    offset: int | None
    who: str | None
    what: str


def happened_since(
    conn: Connection[Any], since_s: float, *, rows_max: int = ROWS_MAX
) -> list[Happened]:
    """Return the happenings of the last since_s seconds, oldest first; of too many the newest.

    since_s: more than 0, 100 years at most. rows_max: how many rows, 1 to 1000.
    The tables tell of a partition only its newest hand-over and its present error, of a unit
    only the last failure and redrive; evictions are kept for a day.
    Raises UsageError for values out of these bounds.
    """
    if not 0 < since_s <= _SECONDS_MAX:
        raise UsageError(f"since: {since_s} must be more than 0 seconds, and 100 years at most")
    if not 1 <= rows_max <= ROWS_MAX:
        raise UsageError(f"rows_max: {rows_max} must be from 1 to {ROWS_MAX}")
    text = query("observe", "happened")
    found = rows(conn, HappenedRow, text, since_s=float(since_s), rows_max=rows_max)
    return [_told(each) for each in reversed(found)]


def _told(each: HappenedRow) -> Happened:
    names = [*_FIRST, *sorted(set(each.detail) - {*_FIRST, *_UNSAID})]
    values = [(name, each.detail.get(name)) for name in names]
    said = [f"{name} {value}" for name, value in values if value not in (None, {}, [])]
    return Happened(
        ts=each.ts,
        kind=each.kind,
        group=each.group,
        topic=each.topic,
        partition=each.partition,
        offset=each.offset,
        who=each.who,
        what=", ".join(said),
    )
