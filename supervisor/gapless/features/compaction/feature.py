"""The record of compaction: its parts for rooms that know no feature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gapless.feature import Check, Duty, Feature

if TYPE_CHECKING:
    from gapless.status.section import StatusSection


def _checks() -> Sequence[Check]:
    from gapless.features.compaction.checks import compaction

    return (compaction,)


def _duties() -> Sequence[Duty]:
    from gapless.features.compaction.duty import Compactor

    return (Compactor,)


def _sections() -> Sequence[StatusSection[Any]]:
    from gapless.features.compaction import section

    return (section.SECTION,)


COMPACTION = Feature(
    checks=_checks,
    duties=_duties,
    sections=_sections,
)
