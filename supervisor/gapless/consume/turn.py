"""What the two paths of a step have in common: limits, results, the end of a claim."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

from psycopg import Connection

from gapless.consume.call import TransactionBrokenError, UnitFailedError
from gapless.consume.claim import Claim
from gapless.consume.handler import GroupBy, Handler
from gapless.consume.session import run
from gapless.consume.unit import Span, Spans
from gapless.failpoints import hit
from gapless.keys import Assignment

UNITS_PER_COMMIT = 64  # PostgreSQL keeps so many subtransactions of a transaction in shared memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much one step may take. A unit is never cut, whatever these say.

    stream_above_events: a unit with more is read in slices while the handler iterates over it.
    attempts_max: after so many deaths of a worker at one unit, it is dead-lettered unseen.
    units_per_commit: so many savepoints, one a unit, share a commit after a unit failed.
    """

    batch_size: int = 100
    group_by: GroupBy = "transaction"
    stream_above_events: int = 10_000
    attempts_max: int = 3
    units_per_commit: int = UNITS_PER_COMMIT


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What a step did: `events` and `units` left behind (dead ones included), `dead` units."""

    outcome: Literal["done", "idle", "fenced"]
    events: int = 0
    units: int = 0
    dead: int = 0
    next_offset: int = 0

    @classmethod
    def after(cls, spans: Sequence[Span], dead: int = 0) -> Self:
        """Say that these units were left behind."""
        first, last = offsets(spans)
        return cls(
            outcome="done",
            events=last - first + 1,
            units=len(spans),
            dead=dead,
            next_offset=last + 1,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Nothing was committed: try these units again, with more care.

    failed: the first that failed, if that is known; those before it ran without an error.
    hopeless: why the only unit left cannot be handled at all.
    """

    spans: Spans
    failed: int | None = None
    hopeless: BaseException | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What a step was called with."""

    conn: Connection[Any]
    assignment: Assignment
    handler: Handler
    limits: Limits


def offsets(spans: Sequence[Span]) -> tuple[int, int]:
    """Return the first and the last offset of neighbouring units, both inclusive."""
    return spans[0].first_offset, spans[-1].last_offset


def finish(turn: Turn, claimed: Claim) -> None:
    """Allow the COMMIT of a claim. Raises UnitFailedError if its transaction is over."""
    (allowed,) = run(turn.conn, "finish", {"claim_xid": claimed.claim_xid})[0]
    if not allowed:
        problem = (
            "the handler replaced the transaction it was given: it must not COMMIT or ROLLBACK"
        )
        raise UnitFailedError(TransactionBrokenError(problem))
    hit("step.finished")
