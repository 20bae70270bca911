"""Unused groups that expire soon (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gapless.status.section import Rank, StatusProblem, StatusSection
from gapless.status.words import age, some


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiring:
    """A group in the last tenth of its time: idle_s seconds without use, dropped in left_s seconds.

    set_aside: units that go with it.
    """

    group_id: str
    idle_s: float
    left_s: float
    set_aside: int


def _problems(rows: Sequence[Expiring]) -> Iterator[StatusProblem]:
    return map(_problem, rows)


def _problem(each: Expiring) -> StatusProblem:
    units = f", with {some(each.set_aside, 'unit')} set aside" if each.set_aside else ""
    keep = f"gapless groups expire {each.group_id} --never"
    return StatusProblem(
        f"group {each.group_id} is dropped in {age(each.left_s)}{units}, for it has not been used "
        f"for {age(each.idle_s)}",
        f"{keep} keeps it",
        since_s=each.idle_s,
        command=keep,
    )


SECTION = StatusSection(
    record=Expiring,
    query=("expiry", "in_status"),
    key="expiring",
    rank=Rank(document=80, problem=40),
    problems=_problems,
)
