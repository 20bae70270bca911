"""Which subscriptions of a group match what it claimed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from psycopg import Connection

from gapless.consume.session import run
from gapless.log.codec import decode
from gapless.log.event import MatchedSubscription

Matches = Mapping[int, tuple[MatchedSubscription, ...]]
"""By offset."""


def find_matches(
    conn: Connection[Any], offsets: Sequence[int], matched: Sequence[str | None]
) -> Matches:
    """Return what the numbers in `matched`, with commas between, are: one text for each offset.

    One that was taken away this moment is left out.
    """
    numbers = [[int(n) for n in each.split(",")] if each else [] for each in matched]
    ids = sorted({n for each in numbers for n in each})
    known: dict[int, MatchedSubscription] = {}
    if ids:
        for row in run(conn, "subscriptions", {"ids": ids}):
            known[row[0]] = matched_subscription(*row)
    return {
        offset: tuple(known[n] for n in each if n in known)
        for offset, each in zip(offsets, numbers, strict=True)
    }


def matched_subscription(subscription_id: int, name: str, params: str) -> MatchedSubscription:
    """Return a row of the database as a record."""
    return MatchedSubscription(subscription_id, name, decode(params))
