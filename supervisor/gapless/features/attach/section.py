"""Attached tables that do not publish every row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gapless.status.section import Rank, StatusProblem, StatusSection


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultyAttachment:
    """An attached table with unpublished or changed rows, and the command that helps."""

    table: str
    problem: str
    remedy: str


def _problems(rows: Sequence[FaultyAttachment]) -> Iterator[StatusProblem]:
    return (
        StatusProblem(f"attachment of {each.table}: {each.problem}", each.remedy) for each in rows
    )


SECTION = StatusSection(
    record=FaultyAttachment,
    query=("attach", "in_status"),
    key="attachments",
    rank=Rank(document=30, problem=70),
    problems=_problems,
)
