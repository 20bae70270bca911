"""The result of a dry run of a replay: counts, and the first failures by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from gapless.consume.unit import Unit
from gapless.consume.verdict.failure import Failure
from gapless.consume.verdict.policy import DEAD_LETTER, judge

__all__ = ["FailedUnit", "ReplayTrial"]

FAILURES_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedUnit:
    """A unit that would fail, and the line that explains most of the reason."""

    topic: str
    partition: int
    offset: int
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayTrial:
    """The result of a dry run.

    handled: units that would be handled. skipped: units that the handler asked to skip.
    failed: units that would fail.

    failures: the first FAILURES_SHOWN of the failed units.
    """

    events: int
    handled: int
    skipped: int
    failed: int
    failures: Sequence[FailedUnit]


@dataclass(slots=True, kw_only=True)
class TrialTally:
    """Counts the outcome of each unit of a dry run."""

    events: int = 0
    handled: int = 0
    skipped: int = 0
    failed: int = 0
    failures: list[FailedUnit] = field(default_factory=list)

    def add(self, unit: Unit, error: BaseException | None) -> None:
        """Count a unit that was handled, or failed with this error."""
        if error is None:
            self.handled += 1
        elif judge(DEAD_LETTER, error, 1).state == "skip":
            self.skipped += 1
        else:
            self.failed += 1
            if len(self.failures) < FAILURES_SHOWN:
                self.failures.append(
                    FailedUnit(
                        topic=unit.topic,
                        partition=unit.partition,
                        offset=unit.first_offset,
                        error=str(Failure(error=error).params()["reason"]),
                    )
                )

    def result(self) -> ReplayTrial:
        """Return the counts."""
        return ReplayTrial(
            events=self.events,
            handled=self.handled,
            skipped=self.skipped,
            failed=self.failed,
            failures=self.failures,
        )
