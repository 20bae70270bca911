"""Attached tables that do not publish every row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gapless.status.section import Rank, StatusSection


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultyAttachment:
    """An attached table with unpublished or changed rows, and the command that helps."""

    table: str
    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"attachment of {self.table}: {self.problem}; {self.remedy}"


def _first_problem(rows: Sequence[FaultyAttachment]) -> Iterator[str]:
    """Name the first problem; `gapless attach` shows all."""
    return map(str, rows[:1])


SECTION = StatusSection(
    record=FaultyAttachment,
    query=("attach", "in_status"),
    key="attachments",
    rank=Rank(document=30, table=60, problem=70),
    head=("ATTACHED", "PROBLEM", "REMEDY"),
    cells=lambda each: (each.table, each.problem, each.remedy),
    problems=_first_problem,
)
