"""What compaction adds to the rooms of all."""

from __future__ import annotations

from collections.abc import Sequence

from gapless.feature import Check, Feature


def _checks() -> Sequence[Check]:
    from gapless.features.compaction.checks import compaction

    return (compaction,)


COMPACTION = Feature(
    checks=_checks,
)
