"""Groups that take only some events, and how many they took (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gapless.status.section import Rank, StatusProblem, StatusSection

UNASKED_REMEDY = "jsonb cannot hold such a payload: the handler sees event.filter_error"
RECENT_S = 3600.0  # a filter that could not check an event is a problem for this time


@dataclass(frozen=True, slots=True, kw_only=True)
class Filtered:
    """A group with a filter. Events since it was set: kept, passed, unasked (kept all the same).

    takes: the filter. unasked_partition, unasked_offset, unasked_why, unasked_s (seconds ago): of
    the last event that the filter could not check; None: there was none.
    """

    group_id: str
    topic: str
    takes: str
    kept: int
    passed: int
    unasked: int
    unasked_partition: int | None = None
    unasked_offset: int | None = None
    unasked_why: str | None = None
    unasked_s: float | None = None

    @property
    def is_troubled(self) -> bool:
        """Whether the filter could not check an event of the last hour."""
        return self.unasked_s is not None and self.unasked_s < RECENT_S

    @property
    def trouble(self) -> str:
        """The event that the filter could not check, with the reason."""
        place = f"{self.group_id}/{self.topic}/{self.unasked_partition}@{self.unasked_offset}"
        events = "1 event" if self.unasked == 1 else f"{self.unasked} events"
        return f"filter of {self.group_id}/{self.topic}: {events} delivered unasked, {place}: " + (
            self.unasked_why or ""
        )


def _problems(rows: Sequence[Filtered]) -> Iterator[StatusProblem]:
    for each in rows:
        if each.is_troubled:
            page = ("groups", each.group_id, each.topic)
            yield StatusProblem(each.trouble, UNASKED_REMEDY, page=page)


SECTION = StatusSection(
    record=Filtered,
    query=("filters", "in_status"),
    key="filters",
    rank=Rank(document=50, problem=60),
    problems=_problems,
)
