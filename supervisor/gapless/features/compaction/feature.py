"""The record of compaction: its parts for rooms that know no feature."""

from __future__ import annotations

from collections.abc import Sequence

from gapless.feature import Check, Duty, Feature


def _checks() -> Sequence[Check]:
    from gapless.features.compaction.checks import compaction

    return (compaction,)


def _duties() -> Sequence[Duty]:
    from gapless.features.compaction.duty import Compactor

    return (Compactor,)


COMPACTION = Feature(
    checks=_checks,
    duties=_duties,
)
