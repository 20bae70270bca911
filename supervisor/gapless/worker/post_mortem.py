"""The blame for the end of a worker (pure).

A worker that serves several partitions shows on the board the one it works on. If its process
dies, that partition is suspected of a poison (I8); the others continue at once, elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gapless.keys import Partition


@dataclass(frozen=True, slots=True)
class Ended:
    """The service of a partition that ended; unasked, if it had not been told to let go."""

    partition: Partition
    lease_no: int
    code: int
    unasked: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Blame:
    """The consequences of a worker's end for one of its partitions.

    is_suspect: the worker was at work on it. is_blamed: the next worker is told of its end.
    is_steady: its next worker needs no backoff for the failures before.
    """

    ended: Ended
    is_suspect: bool
    is_blamed: bool
    is_steady: bool


def post_mortem(services: Sequence[Ended], at_work: int, *, is_steady: bool) -> list[Blame]:
    """Return the consequences of a worker's end for each partition that it served.

    at_work: the lease_no that it worked on when it ended, 0: none. is_steady: it had lived long, or
    made progress, before.
    """
    is_known = any(ended.lease_no == at_work for ended in services)
    found = []
    for ended in services:
        is_suspect = ended.lease_no == at_work
        is_blamed = is_suspect or not is_known
        found.append(
            Blame(
                ended=ended,
                is_suspect=is_suspect,
                is_blamed=is_blamed,
                is_steady=is_steady or not is_blamed,
            )
        )
    return found


def words(name: str, findings: Sequence[Blame], why: str) -> str | None:
    """Return the line for the log; None for an end that was asked for."""
    if not any(each.ended.unasked for each in findings):
        return None
    suspects = [each.ended.partition for each in findings if each.is_suspect]
    where = f", at work on {suspects[0]}" if len(findings) > 1 and suspects else ""
    return f"{name} ended: {why}{where}"
