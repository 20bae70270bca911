"""The occupation of a group's workers, as far as the server shows it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from gapless.db.queries import query
from gapless.ops.groups import show_group
from gapless.ops.place import GroupPlace
from gapless.ops.rows import rows

if TYPE_CHECKING:
    from psycopg import Connection

__all__ = ["GroupWork", "show_work"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupWork:
    """The worker of a partition, or one of a queue, which has no partition, or a reservation.

    doing: in a unit, waiting for a lock, at rest, paused, stopped, nobody, shared (by the workers
    of a queue), or not visible to sessions of this role; since: from then on. In hand: one of the
    200 oldest reservations of a queue, made or renewed then, of the worker or client `member`. pid:
    that of its session. offset: of the first unit in hand. attempts: calls of its handler. waiting:
    units that wait for another attempt; next_attempt: the first.
    """

    group: str
    topic: str | None
    partition: int | None
    member: str | None
    pid: int | None
    doing: str
    since: datetime | None
    offset: int | None
    attempts: int | None
    waiting: int
    next_attempt: datetime | None


def show_work(conn: Connection[Any], place: GroupPlace) -> list[GroupWork]:
    """Return the occupation of all workers of a group, or of one topic of it.

    Raises the errors of show_group().
    """
    show_group(conn, place)  # it refuses what is not there
    return rows(conn, GroupWork, query("work", "work"), group=place.group, topic=place.topic)
