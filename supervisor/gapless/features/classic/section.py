"""Classic names that do not show or announce their groups or topics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gapless.status.section import Rank, StatusProblem, StatusSection


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultyClassic:
    """A classic name that shows or announces nothing although it should, and the remedy."""

    name: str
    problem: str
    remedy: str


def _problems(rows: Sequence[FaultyClassic]) -> Iterator[StatusProblem]:
    return (
        StatusProblem(f"classic {each.name}: {each.problem}", each.remedy, command=each.remedy)
        for each in rows
    )


SECTION = StatusSection(
    record=FaultyClassic,
    query=("classic", "in_status"),
    key="classic",
    rank=Rank(document=40, problem=80),
    problems=_problems,
)
