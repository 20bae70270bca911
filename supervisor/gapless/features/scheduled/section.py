"""Events for later, and schedules, in the status."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from gapless.status.document import iso
from gapless.status.section import Rank, StatusProblem, StatusSection
from gapless.status.words import age

STOPPED_REMEDY = "gapless schedule add it anew, or gapless schedule remove it"
LATE_S_MAX = 5.0  # overdue for longer than this: no session promotes, or not fast enough


@dataclass(frozen=True, slots=True, kw_only=True)
class Later:
    """All events for later, and all schedules.

    scheduled: events, counted up to 10 000. next_ts: the due time of the first of them, or of the
    first schedule; None: there is none. late_s: seconds since it was due, 0 before. strays: the
    number of counted events of topics that are gone. schedules; paused and stopped ones of them,
    with a reason.
    """

    scheduled: int = 0
    next_ts: datetime | None = None
    late_s: float = 0.0
    strays: int = 0
    schedules: int = 0
    paused: int = 0
    stopped: tuple[str, ...] = ()

    @property
    def is_late(self) -> bool:
        """Whether an event is so long overdue that it needs an operator."""
        return self.late_s > LATE_S_MAX

    def problems(self) -> Iterator[StatusProblem]:
        """Yield the problems that need an operator."""
        page = ("later",)
        if self.is_late:
            late = f"events for later are {age(self.late_s)} late"
            yield StatusProblem(
                late,
                "gapless doctor says why",
                is_bad=True,
                page=page,
                since_s=self.late_s,
                command="gapless doctor",
            )
        for each in self.stopped:
            yield StatusProblem(f"schedule {each}", STOPPED_REMEDY, is_bad=True, page=page)


def of_rows(rows: Sequence[Later]) -> Later:
    """Return the one row; without one, as in a look made by hand, an empty record."""
    return rows[0] if rows else Later()


def _document(rows: Sequence[Later]) -> object:
    found = asdict(of_rows(rows))
    next_ts = found.pop("next_ts")
    found["stopped"] = list(found["stopped"])
    return {**found, "next_at": None if next_ts is None else iso(next_ts)}


SECTION = StatusSection(
    record=Later,
    query=("later", "in_status"),
    key="later",
    rank=Rank(document=90, problem=10),
    document=_document,
    problems=lambda rows: of_rows(rows).problems(),
)
