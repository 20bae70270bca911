"""Compacted topics, and their progress."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gapless.status.section import Measured, Rank, StatusProblem, StatusSection

STANDS_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacting:
    """A topic with the newest event of each key kept; fields as in ops.CompactionInfo."""

    topic: str
    is_on: bool
    lag: int
    keys: int
    keyless: int
    missing: int
    bytes: int
    stands_s: float | None
    starting: Sequence[str]

    @property
    def stands_still(self) -> bool:
        """Whether events wait and none was taken in for a while."""
        return self.stands_s is not None and self.stands_s > STANDS_S

    @property
    def problem(self) -> StatusProblem:
        """The reason why it stands still, and the remedy."""
        events = f"{self.lag} event{'s' if self.lag != 1 else ''}"
        wait = "waits" if self.lag == 1 else "wait"
        said = f"compaction of topic {self.topic} stands still, {events} {wait}"
        return StatusProblem(
            said, "gapless run continues it", since_s=self.stands_s, command="gapless run"
        )


def _metrics(rows: Sequence[Compacting]) -> Measured:
    on = {(each.topic,): each for each in rows if each.is_on}
    return {
        "gapless_compaction_lag_events": {labels: each.lag for labels, each in on.items()},
        "gapless_compaction_standstill_seconds": {
            labels: each.stands_s or 0.0 for labels, each in on.items()
        },
        "gapless_compaction_keys": {labels: each.keys for labels, each in on.items()},
        # Each of them states the value of all.
        "gapless_compaction_bytes": {(): rows[0].bytes} if rows else {},
    }


def _problems(rows: Sequence[Compacting]) -> Iterator[StatusProblem]:
    return (each.problem for each in rows if each.stands_still)


SECTION = StatusSection(
    record=Compacting,
    query=("compaction", "in_status"),
    key="compactions",
    rank=Rank(document=10, problem=20),
    problems=_problems,
    metrics=_metrics,
)
