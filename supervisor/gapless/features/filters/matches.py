"""The subscriptions of a group that match the events of a claim."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from psycopg import Connection

from gapless.consume.session import run
from gapless.keys import Partition
from gapless.log.codec import decode
from gapless.log.event import MatchedSubscription

Matches = Mapping[int, tuple[MatchedSubscription, ...]]
"""By offset."""


def find_matches(
    conn: Connection[Any], offsets: Sequence[int], matched: Sequence[str | None]
) -> Matches:
    """Return the subscriptions for the numbers in `matched`: one text with commas for each offset.

    A subscription that was removed a moment ago is left out.
    """
    numbers = [[int(n) for n in each.split(",")] if each else [] for each in matched]
    ids = sorted({n for each in numbers for n in each})
    known: dict[int, MatchedSubscription] = {}
    if ids:
        for row in run(conn, "subscriptions", {"ids": ids}):
            known[row[0]] = _matched(*row)
    return {
        offset: tuple(known[n] for n in each if n in known)
        for offset, each in zip(offsets, numbers, strict=True)
    }


def matches_again(conn: Connection[Any], partition: Partition, first_offset: int) -> Matches:
    """Return the same for a unit that was set aside, of the subscriptions that still exist."""
    found: dict[int, list[MatchedSubscription]] = {}
    params = {**partition.params, "first_offset": first_offset}
    for offset, *row in run(conn, "letter_matches", params):
        found.setdefault(offset, []).append(_matched(*row))
    return {offset: tuple(each) for offset, each in found.items()}


def _matched(subscription_id: int, name: str, params: str) -> MatchedSubscription:
    """Return a row of the database as a record."""
    return MatchedSubscription(subscription_id, name, decode(params))
