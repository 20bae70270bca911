"""The common parts of the two paths of a step: its arguments, its results, the end of a claim."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic
from types import MappingProxyType
from typing import Any, Literal, Self

import psycopg
from psycopg import Connection

from gapless.consume.read.backlog import Backlog
from gapless.consume.terms import Terms
from gapless.consume.unit import UnitRanges
from gapless.consume.user.call import excuse_of
from gapless.consume.user.handler import Handler
from gapless.consume.verdict.patience import Patience
from gapless.consume.verdict.policy import BLOCK_RETRY_S, Verdict, judge
from gapless.db.connect import is_cancelled, is_passing
from gapless.errors import BlockedError, UnreadyError
from gapless.keys import Assignment
from gapless.log.event import Row

STATES = ("dead", "waiting", "parked")
NONE: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The result of a step: the `events` and `units` that were passed, including those set aside.

    dead, waiting (for another attempt), parked (behind another): units that were set aside.
    asked: the units among `waiting` whose handler wished it (gapless.Retry).
    handled: units that succeeded, of the log or of those set aside before.
    """

    outcome: Literal["done", "idle", "fenced"]
    events: int = 0
    units: int = 0
    dead: int = 0
    waiting: int = 0
    parked: int = 0
    asked: int = 0
    handled: int = 0
    next_offset: int = 0

    @property
    def failed(self) -> int:
        """Units that failed in this step."""
        return self.dead + self.waiting

    @property
    def is_settled(self) -> bool:
        """Whether a unit came to an end in this step, good or bad, or a filter passed some."""
        return bool(self.next_offset or self.events or self.handled or self.failed)

    @classmethod
    def after(cls, spans: UnitRanges, aside: Mapping[str, int] = NONE) -> Self:
        """Return the result of passing these units; `aside`: their number in each state."""
        return cls(
            outcome="done",
            events=len(spans.wanted),
            units=len(spans.ends),
            dead=aside.get("dead", 0),
            waiting=aside.get("waiting", 0),
            parked=aside.get("parked", 0),
            asked=aside.get("asked", 0),
            handled=len(spans.ends) - sum(aside.get(state, 0) for state in STATES),
            next_offset=spans.first_offset + len(spans.ids),
        )

    def followed_by(self, later: Step) -> Step:
        """Return both as one; skip a later one that passed nothing: the next step finds out."""
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
            asked=self.asked + later.asked,
            handled=self.handled + later.handled,
        )


Done = tuple[UnitRanges, int]
"""A batch that was handled: its units, and the number of them that were parked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Redo:
    """Units that were not committed: try them again, with more care.

    rows: their events, and maybe later ones, where the claim had them in memory.
    failed: the first that failed, if it is known; those before it ran without an error.
    hopeless: why the only unit left cannot be handled at all.
    done: the batches that were committed before them. learned: retry the whole batch as before: the
    step has just learned how to call the handler (chain.adapt).
    """

    spans: UnitRanges
    rows: list[Row] | None = None
    failed: int | None = None
    hopeless: BaseException | None = None
    done: Sequence[Done] = ()
    learned: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The arguments of a step.

    parked: some unit is parked, though the policy parks none: later units still go behind it.
    former_end: the end of the former worker, if it is known.
    patience: with a database that is not as the handler expects it, and with cancelled statements;
    None: the policy decides at once.
    """

    conn: Connection[Any]
    assignment: Assignment
    handler: Handler
    terms: Terms
    backlog: Backlog = field(default_factory=Backlog)
    parked: bool = False
    former_end: str = ""
    patience: Patience | None = None
    parks: bool = field(init=False)  # whether a unit may have to go behind one that was set aside

    def __post_init__(self) -> None:
        object.__setattr__(self, "parks", self.parked or self.terms.policy.parks)

    @property
    def units_per_commit(self) -> int:
        """The number of units that may share a commit after one failed."""
        return 1 if self.handler.habits.defers else self.terms.units_per_commit

    def judge(
        self, error: BaseException, failed: int, first_offset: int, *, redriven: bool = False
    ) -> Verdict:
        """Return the verdict on a unit that failed for the `failed`-th time, as the policy says.

        While there is patience, it is "block" for errors that may be no fault of the unit. Without
        any, raises such an error if is_passing() holds for it.
        """
        cause = excuse_of(error, self.terms.delivery)
        if cause is not None:
            if self.patience is None and is_passing(cause):
                raise cause
            if self._waits(cause, first_offset):
                return Verdict(state="block", retry_after_s=BLOCK_RETRY_S, counted=False)
        return judge(self.terms.policy, error, failed, redriven=redriven)

    def blocked(self, first_offset: int, error: BaseException | str) -> BlockedError:
        """Return the error for the driver when a unit failed, and must not be passed."""
        place = f"{self.assignment.partition}@{first_offset}"
        cause = excuse_of(error, self.terms.delivery)
        if cause is None or not self._is_patient:
            return BlockedError(place, error, first_offset)
        return UnreadyError(place, cause)

    @property
    def _is_patient(self) -> bool:
        """Whether an unready database is waited for; under block everything is."""
        return self.patience is not None and not self.terms.policy.blocks

    def _waits(self, cause: psycopg.Error, first_offset: int) -> bool:
        """Note a failure that `cause` excuses; tell whether to have patience once more."""
        if self.patience is None or not self._is_patient:
            return False
        if is_cancelled(cause):
            return self.patience.lasts_for((self.assignment.partition, first_offset), monotonic())
        return self.patience.lasts(monotonic())
