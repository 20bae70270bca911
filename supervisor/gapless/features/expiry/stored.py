"""Groups and subscriptions that nobody uses for long, and that go then: what a housekeeper does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from psycopg import Connection
from psycopg.rows import class_row

from gapless.db.queries import query

_SLACK_S = 60.0  # a look may come late


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """A group that was dropped, and how many units it had set aside."""

    group_id: str
    set_aside: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiredSubscriptions:
    """How many subscriptions of a group were taken away, for nobody renewed them."""

    group_id: str
    topic: str
    subscriptions: int


def expire_groups(conn: Connection[Any], every_s: float) -> list[Expired]:
    """Drop the groups whose time is over; return them.

    every_s: how often somebody looks; of a longer time without a look only this much counts, twice.
    """
    with conn.cursor(row_factory=class_row(Expired)) as cursor:
        return cursor.execute(query("log", "expire_groups"), _gap(every_s)).fetchall()


def expire_subscriptions(conn: Connection[Any], every_s: float) -> list[ExpiredSubscriptions]:
    """Take away the subscriptions whose time is over, a thousand at most; return of which groups.

    every_s: as of expire_groups().
    """
    with conn.cursor(row_factory=class_row(ExpiredSubscriptions)) as cursor:
        return cursor.execute(query("log", "expire_subscriptions"), _gap(every_s)).fetchall()


def _gap(every_s: float) -> dict[str, float]:
    return {"gap_s": 2 * every_s + _SLACK_S}
