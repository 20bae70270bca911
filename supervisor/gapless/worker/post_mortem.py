"""Who is to blame when a worker has ended (pure).

A worker that serves several partitions says on the board at which it is. If its process dies, that
one is suspected of a poison (I8); the others are not to blame, and continue at once, elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gapless.keys import Partition


@dataclass(frozen=True, slots=True)
class Ended:
    """The service of a partition ended; unasked, if it had not been told to let go."""

    partition: Partition
    lease_no: int
    code: int
    unasked: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Blame:
    """What a worker's end means for one of its partitions.

    is_suspect: it was at work there. is_blamed: how the worker ended is told to the next one.
    is_steady: its next worker needs no backoff on account of the ones before.
    """

    ended: Ended
    is_suspect: bool
    is_blamed: bool
    is_steady: bool


def post_mortem(services: Sequence[Ended], at_work: int, *, is_steady: bool) -> list[Blame]:
    """Return what the end of a worker means for each partition that it served.

    at_work: the lease_no at which it was when it ended, 0: at none. is_steady: it had lived long,
    or got on, before.
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
