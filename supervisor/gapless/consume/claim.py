"""Claim the next range of a partition, in the transaction that is open (I5, I6, I7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from psycopg import Connection

from gapless.consume.session import run, transaction
from gapless.consume.unit import Spans, split
from gapless.errors import HoleError
from gapless.keys import Assignment

NOTHING = Spans(0, (), ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What was claimed. `spans` are its units in offset order; empty unless claimed."""

    outcome: Literal["claimed", "idle", "fenced"]
    first_offset: int = 0
    last_offset: int = -1
    claim_xid: str = ""
    spans: Spans = NOTHING


def claim(conn: Connection[Any], assignment: Assignment, batch_size: int) -> Claim:
    """Claim up to `batch_size` events, extended to the end of the last unit.

    Before: a transaction is open. After: the group's offset row is locked, and past the range.
    Raises HoleError when the segments read do not cover the range.
    """
    rows = run(conn, "claim", {**assignment.params, "batch_size": batch_size})
    outcome, first, last, xid = rows[0][:4]
    if outcome == "hole":
        raise _hole(first, last)
    if outcome != "claimed":
        return Claim(outcome=outcome)
    ids: list[int] = []
    ends: list[str] = []
    expected = rows[0][4]
    for *_, base, message_ids, unit_ends in rows:
        if base != expected:
            raise _hole(expected, base - 1)
        expected = base + len(message_ids)
        low, high = max(first - base, 0), last - base + 1
        ids += message_ids[low:high]
        ends.append(unit_ends[low:high])
    if len(ids) != last - first + 1:
        raise HoleError(f"{len(ids)} ids for the offsets {first} to {last}")
    return Claim(
        outcome="claimed",
        first_offset=first,
        last_offset=last,
        claim_xid=xid,
        spans=split(first, ids, "".join(ends)),
    )


def record_attempt(conn: Connection[Any], assignment: Assignment) -> int | None:
    """Write down, in a transaction of its own, that the next unit is about to be tried.

    Returns how often it was tried, this time included; None when fenced.
    """
    with transaction(conn):
        (attempts,) = run(conn, "record_attempt", assignment.params)[0]
    return None if attempts is None else int(attempts)


def forget_attempt(conn: Connection[Any], assignment: Assignment) -> None:
    """Take the last attempt back: it ended with an error, not with the worker's death."""
    with transaction(conn):
        run(conn, "forget_attempt", assignment.params)


def _hole(first: int, last: int) -> HoleError:
    return HoleError(
        f"offsets {first} to {last} are missing from log_segment: "
        "restore them, then the partition goes on"
    )
