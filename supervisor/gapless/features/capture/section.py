"""Captured tables that do not publish every change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gapless.status.section import Rank, StatusSection


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultyCapture:
    """A captured table that misses changes or their order, and the command that helps."""

    table: str
    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"capture of {self.table}: {self.problem}; {self.remedy}"


def _first_problem(rows: Sequence[FaultyCapture]) -> Iterator[str]:
    """Name the first problem; `gapless capture` shows all."""
    return map(str, rows[:1])


SECTION = StatusSection(
    record=FaultyCapture,
    query=("capture", "in_status"),
    key="captures",
    rank=Rank(document=20, table=20, problem=30),
    head=("CAPTURED", "PROBLEM", "REMEDY"),
    cells=lambda each: (each.table, each.problem, each.remedy),
    problems=_first_problem,
)
