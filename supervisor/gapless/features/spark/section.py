"""Pipelines in a look: the groups that they serve, in place of supervisors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gapless.status.section import Rank, StatusSection


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineRunner:
    """A pipeline, and the instance that runs it or waits to; None: there is none."""

    name: str
    runner: str | None


def _serves(rows: Sequence[PipelineRunner]) -> Mapping[str, tuple[str | None, str]]:
    return {
        f"pipeline.{row.name}": (row.runner, f"gapless pipeline run {row.name}") for row in rows
    }


SECTION = StatusSection(
    record=PipelineRunner,
    query=("spark", "in_status"),
    key="pipelines",
    rank=Rank(document=12),
    serves=_serves,
)
