"""Classic names that do not show or announce their groups or topics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gapless.status.section import Rank, StatusSection


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultyClassic:
    """A classic name that shows or announces nothing although it should, and the remedy."""

    name: str
    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"classic {self.name}: {self.problem}; {self.remedy}"


def _first_problem(rows: Sequence[FaultyClassic]) -> Iterator[str]:
    """Name the first problem; `gapless doctor` shows all."""
    return map(str, rows[:1])


SECTION = StatusSection(
    record=FaultyClassic,
    query=("classic", "in_status"),
    key="classic",
    rank=Rank(document=40, table=70, problem=80),
    head=("CLASSIC", "PROBLEM", "REMEDY"),
    cells=lambda each: (each.name, each.problem, each.remedy),
    problems=_first_problem,
)
