"""What waits for its time: events for later, and schedules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from gapless.status.document import iso
from gapless.status.section import Rank, StatusSection

_SHOWN_MAX = 3
LATE_S_MAX = 5.0  # later than that somebody should look: nobody promotes, or not fast enough


@dataclass(frozen=True, slots=True, kw_only=True)
class Later:
    """What waits for its time.

    scheduled: events, counted up to 10 000. next_ts: when the first of them, or the first schedule,
    is due; None: nothing is. late_s: since when it is overdue, 0 before. strays: of those counted,
    events of topics that are gone. schedules; paused and stopped ones of them, with a reason.
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
        """Whether something has been due for so long that somebody should look."""
        return self.late_s > LATE_S_MAX

    def problems(self) -> Iterator[str]:
        """Say what somebody should look at."""
        if self.is_late:
            yield f"due for {self.late_s:.0f} s and not in the log: gapless doctor says why"
        yield from (f"schedule {each}" for each in self.stopped[:_SHOWN_MAX])


def of_rows(rows: Sequence[Later]) -> Later:
    """Return the one there is; none of a look that was made by hand."""
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
