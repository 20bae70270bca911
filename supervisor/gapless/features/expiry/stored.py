"""The housekeeper's work on groups and subscriptions that expire after a long time without use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from psycopg import Connection
from psycopg.rows import class_row

from gapless.db.queries import query

_SLACK_S = 60.0  # a look may come late


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """A group that was dropped, and the number of units it had set aside."""

    group_id: str
    set_aside: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiredSubscriptions:
    """The number of a group's subscriptions that were removed because they were not renewed."""

    group_id: str
    topic: str
    subscriptions: int


def expire_groups(conn: Connection[Any], every_s: float) -> list[Expired]:
    """Drop the groups whose time is over; return them.

    every_s: seconds between two looks; a longer time without a look counts only as two of these.
    """
    with conn.cursor(row_factory=class_row(Expired)) as cursor:
        return cursor.execute(query("expiry", "expire_groups"), _gap(every_s)).fetchall()


def expire_subscriptions(conn: Connection[Any], every_s: float) -> list[ExpiredSubscriptions]:
    """Remove at most a thousand subscriptions whose time is over; return their groups.

    every_s: as in expire_groups().
    """
    with conn.cursor(row_factory=class_row(ExpiredSubscriptions)) as cursor:
        return cursor.execute(query("expiry", "expire_subscriptions"), _gap(every_s)).fetchall()


def _gap(every_s: float) -> dict[str, float]:
    return {"gap_s": 2 * every_s + _SLACK_S}
