"""What the two paths of a step have in common: limits, results, the end of a claim."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal, Self

from psycopg import Connection

from gapless.consume.claim import Claim
from gapless.consume.handler import GroupBy, Handler
from gapless.consume.letters import Fate
from gapless.consume.policy import DEAD_LETTER, Delivery, Policy, Verdict
from gapless.consume.prefetch import Prefetch
from gapless.consume.session import run_at_commit
from gapless.consume.unit import Spans
from gapless.errors import BlockedError
from gapless.keys import Assignment

NONE: Mapping[str, int] = MappingProxyType({})
UNITS_PER_COMMIT = 64  # PostgreSQL keeps so many subtransactions of a transaction in shared memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much one step may take. A unit is never cut, whatever these say.

    stream_above_events: a unit with more is read in slices while the handler iterates over it.
    units_per_commit: so many savepoints, one a unit, share a commit after a unit failed.
    policy: what becomes of units that fail, unless the handler says something else.
    parked: some unit is parked, though the policy parks none: later ones go behind it all the same.
    auto_offset_reset: where to go on when retention dropped what was not handled; error is nowhere.
    worker: what people call who handles; former_end: how the one before ended, if it is known.
    """

    batch_size: int = 100
    group_by: GroupBy = "transaction"
    stream_above_events: int = 10_000
    units_per_commit: int = UNITS_PER_COMMIT
    policy: Policy = DEAD_LETTER
    parked: bool = False
    delivery: Delivery = "exactly-once"
    concurrency: int = 1
    auto_offset_reset: Literal["error", "earliest", "latest"] = "error"
    worker: str = ""
    former_end: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What a step did: `events` and `units` left behind; those set aside are counted in them.

    dead, waiting (for another attempt), parked (behind another): units that were set aside.
    """

    outcome: Literal["done", "idle", "fenced"]
    events: int = 0
    units: int = 0
    dead: int = 0
    waiting: int = 0
    parked: int = 0
    next_offset: int = 0

    @property
    def failed(self) -> int:
        """Units that failed just now."""
        return self.dead + self.waiting

    @classmethod
    def after(cls, spans: Spans, aside: Mapping[str, int] = NONE) -> Self:
        """Say that these units were left behind; `aside`: so many of them in each state."""
        first, last = offsets(spans)
        return cls(
            outcome="done",
            events=last - first + 1,
            units=len(spans),
            dead=aside.get("dead", 0),
            waiting=aside.get("waiting", 0),
            parked=aside.get("parked", 0),
            next_offset=last + 1,
        )

    def followed_by(self, later: Step) -> Step:
        """Return both as one; of a later one that did nothing the next step will tell."""
        if self.outcome != "done":
            return later
        if later.outcome != "done":
            return self
        return replace(
            later,
            events=self.events + later.events,
            units=self.units + later.units,
            dead=self.dead + later.dead,
            waiting=self.waiting + later.waiting,
            parked=self.parked + later.parked,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """These units were not committed: try them again, with more care.

    failed: the first that failed, if that is known; those before it ran without an error.
    hopeless: why the only unit left cannot be handled at all.
    done: what was committed before them.
    """

    spans: Spans
    failed: int | None = None
    hopeless: BaseException | None = None
    done: Step = Step(outcome="idle")


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What a step was called with."""

    conn: Connection[Any]
    assignment: Assignment
    handler: Handler
    limits: Limits
    ahead: Prefetch = field(default_factory=Prefetch)

    @property
    def delivery(self) -> Delivery:
        """How the handler is called."""
        return self.handler.delivery or self.limits.delivery

    @property
    def parks(self) -> bool:
        """Whether a unit may have to go behind one that was set aside."""
        return self.limits.parked or self.policy.parks

    @property
    def policy(self) -> Policy:
        """The group's policy, as far as the handler does not say otherwise."""
        policy, handler = self.limits.policy, self.handler
        if handler.on_failure is None and handler.retry_delays_s is None:
            return policy
        delays = handler.retry_delays_s
        return replace(
            policy,
            on_failure=handler.on_failure or policy.on_failure,
            retry_delays_s=policy.retry_delays_s if delays is None else tuple(delays),
        )

    def fate(self, verdict: Verdict) -> Fate:
        """Return what becomes of a unit that is dead by this verdict, or else waits."""
        return Fate(
            state="dead" if verdict.state == "dead" else "waiting",
            retry_after_s=verdict.retry_after_s,
            parks=self.policy.parks,
            worker=self.limits.worker,
        )

    def blocked(self, first_offset: int, error: BaseException | str) -> BlockedError:
        """Return what a driver is told when a unit failed, and must not be passed."""
        return BlockedError(f"{self.assignment.partition}@{first_offset}", error)


def offsets(spans: Spans) -> tuple[int, int]:
    """Return the first and the last offset of neighbouring units, both inclusive."""
    return spans.first_offset, spans.first_offset + len(spans.ids) - 1


def finish(turn: Turn, claimed: Claim) -> None:
    """Allow the COMMIT of a claim, which is next; it fails if its transaction is over."""
    run_at_commit(turn.conn, "finish", {"claim_xid": claimed.claim_xid})
