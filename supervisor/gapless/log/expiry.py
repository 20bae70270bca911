"""Groups that nobody uses for long, and that are to go then: the look of the housekeeper."""

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


def expire_groups(conn: Connection[Any], every_s: float) -> list[Expired]:
    """Drop the groups whose time is over; return them.

    every_s: how often somebody looks; of a longer time without a look only this much counts, twice.
    """
    with conn.cursor(row_factory=class_row(Expired)) as cursor:
        params = {"gap_s": 2 * every_s + _SLACK_S}
        return cursor.execute(query("log", "expire_groups"), params).fetchall()
