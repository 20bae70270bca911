"""Captured tables that do not publish every change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gapless.status.section import Rank, StatusProblem, StatusSection


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultyCapture:
    """A captured table that misses changes or their order, and the command that helps."""

    table: str
    problem: str
    remedy: str


def _problems(rows: Sequence[FaultyCapture]) -> Iterator[StatusProblem]:
    for each in rows:
        command = each.remedy.partition(", ")[0]
        said = f"capture of {each.table}: {each.problem}"
        yield StatusProblem(said, each.remedy, command=command)


SECTION = StatusSection(
    record=FaultyCapture,
    query=("capture", "in_status"),
    key="captures",
    rank=Rank(document=20, problem=30),
    problems=_problems,
)
